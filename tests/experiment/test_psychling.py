"""Answers in the format of PsychLing-101, and back to choices."""

import pandas as pd
from studies import ATTENTION, RECRUITER, add
from talking import play

from contstim.cli import main
from contstim.evaluation import read_choices
from contstim.experiment.psychling import psychling_tables
from contstim.experiment.store import Store


def test_a_study_is_written_and_read_again(study, tmp_path, capsys):
    study = add(study, ATTENTION + RECRUITER)
    with Store(study) as store:
        play(store, "GOOD")
        play(store, "POOR", catch=1)
    out = tmp_path / "collected"
    assert main(["experiment", "export", str(study.folder), "--psychling", "--out", str(out)]) == 0
    assert f"{out / 'psychling'}: exp1.csv and CODEBOOK.csv" in capsys.readouterr().out
    written = pd.read_csv(out / "psychling" / "processed_data" / "exp1.csv")
    codebook = pd.read_csv(out / "psychling" / "CODEBOOK.csv")
    assert codebook.columns.tolist() == ["Recommended Column Name", "Description"]
    assert codebook["Recommended Column Name"].tolist() == written.columns.tolist()
    assert codebook["Description"].notna().all()
    names = ["participant_id", "trial_id", "list", "rt", "stimulus_number"]
    assert written.columns.tolist()[:5] == names
    before = pd.read_csv(out / "choices.csv")
    assert len(written) == len(before) == 12
    for theirs, ours in zip(
        names, ["participant", "trial", "group", "rt_ms", "stimulus"], strict=True
    ):
        assert written[theirs].tolist() == before[ours].tolist()
    assert (written["trial_order"] == before["trial"] - 1).all()
    both = before[["sentence_1", "sentence_2"]].to_numpy()
    for row, texts, side in zip(written.itertuples(), both, before["side_1"], strict=True):
        left, right = texts if side == "left" else texts[::-1]
        assert row.stimulus == f"{left} | {right}"
        assert row.response == texts[int(row.rating > 0)]
    # The one catch trial that POOR failed.
    assert written["accuracy"].dropna().tolist().count(0) == 1
    assert written["accuracy"].notna().sum() == 4
    first, again = (
        read_choices(path).choices.astype({"trial": int})
        for path in (out / "choices.csv", out / "psychling" / "processed_data" / "exp1.csv")
    )
    same = ["participant", "trial", "condition", "sentence_1", "sentence_2", "model_1", "model_2"]
    pd.testing.assert_frame_equal(
        first[[*same, "rating", "rt_ms"]], again[[*same, "rating", "rt_ms"]], check_dtype=False
    )
    notes = read_choices(out / "psychling" / "processed_data" / "exp1.csv").notes
    assert notes[0].startswith("Read as a PsychLing-101 export: participant from 'participant_id'")


def test_sentences_that_were_rated():
    answers = pd.DataFrame(
        {
            "participant": ["p", "p"], "group": [1, 1], "trial": [1, 2],
            "sentence": ["Dogs run.", "Run dogs."],
            "choice": [5, 2], "right": [None, False], "rt_ms": [900, 800], "list": ["x", "y"],
        }
    )  # fmt: skip
    table, codebook = psychling_tables(answers, {"choice": "The rating.", "list": "Frames."})
    assert table["response"].tolist() == [5, 2]
    assert table["accuracy"].isna().tolist() == [True, False]
    assert table["accuracy"][1] == 0
    assert table["stimulus"].tolist() == answers["sentence"].tolist()
    assert table["list_given"].tolist() == ["x", "y"]
    both = answers.assign(word=["dog", "run"])
    made, _ = psychling_tables(both, {}, ("word", "sentence"))
    assert made["stimulus"].tolist() == ["dog | Dogs run.", "run | Run dogs."]
    texts = codebook.set_index("Recommended Column Name")["Description"]
    assert texts[["choice", "list_given"]].tolist() == ["The rating.", "Frames."]
