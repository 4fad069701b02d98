"""Exports of other programs: recognised, read, and asked about what they cannot say.

Of `contstim.evaluation.importers.exports` and `contstim.evaluation.importers.names`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.errors import InputError
from contstim.evaluation import (
    ExclusionRules,
    catch_accuracy,
    exclude,
    read_choices,
)

# Two people, two pairs; both choose "Good one." of the first and disagree on the second.
PAIRS = [("Good one.", "Bad one."), ("Good two.", "Bad two.")]
CHOSEN = {"ann": ["Good one.", "Good two."], "ben": ["Good one.", "Bad two."]}
#: Where sentence 1 (the good one) was, for each person and pair.
SIDES = {"ann": ["left", "right"], "ben": ["right", "right"]}


def trials() -> pd.DataFrame:
    """Return what happened, a row per trial: who, both sentences, where, and what was chosen."""
    rows = [
        (who, k + 1, *PAIRS[k], SIDES[who][k], CHOSEN[who][k], 900 + k)
        for who in CHOSEN
        for k in range(2)
    ]
    table = pd.DataFrame(rows, columns=["who", "n", "good", "bad", "side", "chosen", "rt"])
    on_left = table["good"].where(table["side"] == "left", table["bad"])
    table["key"] = [
        "left" if c == t else "right" for c, t in zip(on_left, table["chosen"], strict=True)
    ]
    return table


def chosen(source: pd.DataFrame | Path, **options: object) -> dict[str, list[str]]:
    """Read an export; return the sentence that each person chose, by pair."""
    table = read_choices(source, **options).choices
    text = table["sentence_2"].where(table["rating"] > 0, table["sentence_1"])
    assert set(table["rating"].abs()) == {2.5}
    ordered = table.assign(text=text).sort_values(["participant", "trial"])
    return {who: own["text"].tolist() for who, own in ordered.groupby("participant")}


def gorilla() -> pd.DataFrame:
    t = trials()
    own = pd.DataFrame(
        {
            "Participant Private ID": t["who"],
            "Trial Number": t["n"],
            "Reaction Time": t["rt"],
            "SentenceA": t["good"],
            "SentenceB": t["bad"],
            "SideA": t["side"],
            "Response": t["key"].str.title(),
        }
    )
    # Gorilla writes rows for screens without an answer, and one at the end of the file.
    return pd.concat([own, own.head(2).assign(Response=None, SentenceA=None)], ignore_index=True)


def jspsych() -> pd.DataFrame:
    t = trials()
    return pd.DataFrame(
        {
            "trial_type": "html-keyboard-response",
            "trial_index": t["n"],
            "subject": t["who"],
            "sentence_1": t["good"],
            "sentence_2": t["bad"],
            "swapped": t["side"] == "right",
            "response": t["key"].map({"left": "f", "right": "j"}),
            "rt": t["rt"],
        }
    )


def pcibex(path: Path) -> Path:
    t = trials()
    names = [
        *("Results reception time", "MD5 hash of participant's IP address", "Controller name"),
        *("Order number of item", "PennElementType", "PennElementName", "Parameter", "Value"),
        *("EventTime", "Left", "Right", "LeftIs"),
    ]
    lines = ["# Results on Sunday", "#", "# Columns below this comment are as follows:"]
    lines += [f"# {number}. {name}." for number, name in enumerate(names, start=1)]
    for row in t.itertuples():
        left, right = (row.good, row.bad) if row.side == "left" else (row.bad, row.good)
        shown = [left, right, "1" if row.side == "left" else "2"]
        head = ["1700000000", row.who, "PennController", str(row.n)]
        for event in (
            ["PennController", "0", "_Trial_", "Start", "1000"],
            ["Selector", "pick", "Selection", row.key, str(1000 + row.rt)],
        ):
            lines.append(",".join([*head, *event, *shown]))
    path.write_text("\r\n".join(lines), "utf-8")
    return path


def qualtrics(path: Path) -> tuple[Path, pd.DataFrame]:
    t = trials()
    wide = t.pivot_table(index="who", columns="n", values="chosen", aggfunc="first")
    head = pd.DataFrame(
        {"ResponseId": ["Response ID", '{"ImportId":"_recordId"}'], "Q1": "", "Q2": ""}
    )
    own = pd.DataFrame(
        {"ResponseId": wide.index, "Q1": wide[1].to_numpy(), "Q2": wide[2].to_numpy()}
    )
    pd.concat([head, own]).to_csv(path, index=False)
    questions = pd.DataFrame(PAIRS, columns=["sentence_1", "sentence_2"])
    return path, questions.assign(question=["Q1", "Q2"])


def test_each_program_gives_what_people_chose(tmp_path: Path) -> None:
    gorilla().to_csv(tmp_path / "gorilla.csv", index=False)
    assert chosen(tmp_path / "gorilla.csv") == CHOSEN
    assert chosen(jspsych(), low="f", high="j") == CHOSEN
    assert chosen(pcibex(tmp_path / "results.csv")) == CHOSEN
    path, questions = qualtrics(tmp_path / "qualtrics.csv")
    assert chosen(path, trials=questions) == CHOSEN


@pytest.mark.parametrize(
    "head",
    [
        [
            ["Response ID", "Which?", "Which?"],
            ['{"ImportId":"_recordId"}', '{"ImportId":"QID1"}', ""],
        ],
        [["Antwort-ID", "Was ist besser?", ""], ['{"ImportId":"_recordId"}', "", ""]],
        [["", "Was ist besser?", ""], ["", '{"ImportId":"QID1","choiceId":"1"}', ""]],
        [["Antwort-ID", "Was ist besser?", ""]],
        [["Response ID", "Which?", ""]],
        [],
    ],
)
def test_the_texts_and_ids_of_questions_of_qualtrics_are_nobodys_answers(
    head: list[list[str]], tmp_path: Path
) -> None:
    path, questions = qualtrics(tmp_path / "qualtrics.csv")
    own = pd.read_csv(path)[2:].assign(ResponseId=lambda t: "R_" + t["ResponseId"])
    whole = pd.concat([pd.DataFrame(head, columns=own.columns), own])
    found = read_choices(whole, trials=questions)
    assert {*found.choices["participant"]} == {*own["ResponseId"]}
    assert not any("were left out" in note for note in found.notes)


@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_previews_and_unfinished_sessions_of_qualtrics_are_not_people(
    kind: str, tmp_path: Path
) -> None:
    path, questions = qualtrics(tmp_path / "qualtrics.csv")
    whole = pd.read_csv(path).assign(Status="IP Address", Finished="True", Progress="100")
    me = whole.tail(1).assign(ResponseId="R_me", Status="Survey Preview")
    gone = whole.tail(1).assign(ResponseId="R_gone", Finished="False", Progress="38", Q2=None)
    whole = pd.concat([whole, me, gone])
    if kind == "numbers":
        whole = whole.replace({"IP Address": "0", "Survey Preview": "1", "True": "1", "False": "0"})
    human = read_choices(whole, trials=questions)
    assert {*human.choices["participant"]} == {"ann", "ben"}
    assert human.excluded.to_numpy().tolist() == [
        [rule, who, n, "by the columns Status, Finished and Progress of Qualtrics"]
        for rule, who, n in (("preview or test", "R_me", 2), ("session not finished", "R_gone", 1))
    ]
    assert "Sessions left out: 1 (preview or test); excluded.csv names them." in human.notes
    assert "Sessions left out: 1 (session not finished); excluded.csv names them." in human.notes


def test_codes_in_texts_of_pcibex_are_characters_again(tmp_path: Path) -> None:
    path = pcibex(tmp_path / "results.csv")
    text, good = path.read_text("utf-8"), PAIRS[0][0]
    path.write_text(text.replace(good, f"Well%2C {good} 7%25 %2F"), "utf-8")
    table = read_choices(path).choices
    assert f"Well, {good} 7% %2F" in {*table["sentence_1"], *table["sentence_2"]}
    path.write_text(text.replace(good, f"Well, {good}"), "utf-8")
    with pytest.raises(InputError, match="has 13 cells, its header 12; PCIbex writes a comma"):
        read_choices(path)


def test_people_who_share_an_address_in_pcibex_are_several(tmp_path: Path) -> None:
    path = pcibex(tmp_path / "results.csv")
    text = path.read_text("utf-8")
    later = text.replace("1700000000,ben", "1700000099,ann")
    path.write_text(later, "utf-8")
    assert chosen(path) == {
        f"ann 17000000{n}": CHOSEN[w] for n, w in (("00", "ann"), ("99", "ben"))
    }
    assert "address (MD5 hash): 2 with 1, told apart by" in " ".join(read_choices(path).notes)
    # Results that one person sends in parts have no trial in common.
    parts = re.sub("^1700000000(,ann,PennController,2)", r"1700000050\1", text, flags=re.M)
    assert parts != text
    path.write_text(parts, "utf-8")
    assert chosen(path) == CHOSEN


def test_the_time_of_pcibex_counts_from_the_start_of_the_trial(tmp_path: Path) -> None:
    table = read_choices(pcibex(tmp_path / "results.csv")).choices
    assert sorted(table["rt_ms"]) == [900, 900, 901, 901]


def test_a_time_that_pcibex_does_not_know_is_missing(tmp_path: Path) -> None:
    path = pcibex(tmp_path / "results.csv")
    path.write_text(path.read_text("utf-8").replace("1901", "NULL"), "utf-8")
    table = read_choices(path).choices
    assert sorted(table["rt_ms"].dropna()) == [900, 900]


def test_what_was_taken_for_what_is_said() -> None:
    notes = read_choices(gorilla()).notes
    assert "participant from 'Participant Private ID'" in notes[0]
    assert "side from 'SideA'" in notes[0]
    assert "The answers are 'left' and 'right'; left is certain of the left sentence." in notes
    assert (
        "2 rows hold no two sentences and an answer, as those of instructions do, and were left "
        "out."
    ) in notes


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            lambda: gorilla().drop(columns="SideA"),
            {},
            "the answers are left and right; name the column that says where sentence 1 was: "
            "read_choices(table, side='COLUMN'); or, if it was always on the left: "
            "read_choices(table, low='left', high='right')",
        ),
        (
            jspsych,
            {},
            "the answers are 'f', 'j'; which of them mean certain of sentence 1 and of sentence 2 "
            "(or of the left and the right one)? Correct what is wrong in: read_choices(table, "
            "low='f', high='j')",
        ),
        (
            jspsych,
            {"low": "f", "high": "k"},
            "the answer 'j' is neither 'f' nor 'k' (rows 2 and 3); leave such rows out, or "
            "name other codes",
        ),
        (
            lambda: jspsych().assign(response=[0, 1, 1, 0]),
            {},
            "the data do not say how many buttons there were (rows 1, 2, 3 and 4); add "
            "a column 'n_choices', or give the number: read_choices(table, n_choices=2)",
        ),
        (
            lambda: gorilla().assign(SideA="up"),
            {},
            "SideA 'up' is not a side (rows 1, 2, 3 and 4); it must be left or right, or 1 or 2",
        ),
        (
            lambda: pd.DataFrame({"ResponseId": ["R_1"], "Q1": ["Good one."]}),
            {},
            "an export of Qualtrics holds answers by question, not the sentences; give them as "
            "--trials CSV, with the columns question (such as Q3), sentence_1 and sentence_2",
        ),
        (
            lambda: gorilla().assign(Kind="catch"),
            {"columns": {"conditon": "Kind"}},
            "unknown column 'conditon'; did you mean 'condition'?",
        ),
        (
            lambda: pd.DataFrame({"ResponseId": ["R_1"], "Q1": ["Good one."]}),
            {"trials": pd.DataFrame(columns=["question", "sentence_1", "sentence_2"])},
            "the table of questions has no rows; give one for each question",
        ),
        (
            lambda: pd.DataFrame({"ResponseId": ["R_1"], "Q1": ["Good one."]}),
            {
                "trials": pd.DataFrame([["Q1", *PAIRS[0]], [None, *PAIRS[1]]]).set_axis(
                    ["question", "sentence_1", "sentence_2"], axis=1
                )
            },
            "the table of questions has no question in row 2",
        ),
    ],
)
def test_what_a_file_cannot_say_is_asked(change, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_choices(change(), **options)
    assert str(error.value) == message


def test_graded_answers_turn_round_with_the_side() -> None:
    # 1: sure of the left sentence, 6: sure of the right one. Sentence 1 was on the right in rows
    # 2 to 4.
    graded = jspsych().assign(response=[1, 2, 6, 5])
    table = read_choices(graded, low=1, high=6).choices
    good_2 = table["sentence_2"].str.startswith("Good").map({True: 1, False: -1})
    ratings = (table["rating"] * good_2).groupby([table["participant"], table["trial"]]).first()
    # Positive: sure of the good sentence.
    assert ratings.tolist() == [2.5, -1.5, 2.5, 1.5]


def test_codes_in_a_column_of_ratings_are_mapped_too() -> None:
    graded = jspsych().drop(columns="response").assign(Rating=[1, 2, 6, 5])
    table = read_choices(graded, low=1, high=6).choices
    ratings = read_choices(jspsych().assign(response=[1, 2, 6, 5]), low=1, high=6).choices["rating"]
    assert table["rating"].tolist() == ratings.tolist()


def test_the_expected_sentence_of_catch_trials_is_read_by_its_column() -> None:
    table = read_choices(gorilla().assign(Best=1), columns={"expected": "Best"}).choices
    good = table["sentence_2"].str.startswith("Good").map({True: 2, False: 1})
    assert table["expected"].tolist() == good.tolist()
    with pytest.raises(InputError, match="expected must be 1 or 2, .* not 'a note'"):
        read_choices(gorilla().assign(expected="a note"))
    # By its text or its side it is the same.
    own = gorilla()
    columns = {"expected": "Best"}
    by_text = read_choices(own.assign(Best=own["SentenceA"]), columns=columns).choices
    assert by_text["expected"].tolist() == good.tolist()
    by_side = read_choices(own.assign(Best=own["SideA"].str.title()), columns=columns).choices
    assert by_side["expected"].tolist() == good.tolist()


def test_catch_trials_of_ones_own_exclude_people_or_say_what_is_lacking() -> None:
    own = gorilla().assign(Best=1, condition="control", kind="experimental")
    choices = read_choices(own, columns={"expected": "Best"}).choices
    rules = ExclusionRules(min_catch_correct=0.9)
    with pytest.raises(InputError) as error:
        exclude(choices, rules)
    assert str(error.value) == (
        "the rule on catch trials needs trials of kind 'catch', and all trials with an expected "
        "sentence are of another kind; say which are catch trials in a column 'kind'"
    )
    named = read_choices(own.assign(kind="CATCH "), columns={"expected": "Best"}).choices
    right = catch_accuracy(named)
    kept, _ = exclude(named, ExclusionRules(min_catch_correct=float(right.max())))
    assert set(kept["participant"]) == set(right.index[right == right.max()])
    with pytest.raises(InputError, match="1 or 2, in a column 'expected'$"):
        exclude(read_choices(gorilla()).choices, rules)


@pytest.mark.parametrize("program", [True, False])
def test_a_slider_is_read_by_its_ends(program: bool) -> None:
    own, names = gorilla(), dict[str, str]()
    if not program:
        own = own.rename(columns={"Participant Private ID": "Id"})
        names = {"sentence_1": "SentenceA", "sentence_2": "SentenceB", "response": "Response"}
        names["side"] = "SideA"
    answers = np.random.default_rng(0).integers(0, 101, len(own)).astype(float)
    own["Response"] = np.where(own["Response"].isna(), np.nan, answers)
    choices = read_choices(
        own, low=0, high=100, columns={"participant": own.columns[0], **names}
    ).choices
    there = own["Response"].notna() & own["SentenceA"].notna()
    assert choices["rating"].abs().tolist() == pytest.approx(
        (own.loc[there, "Response"] / 20 - 2.5).abs().tolist()
    )
    tidy = pd.DataFrame(
        {"participant": "p", "sentence_1": ["A b.", "C d."], "sentence_2": ["B a.", "D c."]}
    ).assign(rating=[37, 63])
    mapped = read_choices(tidy, "tidy", low=0, high=100)
    assert mapped.choices["rating"].tolist() == [-0.65, 0.65]


def test_items_sides_and_further_columns_are_kept(tmp_path: Path) -> None:
    own = gorilla().assign(item=[f"frame {n}" for n in (1, 2, 1, 2, 1, 1)], age=30, kind_1="S")
    table = read_choices(own).choices
    assert set(table["age"]) == {30}
    assert "kind_1" not in table  # a word of ours, of which here nothing is known
    both = table.sort_values(["participant", "trial"])
    assert both["item"].tolist() == ["frame 1", "frame 2"] * 2
    assert both["trial"].tolist() == [1, 2, 1, 2]
    of_good = both["side_1"].where(
        both["sentence_1"].str.startswith("Good"),
        both["side_1"].map({"left": "right", "right": "left"}),
    )
    assert of_good.tolist() == [*SIDES["ann"], *SIDES["ben"]]
    path, questions = qualtrics(tmp_path / "qualtrics.csv")
    questions = questions.assign(item=["a", "b"], expected=[1, 1], length=[2, 3])
    table = read_choices(path, trials=questions).choices.sort_values(["participant", "item"])
    assert table["item"].tolist() == ["a", "b"] * 2
    assert table["length"].tolist() == [2, 3] * 2
    right = table["sentence_2"].str.startswith("Good").map({True: 2, False: 1})
    assert table["expected"].tolist() == right.tolist()


def test_the_command_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys.csv"
    jspsych().to_csv(file, index=False)
    command = ["evaluate", str(file), "--out", str(tmp_path / "out")]
    assert main(command) == 2
    assert f"contstim evaluate {file} --low f --high j" in capsys.readouterr().err
    assert main([*command, "--low", "f", "--high", "j"]) == 0
    assert "Read as a jsPsych export: participant from 'subject'" in capsys.readouterr().err
    own = jspsych().drop(columns=["trial_type", "swapped"])
    own.to_csv(file, index=False)
    asked = main([*command, "--low", "f", "--high", "j"])
    proposed = "--column participant=subject --low f --high j; it has"
    assert (asked, proposed in capsys.readouterr().err) == (2, True)
    assert main([*command, "--column", "participant=subject", "--low", "f", "--high", "j"]) == 0
    assert "f is certain of sentence 1" in capsys.readouterr().err
