"""Test published folders: Psych-DS, pseudonyms, withheld sentences and checksums.

Tests `contstim.benchmarks.publishing` and `contstim.benchmarks.commands.publish`.
"""

from __future__ import annotations

import itertools
import json
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from client_messages import play
from psychds_rules import check_psychds
from studies import RECRUITER, add, make_trials

from contstim import evaluate, read_choices
from contstim.benchmarks.publishing import DataSetDescription, publish
from contstim.cli import main
from contstim.errors import InputError, OutputError
from contstim.experiment.scaffold import create_study
from contstim.experiment.store import Store
from contstim.files import file_digest

ABOUT = DataSetDescription(
    "Who walked home", ("Ada Example", "Ben Example"), "CC-BY-4.0", "About walks."
)
PEOPLE = [f"5f3e9a0{k:x}77b2c4d{k:x}" for k in range(6)]
SECRET = "The 0 old men didn't walk to their caf\u00e9 again \u2014 ever."


def make_choices(pairs: int = 6) -> pd.DataFrame:
    """Return choices between sentences with columns that should not be published."""
    rng = np.random.default_rng(1)
    rows = []
    for person, k in itertools.product(PEOPLE, range(pairs)):
        rows.append(
            {
                "participant": person,
                "trial": k + 1,
                "condition": "natural",
                "sentence_1": SECRET.replace("0", str(k)),
                "sentence_2": f"A {k} young man ran off there.",
                "model_1": "m1",
                "model_2": "m2",
                "rating": rng.choice([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]),
                "mail": f"{person}@example.org",
                "session": f"session of {person}",
            }
        )
    return pd.DataFrame(rows)


def make_scores(choices: pd.DataFrame) -> pd.DataFrame:
    sentences = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel())
    rng = np.random.default_rng(2)
    columns = {model: -30 - 5 * rng.random(len(sentences)) for model in ("m1", "m2")}
    return pd.DataFrame({"sentence": sentences, **columns})


def texts_of(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().decode("utf-8", "replace")
        for path in files
    }


