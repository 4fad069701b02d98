"""Test the importers of choices and the form of their result.

Tests `contstim.evaluation.importers`, `contstim.evaluation.importers.combine` and
`contstim.evaluation.importers.golan2023`.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.errors import InputError, UnknownNameError
from contstim.evaluation import (
    CHOICE_COLUMNS,
    combine_choices,
    join_participants,
    read_choices,
)
from contstim.evaluation.importers import FORMATS


def golan_rows():
    columns = [
        *("subject", "Trial Number", "Zone Name", "Reaction Time", "counterbalance-o1ql"),
        *("sentence1", "sentence2", "sentence1_type", "sentence2_type"),
        *("sentence1_model", "sentence2_model", "sentence1_x_prob", "sentence2_x_prob"),
        *("sentence1_y_prob", "sentence2_y_prob"),
    ]
    rows = [
        # Synthetic pair, S2 on the left: the file gives the accepting model of each.
        (0, 1, "resp2", 900, "set 3_1", "Zed", "Able", "S2", "S1", "y", "x", -9, -2, -3, -8),
        # Natural pair: N1 is rejected by the first model.
        (0, 2, "resp6", 800, "set 3_1", "Bee", "Cow", "N1", "N2", "x", "y", -9, -2, -3, -8),
        # Natural with synthetic: x gives the synthetic sentence more, so x accepts it.
        (0, 3, "resp4", 700, "set 3_1", "Dog", "Eel", "N", "S1", "x", "y", -5, -4, -5, -9),
        # The same with the synthetic sentence on the left, and y the one that accepts it.
        (0, 6, "resp4", 700, "set 3_1", "Jay", "Kite", "S2", "N", "x", "y", -9, -4, -5, -6),
        (0, 4, "resp1", 700, "set 3_1", "Fox", "Gnu", "C1", "C2", "all", "all", -1, -9, -1, -9),
        (0, 5, "resp3", 700, "set 3_1", "Hen", "Ibex", "R1", "R2", "all", "all", -1, -2, -1, -2),
        (1, 1, "resp5", 700, "set 3_2", "Able", "Zed", "S1", "S2", "x", "y", -2, -9, -8, -3),
        (1, 2, "resp5", 700, "set 3_2", "Zed", "Able", "S2", "S1", "y", "x", -9, -2, -3, -8),
    ]
    return pd.DataFrame(rows, columns=columns)


def test_golan2023_format_is_read_from_a_raw_file(tmp_path):
    path = tmp_path / "raw.csv"
    golan_rows().to_csv(path, index=False)
    human = read_choices(path, "golan2023")
    choices = human.choices.set_index(["participant", "trial"])
    synthetic = choices.loc[("0", 1)]
    assert (synthetic["sentence_1"], synthetic["model_1"]) == ("Able", "x")
    assert synthetic["rating"] == 1.5  # resp2 favoured Zed, which is now sentence 2
    assert choices.loc[("1", 1), "rating"] == 1.5
    natural = choices.loc[("0", 2)]
    assert (natural["model_1"], natural["model_2"]) == ("y", "x")
    mixed = choices.loc[("0", 3)]
    assert (mixed["kind_2"], mixed["model_1"], mixed["model_2"]) == ("S", "y", "x")
    other = choices.loc[("0", 6)]
    assert (other["kind_1"], other["model_1"], other["model_2"]) == ("S", "y", "x")
    catch = choices.loc[("0", 4)]
    assert (catch["condition"], catch["expected"]) == ("natural_vs_shuffled", 1)
    assert pd.isna(catch["model_1"])
    assert choices.loc[("0", 5), "condition"] == "randomly_sampled_natural"
    assert human.choices["group"].unique().tolist() == ["3"]
    assert human.excluded[["rule", "participant", "n_rows"]].to_numpy().tolist() == [
        ["repeated trial", "1", 1]
    ]
    scores = human.scores.set_index("sentence")
    assert list(scores.columns) == ["x", "y"]
    assert human.notes == ("Trials by kind: 6 experimental, 1 catch.",)
    renamed = golan_rows().rename(columns=lambda c: c.replace("_y_", "_x_has_a_mouth_"))
    notes = read_choices(renamed.replace("y", "x_has_a_mouth"), "golan2023").notes
    assert "scored by pseudo-log-likelihood, after the paper 'BERT has a mouth'" in " ".join(notes)
    assert scores.loc["Zed"].tolist() == [-9, -3]


def test_unclear_acceptance_leaves_a_trial_without_targets():
    rows = golan_rows()
    rows.loc[2, "sentence2_y_prob"] = -1
    human = read_choices(rows, "golan2023")
    assert pd.isna(human.choices.set_index("sentence_1").loc["Dog", "model_1"])
    assert human.notes[0].startswith("1 rows pair a natural with a synthetic sentence")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("Zone Name", "resp7", "unknown response 'resp7' (row 2)"),
        ("sentence1_type", "X1", "unknown sentence type 'X1' (row 2)"),
        ("sentence1_type", "C1", "no trial compares sentence types 'CN' (row 2)"),
    ],
)
def test_golan2023_format_rejects_unknown_codes(column, value, message):
    rows = golan_rows().astype({column: object})
    rows.loc[1, column] = value
    with pytest.raises(InputError) as caught:
        read_choices(rows, "golan2023")
    assert str(caught.value) == message


def test_golan2023_format_names_the_missing_column():
    with pytest.raises(InputError, match="has no column 'Zone Name'"):
        read_choices(golan_rows().drop(columns="Zone Name"), "golan2023")


def jspsych_trials():
    return [
        {"trial_type": "instructions", "participant": "p", "trial_index": 0},
        {
            "participant": "p",
            "trial_index": 1,
            "sentence_1": "A",
            "sentence_2": "B",
            "response": 0,
            "n_choices": 6,
            "rt": 812.5,
        },
        {
            "participant": "p",
            "trial_index": 2,
            "sentence_1": "C",
            "sentence_2": "D",
            "response": 4,
            "n_choices": 6,
            "swapped": True,
            "rt": 700,
        },
    ]


def test_invalid_jspsych_data_are_rejected(tmp_path):
    frame = pd.DataFrame(jspsych_trials())
    with pytest.raises(
        InputError,
        match=r"which columns contain participant\? Correct this proposal: read_choices",
    ):
        read_choices(frame.drop(columns="participant"), "jspsych")
    bad = frame.copy()
    bad.loc[2, "response"] = 6
    with pytest.raises(InputError, match=r"response 6 is not one of 6 buttons \(row 3\)"):
        read_choices(bad, "jspsych")
    with pytest.raises(InputError, match="contains two sentences"):
        read_choices(frame.iloc[:1], "jspsych")
    broken = tmp_path / "x.json"
    broken.write_text("{not json")
    with pytest.raises(InputError, match="is not JSON"):
        read_choices(broken, "jspsych")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"null", "'{}' contains None instead of a trial"),
        (b'{"trials": 3}', "'{}' contains 3 instead of a trial"),
        (b"[" * 100_000, "'{}' is not JSON: it has too many levels of nested values"),
        (
            b'[{"a": "\xe9"}]',
            "{}, line 1 is not UTF-8 text (invalid continuation byte); save the file as UTF-8",
        ),
    ],
)
def test_json_without_trials_is_rejected(data, message, tmp_path):
    path = tmp_path / "data.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_choices(path, "jspsych")
    assert str(caught.value) == message.format(path)


def test_json_with_byte_order_mark_and_line_separators_is_read(tmp_path):
    path = tmp_path / "data.jsonl"
    trial = {"participant": "p", "sentence_1": "a\u2028b", "sentence_2": "c", "rating": 2.5}
    lines = [json.dumps({**trial, "sentence_2": word}, ensure_ascii=False) for word in "cd"]
    path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8", newline="")
    assert read_choices(path, "jspsych").choices["sentence_2"].tolist() == ["c", "d"]


def test_jspsych_needs_a_valid_number_of_buttons():
    frame = pd.DataFrame(jspsych_trials()).drop(columns=["n_choices", "swapped"])
    frame["response"] = frame["response"].clip(upper=1)
    with pytest.raises(InputError) as caught:
        read_choices(frame, "jspsych")
    assert str(caught.value) == (
        "the data do not say how many buttons there were (rows 2 and 3); add a column "
        "'n_choices', or give the number: read_choices(table, n_choices=2)"
    )
    assert read_choices(frame, "jspsych", n_choices=2).choices["rating"].tolist() == [-2.5, 2.5]
    own = frame.assign(n_choices=[np.nan, 2, np.nan])
    with pytest.raises(InputError, match=r"how many buttons there were \(row 3\)"):
        read_choices(own, "jspsych")
    assert read_choices(own, "jspsych", n_choices=6).choices["rating"].tolist() == [-2.5, -1.5]
    for wrong in ("two", 2.5, 1, "inf"):
        with pytest.raises(InputError) as caught:
            read_choices(frame.assign(n_choices=wrong), "jspsych")
        assert str(caught.value) == (
            f"n_choices {wrong!r} is not a number of buttons, at least 2 (rows 2 and 3)"
        )


@pytest.mark.parametrize("name", ["swapped", "flipped"])
def test_jspsych_side_columns_accept_common_spellings(name):
    frame = pd.DataFrame(jspsych_trials()).drop(columns="swapped")
    for yes, no in (
        *((True, False), (1, 0), (1.0, 0.0), ("1", "0"), ("true", "FALSE"), ("Yes", "no")),
        *(("YES ", None), ("y", "N"), ("t", "F")),
    ):
        ratings = read_choices(frame.assign(**{name: [None, yes, no]}), "jspsych").choices["rating"]
        assert ratings.tolist() == [2.5, 1.5], (yes, no)
    for odd in ("left", "2", 2, ""):
        with pytest.raises(InputError) as caught:
            read_choices(frame.assign(**{name: [None, "no", odd]}), "jspsych")
        assert (
            str(caught.value) == f"{name} {odd!r} is not a side (row 3); it must be true or false"
        )


def test_two_jspsych_side_columns_are_rejected():
    frame = pd.DataFrame(jspsych_trials()).assign(flipped=True)
    with pytest.raises(
        InputError, match="both 'swapped' and 'flipped'; name the column that says where"
    ):
        read_choices(frame, "jspsych")


def tidy_rows():
    return pd.DataFrame(
        {
            "participant": ["p", "p", "q"],
            "sentence_1": ["B b.", "C c.", "A a."],
            "sentence_2": ["A a.", "D d.", "B b."],
            "rating": [0.5, -2.5, 1.5],
        }
    )


# A file of each format, and the columns that hold its participants and first sentences.
EXAMPLES = {
    "tidy": (tidy_rows, "participant", "sentence_1"),
    "golan2023": (golan_rows, "subject", "sentence1"),
    "jspsych": (lambda: pd.DataFrame(jspsych_trials()), "participant", "sentence_1"),
}


# What ``auto`` takes a file for is told in test_export_files.py.
@pytest.mark.parametrize("name", sorted({*FORMATS} - {"auto"}))
def test_importers_return_normalised_choices(name, tmp_path):
    make, participant, sentence = EXAMPLES[name]
    rows = make()
    given = rows.copy(deep=True)
    human = read_choices(rows, name)
    pd.testing.assert_frame_equal(rows, given)  # what was handed in is left alone
    choices = human.choices
    assert tuple(choices.columns[: len(CHOICE_COLUMNS)]) == CHOICE_COLUMNS
    assert (choices["sentence_1"] < choices["sentence_2"]).all()
    assert choices["rating"].between(-2.5, 2.5).all()
    assert all(isinstance(who, str) for who in choices["participant"])
    assert list(human.excluded.columns) == ["rule", "participant", "n_rows", "detail"]
    # Every row is a choice, reported as left out, or passed over with a note.
    numbers = re.findall(r"(\d+) rows? ha(?:s|ve) no", " ".join(human.notes))
    passed_over = sum(map(int, numbers))
    assert len(choices) + human.excluded["n_rows"].sum() + passed_over == len(rows)
    # The same from a file, and again from what was read.
    path = tmp_path / "file.csv"
    rows.to_csv(path, index=False)
    for again in (read_choices(path, name), read_choices(choices, "tidy")):
        columns = [*CHOICE_COLUMNS[:6], "rating"]
        pd.testing.assert_frame_equal(again.choices[columns], choices[columns], check_dtype=False)
    # Messages count the rows of the file.
    broken = rows.astype({participant: object})
    last = broken.index[-1]
    broken.loc[last, participant] = None
    with pytest.raises(InputError, match=rf"a row has no participant \(row {last + 1}\)"):
        read_choices(broken, name)
    with pytest.raises(InputError, match=sentence.rstrip("_1")):
        read_choices(rows.drop(columns=sentence), name)
    with pytest.raises(InputError, match="there is no file"):
        read_choices(tmp_path / "none.csv", name)


def test_unknown_formats_and_missing_files_are_rejected(tmp_path):
    with pytest.raises(
        InputError, match="reads one table or file, not a list; combine several with"
    ):
        read_choices([tmp_path / "x.csv"])
    with pytest.raises(UnknownNameError, match="unknown format 'golan'"):
        read_choices(tmp_path / "x.csv", "golan")
    with pytest.raises(InputError, match="there is no file"):
        read_choices(tmp_path / "x.csv")


def test_files_with_shared_participants_need_a_condition(tmp_path, capsys):
    """Two experiments on the same pairs: a plain table, and an export with sides."""
    texts = [(f"The dog {verb} now.", f"The {verb} dog now.") for verb in ("ran", "sat", "ate")]
    people = [f"p{n}" for n in range(5)]
    first = pd.DataFrame(
        [(who, *pair, 2.5) for who in people for pair in texts],
        columns=["participant", "sentence_1", "sentence_2", "rating"],
    )
    second = first.rename(columns={"rating": "answer"}).assign(answer="left", trial_type="x")
    second["side"] = "left"
    (tmp_path / "e1.csv").write_text(first.to_csv(index=False))
    (tmp_path / "e2.csv").write_text(second.to_csv(index=False, sep=";"))
    scores = pd.DataFrame(
        {"sentence": [s for pair in texts for s in pair], "a": [-2.0, -1] * 3, "b": [-1.0, -2] * 3}
    )
    scores.to_csv(tmp_path / "scores.csv", index=False)
    both = {
        "e1": read_choices(first),
        "e2": read_choices(tmp_path / "e2.csv", columns={"response": "answer", "side": "side"}),
    }
    with pytest.raises(
        InputError, match="^participant 'p0' is in e1 and in e2; .*--condition file"
    ):
        combine_choices(both)
    human = combine_choices(both, separate=True)
    assert human.choices["file"].value_counts().to_dict() == {"e1": 15, "e2": 15}
    assert human.choices["participant"].nunique() == 10
    assert human.notes[-2:] == (
        "2 files are separate data sets, compared by the column 'file'.",
        "5 participant names occur in several files, for example 'p0'; they denote different "
        "participants.",
    )
    items = human.choices.groupby(["sentence_1", "sentence_2"])["item"].nunique()
    assert (items == 1).all()
    (tmp_path / "listed.csv").write_text("participant\ne1: p0\n")
    out = tmp_path / "out"
    asked = ["evaluate", str(tmp_path / "e1.csv"), str(tmp_path / "e2b.csv")]
    (tmp_path / "e2b.csv").write_text(first.assign(rating=-2.5).to_csv(index=False))
    listed = ["--exclude", f"participants={tmp_path / 'listed.csv'}"]
    given = ["--scores", str(tmp_path / "scores.csv"), "--out", str(out)]
    assert main([*asked, *given]) == 2
    given += ["--condition", "file"]
    assert main([*asked, *given, *listed]) == 0
    assert "2 files are separate data sets" in (out / "report.html").read_text("utf-8")
    models = pd.read_csv(out / "models.csv").set_index(["analysis", "measure", "model"])
    assert models.loc[("all, file e1", "accuracy", "a"), "value"] == 1
    assert models.loc[("all, file e2b", "accuracy", "a"), "value"] == 0
    assert models.loc[("all, file e1", "accuracy", "a"), "n_participants"] == 4
    excluded = pd.read_csv(out / "excluded.csv")
    assert excluded[["rule", "participant", "n_rows"]].to_numpy().tolist() == [
        ["listed", "e1: p0", 3]
    ]
    capsys.readouterr()
    assert main([asked[0], asked[1], asked[1], *given]) == 2
    assert "a file of choices is named twice" in capsys.readouterr().err
    (tmp_path / "list.txt").write_text("p0\n")
    assert main([*asked, *given, "--exclude", f"participants={tmp_path / 'list.txt'}"]) == 2
    assert "there is no participant 'p0' to exclude" in capsys.readouterr().err
    with pytest.raises(InputError, match="^e1 has a column 'file' already; rename it"):
        combine_choices({"e1": read_choices(first.assign(file="x")), "e2": both["e1"]}, True)
    with pytest.raises(InputError, match="has conflicting conditions .*as a condition$"):
        combine_choices({n: read_choices(first.assign(condition=n)) for n in ("e1", "e2")}, True)


def test_item_labels_match_across_files():
    texts = [(f"Good {k}.", f"Poor {k}.") for k in range(4)]
    rows = [(f"p{p}", k // 2, *pair, 2.5) for p in range(3) for k, pair in enumerate(texts)]
    columns = ["participant", "item", "sentence_1", "sentence_2", "rating"]
    numbers = pd.DataFrame(rows, columns=columns)
    as_texts = numbers.assign(item=numbers["item"].astype(str) + " ")
    human = combine_choices({"e1": read_choices(numbers), "e2": read_choices(as_texts)}, True)
    assert set(human.choices["item"]) == {"0", "1"}


def test_files_without_shared_participants_are_one_data_set(tmp_path, capsys):
    texts = [(f"The dog {verb} now.", f"The {verb} dog now.") for verb in ("ran", "sat", "ate")]
    columns = ["participant", "sentence_1", "sentence_2", "rating"]
    whole = pd.DataFrame(
        [(f"p{who}", *pair, 2.5) for who in range(4) for pair in texts], columns=columns
    )
    paths = []
    for who, rows in whole.groupby("participant"):
        paths.append(str(tmp_path / f"{who}.csv"))
        rows.to_csv(paths[-1], index=False)
    whole.head(2).to_csv(tmp_path / "p0.partial.csv", index=False)
    asked = ["evaluate", *paths, str(tmp_path / "p0.partial.csv")]
    out = tmp_path / "out"
    scores = pd.DataFrame({"sentence": [s for pair in texts for s in pair], "a": [-2.0, -1] * 3})
    scores.to_csv(tmp_path / "scores.csv", index=False)
    assert main([*asked, "--scores", str(tmp_path / "scores.csv"), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "p0.partial.csv was left out: the complete file is there too." in said
    note = "4 files were combined into one data set of 4 participants."
    assert note in said
    assert said.count("Read as a choices table (format tidy).") == 1
    assert note in (out / "report.html").read_text("utf-8")
    models = pd.read_csv(out / "models.csv")
    assert set(models["analysis"]) == {"all"}
    assert set(models["n_participants"]) == {4}


def test_exclusion_rules_are_checked_before_loading_models(tmp_path, capsys):
    columns = ["participant", "sentence_1", "sentence_2", "rating"]
    pd.DataFrame([("p", "A b.", "B a.", 2.5)], columns=columns).to_csv(
        tmp_path / "choices.csv", index=False
    )
    asked = ["evaluate", str(tmp_path / "choices.csv"), "--out", str(tmp_path / "out")]
    models = ["--model", f"hf:{tmp_path / 'nowhere'}"]
    assert main([*asked, *models, "--exclude", "catch<0.75"]) == 2
    assert "the rule on catch trials needs trials of kind 'catch'" in capsys.readouterr().err
    assert main([*asked, *models]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_participant_table_is_joined(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    texts = [(f"The dog {verb} now.", f"The {verb} dog now.") for verb in ("ran", "sat", "ate")]
    rows = [(str(who), *pair, 2.5 if who % 2 else -2.5) for who in range(10) for pair in texts]
    columns = ["participant", "sentence_1", "sentence_2", "rating"]
    choices = pd.DataFrame(rows, columns=columns)
    choices.to_csv("choices.csv", index=False)
    native = ["yes" if who % 2 else "no" for who in range(10)]
    people = pd.DataFrame({"participant": range(10), "native": native, "age": range(20, 30)})
    human = join_participants(read_choices(choices), people)
    expected = people.set_index("participant")["age"].loc[human.choices["participant"].astype(int)]
    assert human.choices["age"].tolist() == expected.tolist()
    # As an experiment exports answers to its questions.
    long = people.astype(str).melt("participant", var_name="question", value_name="response")
    long.to_csv("responses.csv", index=False)
    texts = [text for pair in texts for text in pair]
    pd.DataFrame({"sentence": texts, "a": range(6), "b": [1, 0] * 3}).to_csv("s.csv", index=False)
    asked = ["evaluate", "choices.csv", "--scores", "s.csv", "--out", "out"]
    assert main([*asked, "--participant-table", "responses.csv", "--condition", "native"]) == 0
    models = pd.read_csv("out/models.csv").set_index(["analysis", "measure", "model"])["value"]
    assert models["all, native yes", "accuracy", "a"] == 1
    assert models["all, native no", "accuracy", "a"] == 0
    capsys.readouterr()
    people.head(9).to_csv("few.csv", index=False)
    assert main([*asked, "--participant-table", "few.csv", "--condition", "native"]) == 2
    assert "a row has no native (rows 28, 29 and 30)" in capsys.readouterr().err
    assert main([*asked, "--participant-table", "few.csv"]) == 0
    note = "The table of participants lacks 1 participant of the choices, for example '9'."
    assert note in capsys.readouterr().err
    for table, message in (
        (pd.concat([people, people.head(1)]), "two rows for 0; keep one"),
        (
            people.assign(rating=1),
            "the choices and the table of participants both have a column 'rating'",
        ),
        (people.rename(columns={"participant": "who"}), "has no column 'participant'"),
    ):
        with pytest.raises(InputError, match=message):
            join_participants(read_choices(choices), table)