@pytest.fixture(scope="module")
def published_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder published by the command, with one withheld sentence."""
    folder = tmp_path_factory.mktemp("published")
    choices = make_choices()
    choices.to_csv(folder / "choices.csv", index=False)
    make_scores(choices).to_csv(folder / "scores.csv", index=False)
    (folder / "licensed.txt").write_text(f"{SECRET}\nNobody saw this one.\n", "utf-8")
    command = ["publish", str(folder / "choices.csv"), "--title", ABOUT.title]
    command += ["--author", "Ada Example", "--author", "Ben Example", "--licence", "CC-BY-4.0"]
    command += ["--scores", str(folder / "scores.csv"), "--withhold", str(folder / "licensed.txt")]
    assert main([*command, "--out", str(folder / "out")]) == 0
    return folder


def test_published_folder_is_psychds_with_checksums(published_folder: Path) -> None:
    out = published_folder / "out"
    assert check_psychds(out) == {
        "data/study-Whowalkedhome_task-choices_data.csv": 36,
        "data/study-Whowalkedhome_task-scores_data.csv": 24,
    }
    description = json.loads((out / "dataset_description.json").read_text("utf-8"))
    assert description["author"] == ["Ada Example", "Ben Example"]
    assert description["license"] == "CC-BY-4.0"
    lines = (out / "SHA256SUMS").read_text("utf-8").splitlines()
    sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    assert {*sums} == {*texts_of(out)} - {"SHA256SUMS"}
    assert all(file_digest(out / name) == digest for name, digest in sums.items())
    readme = (out / "README.md").read_text("utf-8")
    assert "6 participants made 36 choices between the two sentences of 6 pairs" in readme
    assert "1 sentences may not be published" in readme


def test_publishing_uses_pseudonyms_and_listed_columns(
    published_folder: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(published_folder / "out/data/study-Whowalkedhome_task-choices_data.csv")
    assert table["participant"].unique().tolist() == ["p1", "p2", "p3", "p4", "p5", "p6"]
    assert not {"mail", "session"} & {*table}
    everything = "".join(texts_of(published_folder / "out").values())
    assert not any(person in everything for person in PEOPLE)
    human = read_choices(make_choices().assign(place=["here", "there"] * 18))
    publish(human, ABOUT, tmp_path / "out", columns=["place"])
    table = pd.read_csv(tmp_path / "out/data/study-Whowalkedhome_task-choices_data.csv")
    assert table["place"].tolist() == ["here", "there"] * 18
    with pytest.raises(InputError, match="the choices have no column 'x'"):
        publish(human, ABOUT, tmp_path / "other", columns=["x"])
    with pytest.raises(InputError, match="choices_data.csv would contain the id of a participant"):
        publish(human, ABOUT, tmp_path / "other", columns=["session"])
    assert not (tmp_path / "other").exists()
    with pytest.raises(OutputError, match="out exists"):
        publish(human, ABOUT, tmp_path / "out")


SPELLINGS = {
    "as it is": SECRET,
    "other final mark": SECRET.replace("ever.", "ever!"),
    "no final mark": SECRET.removesuffix("."),
    "lower case": SECRET.lower(),
    "curly apostrophe": SECRET.replace("'", "\u2019"),
    "dash": SECRET.replace("\u2014", "-"),
    "NFD": unicodedata.normalize("NFD", SECRET),
    "quotes": f"\u201c{SECRET}\u201d",
    "space before the period": SECRET.replace("ever.", "ever ."),
    "soft hyphen": SECRET.replace("again", "a\u00adgain"),
    "zero-width space": SECRET.replace("again", "a\u200bgain"),
    "two spaces": SECRET.replace("old men", "old  men"),
    "no-break space": SECRET.replace("old men", "old\u00a0men"),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_withheld_sentences_match_other_spellings(tmp_path: Path, spelling: str) -> None:
    human = read_choices(make_choices())
    publish(human, ABOUT, tmp_path / "out", withheld=[spelling])
    table = pd.read_csv(tmp_path / "out/data/study-Whowalkedhome_task-choices_data.csv")
    shown = {*table["sentence_1"], *table["sentence_2"]}
    assert "withheld sentence 1" in shown
    assert not any("0 old" in text for text in texts_of(tmp_path / "out").values())


def test_withheld_sentences_in_the_description_are_rejected(tmp_path: Path) -> None:
    human = read_choices(make_choices())
    about = DataSetDescription(
        "Walks", ("Ada",), "MIT", f"We asked whether {SECRET.lower()} is good"
    )
    with pytest.raises(InputError, match="would contain a withheld sentence"):
        publish(human, about, tmp_path / "out", withheld=[SECRET])


def test_published_data_give_the_same_evaluation(published_folder: Path) -> None:
    direct = evaluate(
        read_choices(published_folder / "choices.csv"), make_scores(make_choices())
    ).models
    data = published_folder / "out/data"
    human = read_choices(data / "study-Whowalkedhome_task-choices_data.csv")
    scores = pd.read_csv(data / "study-Whowalkedhome_task-scores_data.csv")
    published = evaluate(human, scores).models
    np.testing.assert_allclose(published["value"], direct["value"])
    results = pd.read_csv(published_folder / "out/results/models.csv")
    np.testing.assert_allclose(results["value"], direct["value"])


def test_participant_ids_in_another_case_are_rejected(tmp_path: Path) -> None:
    choices = make_choices()
    choices["group"] = choices["participant"].str.upper()
    with pytest.raises(InputError, match="would contain the id of a participant"):
        publish(read_choices(choices), ABOUT, tmp_path / "out")


def test_studies_without_complete_sessions_are_not_published(tmp_path: Path, capsys) -> None:
    make_trials(participants=4).to_csv(tmp_path / "trials.csv", index=False)
    study = add(create_study(tmp_path / "study", tmp_path / "trials.csv"), RECRUITER)
    command = ["publish", str(study.folder), "--title", "Walks", "--author", "Ada Example"]
    command += ["--licence", "CC0-1.0", "--out", str(tmp_path / "out")]
    with Store(study) as store:
        play(store, "5f3e9a1c77b2c4d0aa919", n=2)
        assert main(command) == 2
        assert "nobody has answered every trial" in capsys.readouterr().err
        for number in range(5):
            play(store, f"5f3e9a1c77b2c4d0aa91{number}")
    assert main(command) == 0
    everything = "".join(texts_of(tmp_path / "out").values())
    for secret in ("5f3e9a1c77b2c4d0aa91", "answered_at", "prolific", "PROLIFIC_PID"):
        assert secret not in everything
    table = pd.read_csv(tmp_path / "out/data/study-Walks_task-choices_data.csv")
    assert table["participant"].unique().tolist() == ["p1", "p2", "p3", "p4", "p5"]
    assert not (tmp_path / "out/results").exists()
    assert main([*command, "--format", "tidy"]) == 2
    assert "--format tidy is for tables" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "x.db"], "--data x.db is for a study folder"),
        (["--format", "tidi"], "unknown format 'tidi'"),
    ],
)
def test_incompatible_options_are_rejected(
    published_folder: Path, options: list[str], message: str, capsys
) -> None:
    command = ["publish", str(published_folder / "choices.csv"), "--title", "T", "--author", "A"]
    assert (
        main([*command, "--licence", "MIT", "--out", str(published_folder / "new"), *options]) == 2
    )
    assert message in capsys.readouterr().err
