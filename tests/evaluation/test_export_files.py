"""Test reading the files of other programs.

Each has sentences with quotes, commas and line breaks, catch trials, fillers, a session that was
not finished and a participant who took part again.

Tests `contstim.evaluation.importers.exports`, `contstim.evaluation.importers.jspsych`,
`contstim.evaluation.importers.pcibex`, `contstim.evaluation.importers.column_names` and
`contstim.evaluation.importers.read_call`.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest

from contstim.cli import main
from contstim.errors import InputError
from contstim.evaluation import ExclusionRules, HumanData, exclude, read_choices

# Sentence 1, sentence 2, item, condition, expected sentence.
TRIALS = [
    ('"Never again," he said.', '"Never" again, he said.', "i1", "verb", None),
    ("Ann, Bob and I left.", "Ann and Bob, I left.", "i1", "verb", None),
    ("The last\nline broke.", "The line\nlast broke.", "i2", "noun", None),
    ("He paid 50% more.", "He more paid 50%.", "i2", "noun", None),
    ("The dog slept.", "Dog the slept.", "c1", "Catch ", "1"),
    ("It was late.", "Late it was.", "f1", "filler", None),
]
# What each participant chose, trial by trial: 1 or 2; `gone` left after three trials.
ANSWERS = {"p1": "112211", "NA": "121212", "007": "211121", "gone": "112"}
KINDS = ["experimental"] * 4 + ["catch", "filler"]


def side_of_sentence_1(who: str, number: int) -> str:
    """Return the side of sentence 1."""
    return "left" if (len(who) + number) % 2 else "right"


def all_rows(*, again: bool = True) -> list[dict[str, str]]:
    """Return all answers in order of time; p1 takes part again at the end."""
    sessions = [*ANSWERS.items(), *([("p1", "222222")] if again else [])]
    table = []
    for session, (who, answers) in enumerate(sessions):
        for number, answer in enumerate(answers):
            one, two, item, condition, expected = TRIALS[number]
            where = side_of_sentence_1(who, number)
            on_left = (answer == "1") == (where == "left")
            table.append(
                {
                    **{"who": who, "session": str(session), "number": str(number + 1)},
                    **{"one": one, "two": two, "item": item, "condition": condition},
                    **{"expected": expected or "", "side": where},
                    "left": one if where == "left" else two,
                    "right": two if where == "left" else one,
                    "key": "left" if on_left else "right",
                    "chosen": one if answer == "1" else two,
                    "rt": str(800 + 10 * number + session),
                }
            )
    return table


def as_csv(table: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def assert_read_correctly(human: HumanData, answers: dict[str, str] = ANSWERS) -> None:
    """Assert that the choices read equal the answers, trial by trial."""
    choices = human.choices
    texts = [" ".join(text.split()) for text, *_ in TRIALS]
    number = choices["sentence_1"].map({text: k for k, text in enumerate(texts)})
    is_first = number.notna()
    number = number.fillna(choices["sentence_2"].map({t: k for k, t in enumerate(texts)}))
    assert number.notna().all()
    answer = (choices["rating"] > 0).eq(is_first).map({True: "2", False: "1"})
    read: dict[str, str] = {}
    order = pd.DataFrame({"who": choices["participant"], "k": number, "answer": answer})
    for who, own in order.sort_values("k").groupby("who"):
        read[str(who)] = "".join(own["answer"])
    assert read == answers
    assert [KINDS[int(k)] for k in number] == choices["kind"].tolist()
    assert [TRIALS[int(k)][2] for k in number] == choices["item"].tolist()
    right = choices.loc[choices["kind"] == "catch", "expected"].eq(1) == is_first[number == 4]
    assert right.all()
    assert choices["rt_ms"].between(800, 860).all()


def jspsych_export(table: list[dict[str, str]]) -> list[dict[str, object]]:
    """Return rows of jsPsych; the first is a welcome screen."""
    made: list[dict[str, object]] = []
    for row in table:
        if row["number"] == "1":
            made.append({"trial_type": "instructions", "trial_index": 0, "subject": row["who"]})
        data = {name: row[name] for name in ("item", "condition", "side", "left", "right")}
        made.append(
            {
                **{"trial_type": "html-button-response", "trial_index": int(row["number"])},
                **{"subject": row["who"], "response": int(row["key"] == "right")},
                **{"rt": float(row["rt"]), "n_choices": 2, "choices": '["<b>A, B</b>","B"]'},
                **{**data, "expected": int(row["expected"]) if row["expected"] else None},
            }
        )
    return made


@pytest.mark.parametrize("form", ["csv", "json", "nested", "lines", "jatos"])
def test_jspsych_exports_are_read(form: str, tmp_path: Path) -> None:
    trials = jspsych_export(all_rows())
    path = tmp_path / ("data.csv" if form == "csv" else "data.json")
    if form == "csv":
        pd.DataFrame(trials).to_csv(path, index=False)
    elif form in ("json", "nested"):
        path.write_text(json.dumps(trials if form == "json" else {"trials": trials}), "utf-8")
    else:
        if form == "jatos":
            path = tmp_path / "jatos_results.txt"
        sessions = [json.dumps([t for t in trials if t["subject"] == who]) for who in ANSWERS]
        path.write_text("\n".join(sessions), "utf-8")
    human = read_choices(path)
    assert_read_correctly(human)
    assert (
        "The answers are numbers of buttons; 0 is the strongest preference for the left sentence."
        in human.notes
    )


def test_jatos_results_with_repeated_headers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "jatos_results.txt"
    trials = pd.DataFrame(jspsych_export(all_rows()))
    blocks = [of.to_csv(index=False) for _, of in trials.groupby("subject", sort=False)]
    path.write_text("".join(blocks), "utf-8")
    assert_read_correctly(read_choices(path))
    path.write_text(blocks[0] + json.dumps([{"a": 1}]) + "\n", "utf-8")
    with pytest.raises(InputError, match=r"line \d+ is JSON, and the first line is that of a"):
        read_choices(path)
    path.write_text(json.dumps([{"a": 1}]) + "\n" + blocks[0], "utf-8")
    with pytest.raises(InputError, match="line 2 is not JSON .*and the first line is; export"):
        read_choices(path)


def test_partial_files_are_skipped_if_complete_ones_exist(tmp_path: Path) -> None:
    whole, own = tmp_path / "data", jspsych_export(all_rows(again=False))
    whole.mkdir()
    for who in ANSWERS:
        trials = [trial for trial in own if trial["subject"] == who]
        name = f"{who}.partial.json" if who == "gone" else f"{who}.json"
        (whole / name).write_text(json.dumps(trials), "utf-8")
    (whole / "p1.partial.json").write_text(json.dumps(own[:3]).replace('"p1"', '"x7"'), "utf-8")
    assert_read_correctly(read_choices(whole))


PCIBEX = (
    *("Results reception time", "MD5 hash of participant's IP address", "Controller name"),
    *("Order number of item", "Inner element number", "Label", "Latin Square Group"),
    *("PennElementType", "PennElementName", "Parameter", "Value", "EventTime"),
    *("ID", "item", "condition", "expected", "Left", "Right", "LeftIs", "Comments"),
)


def pcibex_export(table: list[dict[str, str]]) -> str:
    """Return a results file of PCIbex, without quotes and with escaped commas."""

    def written(text: str) -> str:
        return text.replace("%", "%25").replace(",", "%2C").replace("\n", "%0A")

    lines = ["# Results on Friday, 27 November 2026 10:00:00 UTC", "# USER AGENT: Mozilla/5.0"]
    lines += ["# Columns below this comment are as follows:"]
    lines += [f"# {k}. {name}." for k, name in enumerate(PCIBEX, start=1)]
    for row in table:
        time = 1773150000000 + 5000 * int(row["number"])
        head = [f"177315{row['session']}", "d41d8cd98f00b204e9800998ecf8427e", "PennController"]
        head += [row["number"], "0", "trial", "NULL"]
        logged = [row["who"], row["item"], row["condition"], row["expected"] or "NULL"]
        logged += [row["left"], row["right"], "1" if row["side"] == "left" else "2", "NULL"]
        for event in (
            ["PennController", "trial", "_Trial_", "Start", str(time)],
            ["Selector", "choice", "Selection", row["key"], str(time + int(row["rt"]))],
            ["PennController", "trial", "_Trial_", "End", str(time + 2000)],
        ):
            lines.append(",".join(map(written, [*head, *event, *logged])))
    return "\n".join(lines) + "\n"


def test_pcibex_results_are_read(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(pcibex_export(all_rows()), "utf-8")
    columns = {"participant": "ID"}
    assert_read_correctly(read_choices(path, columns=columns))
    cut = pcibex_export(all_rows()).splitlines()
    cut[-2] = cut[-2].rpartition(",")[0]
    path.write_text("\n".join(cut), "utf-8")
    with pytest.raises(InputError, match=f"line {len(cut) - 1} has 19 cells, its header 20; PC"):
        read_choices(path, columns=columns)


def gorilla_export(table: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return task data of Gorilla with prefixed spreadsheet columns and screen rows."""
    made = []
    for row in table:
        name = "Spreadsheet: "
        own = {
            **{"Event Index": row["number"], "Participant Private ID": row["who"]},
            **{"Trial Number": row["number"], "Reaction Time": row["rt"]},
            **{"Response": row["key"].title(), f"{name}SentenceA": row["one"]},
            **{f"{name}SentenceB": row["two"], f"{name}SideA": row["side"].title()},
            **{f"{name}item": row["item"], f"{name}condition": row["condition"]},
            f"{name}expected": row["expected"],
        }
        made += [own, {**own, "Response": "AUTO ADVANCE", "Reaction Time": "500"}]
    blank = dict.fromkeys(made[0], "")
    return [*made, {**blank, "Event Index": "END OF FILE"}]


def test_gorilla_exports_are_read(tmp_path: Path) -> None:
    path = tmp_path / "data_exp_1-v1_task-abc.csv"
    table = all_rows()
    path.write_text(as_csv(gorilla_export(table)), "utf-8")
    human = read_choices(path)
    assert_read_correctly(human)
    assert f"{len(table)} rows of Gorilla without an answer were left out." in human.notes
    assert any("side from 'Spreadsheet: SideA'" in note for note in human.notes)
    shown = pd.read_csv(path).rename(columns={"Spreadsheet: SideA": "Spreadsheet: position"})
    with pytest.raises(InputError, match="'Spreadsheet: position' contains left and right, and is"):
        read_choices(shown, low="left", high="right")


def test_qualtrics_exports_are_read(tmp_path: Path) -> None:
    sessions: dict[str, dict[str, str]] = {}
    for row in all_rows():
        one = sessions.setdefault(
            row["session"],
            {
                **{"Status": "IP Address", "Progress": "100", "Finished": "True"},
                **{"ResponseId": f"R_{row['session']}", "PROLIFIC_PID": row["who"]},
            },
        )
        one |= {f"Q{row['number']}": row["chosen"], f"T{row['number']}_Page Submit": "0.81"}
    sessions["3"] |= {"Progress": "50", "Finished": "False"}
    names = ["Status", "Progress", "Finished", "ResponseId", "PROLIFIC_PID"]
    names += [f"{n}{k}{e}" for k in range(1, 7) for n, e in (("Q", ""), ("T", "_Page Submit"))]
    top = [
        {name: f'Which is "better", {name}?' for name in names},
        {name: json.dumps({"ImportId": name}) for name in names},
    ]
    full = [{**dict.fromkeys(names, ""), **session} for session in sessions.values()]
    path = tmp_path / "study.csv"
    path.write_text(as_csv([*top, *full]), "utf-8")
    questions = pd.DataFrame(
        TRIALS, columns=["sentence_1", "sentence_2", "item", "condition", "expected"]
    ).assign(question=[f"Q{k}" for k in range(1, 7)])
    questions["timer"] = [f"T{k}" for k in range(1, 7)]
    human = read_choices(path, trials=questions)
    names = {f"R_{session}": who for session, who in enumerate(ANSWERS)}
    human.choices["participant"] = human.choices["participant"].replace(names)
    assert_read_correctly(
        human, {who: answers for who, answers in ANSWERS.items() if who != "gone"}
    )
    assert human.excluded["rule"].tolist() == ["session not finished", "repeated trial"]


def test_psychopy_is_read_with_the_suggested_columns(tmp_path: Path) -> None:
    names = {"who": "participant", "number": "trials.thisN", "one": "SentenceA", "two": "SentenceB"}
    names |= {"key": "key_resp.keys", "rt": "key_resp.rt"}
    table = [{names.get(k, k): v for k, v in row.items()} for row in all_rows(again=False)]
    for row in table:
        row["key_resp.rt"] = str(int(row["key_resp.rt"]) / 1000)
        del row["left"], row["right"], row["chosen"], row["session"]
    path = tmp_path / "data.csv"
    path.write_text(as_csv(table), "utf-8")
    with pytest.raises(InputError) as error:
        read_choices(path)
    assert "--column sentence_1=SentenceA,sentence_2=SentenceB,rating=THEIRS" in str(error.value)
    columns = {"sentence_1": "SentenceA", "sentence_2": "SentenceB", "response": "key_resp.keys"}
    assert_read_correctly(
        read_choices(path, columns={**columns, "rt_s": "key_resp.rt", "side": "side"})
    )


def small_export(program: str) -> pd.DataFrame:
    """Return two participants and two pairs in the columns of a program."""
    who, number = ["ann", "ann", "ben", "ben"], [1, 2, 1, 2]
    good, bad = ["Good one.", "Good two."] * 2, ["Bad one.", "Bad two."] * 2
    columns: dict[str, object] = {"sentence_1": good, "sentence_2": bad, "response": list("fjjf")}
    if program == "jspsych":
        columns |= {"trial_type": "html-keyboard-response", "subject": who, "trial_index": number}
        columns["swapped"] = [False, True, True, True]
    elif program == "gorilla":
        columns = {"Participant Private ID": who, "Trial Number": number, "SentenceA": good}
        columns |= {"SentenceB": bad, "SideA": ["left", "right", "right", "right"]}
        columns["Response"] = ["Left", "Right", "Right", "Left"]
    else:
        columns = {"ResponseId": ["R_ann", "R_ben"], "Q1": good[::2], "Q2": ["Good two.", bad[1]]}
    return pd.DataFrame(columns)


QUESTIONS = pd.DataFrame(
    [["Q1", "Good one.", "Bad one."], ["Q2", "Good two.", "Bad two."]],
    columns=["question", "sentence_1", "sentence_2"],
)


@pytest.mark.parametrize(
    "head",
    [
        [["Antwort-ID", "Was ist besser?", ""], ['{"ImportId":"_recordId"}', "", ""]],
        [["", "Was ist besser?", ""], ["", '{"ImportId":"QID1","choiceId":"1"}', ""]],
        [["Antwort-ID", "Was ist besser?", ""]],
        [["Response ID", "Which?", ""]],
        [],
    ],
)
def test_heading_rows_of_qualtrics_are_skipped(head: list[list[str]]) -> None:
    own = small_export("qualtrics")
    found = read_choices(
        pd.concat([pd.DataFrame(head, columns=own.columns), own]), trials=QUESTIONS
    )
    assert {*found.choices["participant"]} == {"R_ann", "R_ben"}
    assert not any("were left out" in note for note in found.notes)


@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_qualtrics_previews_and_unfinished_sessions_are_excluded(kind: str) -> None:
    whole = small_export("qualtrics").assign(Status="IP Address", Finished="True", Progress="100")
    me = whole.tail(1).assign(ResponseId="R_me", Status="Survey Preview")
    gone = whole.tail(1).assign(ResponseId="R_gone", Finished="False", Progress="38", Q2=None)
    whole = pd.concat([whole, me, gone])
    if kind == "numbers":
        whole = whole.replace({"IP Address": "0", "Survey Preview": "1", "True": "1", "False": "0"})
    human = read_choices(whole, trials=QUESTIONS)
    assert {*human.choices["participant"]} == {"R_ann", "R_ben"}
    assert human.excluded.to_numpy().tolist() == [
        [rule, who, n, "by the columns Status, Finished and Progress of Qualtrics"]
        for rule, who, n in (("preview or test", "R_me", 2), ("session not finished", "R_gone", 1))
    ]
    assert "Sessions left out: 1 (preview or test); excluded.csv names them." in human.notes


def test_pcibex_participants_with_one_address_are_separated(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    text = pcibex_export(all_rows(again=False)[:12])
    path.write_text(text.replace("1773150000810\n", "NULL\n"), "utf-8")
    human = read_choices(path)
    address = "d41d8cd98f00b204e9800998ecf8427e"
    assert {*human.choices["participant"]} == {f"{address} 177315{n}" for n in (0, 1)}
    assert "address (MD5 hash): 2 with 1, separated by" in " ".join(human.notes)
    # Results that one participant sends in parts have no trial in common.
    one = pcibex_export(all_rows(again=False)[:6])
    path.write_text(
        one.replace(f"1773150,{address},PennController,2", f"1773159,{address},PennController,2")
    )
    assert {*read_choices(path).choices["participant"]} == {address}
    # The time of a choice may be unknown.
    path.write_text(one.replace(",1773150005800,", ",NULL,"), "utf-8")
    assert read_choices(path).choices["rt_ms"].isna().sum() == 1


@pytest.mark.parametrize(
    ("program", "changes", "options", "message"),
    [
        (
            "jspsych",
            {},
            {},
            "the answers are 'f', 'j'; which of them are the strongest preference for sentence 1 "
            "and for sentence 2 (or for the left and the right one)? Correct this proposal: "
            "read_choices(table, low='f', high='j')",
        ),
        (
            "jspsych",
            {},
            {"low": "f", "high": "k"},
            "the answer 'j' is neither 'f' nor 'k' (rows 2 and 3); leave such rows out, or "
            "name other codes",
        ),
        (
            "gorilla",
            {"SideA": "up"},
            {},
            "SideA 'up' is not a side (rows 1, 2, 3 and 4); it must be left or right, or 1 or 2",
        ),
        (
            "qualtrics",
            {},
            {},
            "an export of Qualtrics contains answers by question, but no sentences; give them as "
            "--trials CSV, with the columns question (for example Q3), sentence_1 and sentence_2",
        ),
        (
            "gorilla",
            {"Kind": "catch"},
            {"columns": {"conditon": "Kind"}},
            "unknown column 'conditon'; did you mean 'condition'?",
        ),
        (
            "qualtrics",
            {},
            {"trials": QUESTIONS[:0]},
            "the table of questions has no rows; give one for each question",
        ),
        (
            "qualtrics",
            {},
            {"trials": QUESTIONS.assign(question=["Q1", None])},
            "the table of questions has no question in row 2",
        ),
    ],
)
def test_errors_contain_the_complete_call(
    program: str, changes: dict[str, object], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as error:
        read_choices(small_export(program).assign(**changes), **options)
    assert str(error.value) == message


def test_missing_side_column_is_requested() -> None:
    with pytest.raises(InputError) as error:
        read_choices(small_export("gorilla").drop(columns="SideA"))
    assert str(error.value) == (
        "the answers are left and right; name the column that says where sentence 1 was: "
        "read_choices(table, side='COLUMN'); or, if it was always on the left: "
        "read_choices(table, low='left', high='right')"
    )


def test_expected_sentence_is_read_from_number_text_or_side() -> None:
    own = small_export("gorilla")
    for best in (1, own["SentenceA"], own["SideA"].str.title()):
        table = read_choices(own.assign(Best=best), columns={"expected": "Best"}).choices
        good = table["sentence_2"].str.startswith("Good").map({True: 2, False: 1})
        assert table["expected"].tolist() == good.tolist()
    with pytest.raises(InputError, match="expected must be 1 or 2, .* not 'a note'"):
        read_choices(own.assign(expected="a note"))


def test_catch_trials_exclude_participants() -> None:
    own = small_export("gorilla").assign(expected=1, condition="control", kind="experimental")
    rules = ExclusionRules(min_catch_correct=0.9)
    with pytest.raises(InputError) as error:
        exclude(read_choices(own).choices, rules)
    assert str(error.value) == (
        "the rule on catch trials needs trials of kind 'catch', and all trials with an expected "
        "sentence are of another kind; mark catch trials in a column 'kind'"
    )
    kept, _ = exclude(read_choices(own.assign(kind="CATCH ")).choices, rules)
    assert set(kept["participant"]) == {"ann"}
    with pytest.raises(InputError, match="1 or 2, in a column 'expected'$"):
        exclude(read_choices(small_export("gorilla")).choices, rules)


def test_sides_and_additional_columns_are_kept() -> None:
    own = small_export("gorilla")
    human = read_choices(own.assign(age=30, kind_1="S"))
    note = "The answers are 'left' and 'right'; left is the strongest preference for the left"
    assert f"{note} sentence." in human.notes
    table = human.choices.sort_values(["participant", "trial"])
    assert set(table["age"]) == {30}
    assert "kind_1" not in table  # a reserved name, of which nothing is known here
    assert table["trial"].tolist() == [1, 2, 1, 2]
    # "Bad" comes before "Good" in the alphabet.
    assert table["side_1"].tolist() == ["right", "left", "left", "left"]
    more = QUESTIONS.assign(length=[2, 3])
    table = read_choices(small_export("qualtrics"), trials=more).choices
    assert table.sort_values(["participant", "trial"])["length"].tolist() == [2, 3] * 2


def test_evaluate_command_reads_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, ends = tmp_path / "keys.csv", ["--low", "f", "--high", "j"]
    small_export("jspsych").to_csv(file, index=False)
    command = ["evaluate", str(file), "--out", str(tmp_path / "out")]
    assert main(command) == 2
    assert f"{file} --low f --high j" in capsys.readouterr().err
    assert main([*command, *ends]) == 0
    assert "Read as a jsPsych export: participant from 'subject'" in capsys.readouterr().err
    small_export("jspsych").drop(columns=["trial_type", "swapped"]).to_csv(file, index=False)
    assert main([*command, *ends]) == 2
    assert (
        "--column participant=subject --low f --high j or, in Python, read_choices("
        f"{str(file)!r}, columns={{'participant': 'subject'}}, low='f', high='j')"
        in capsys.readouterr().err
    )
    assert main([*command, "--column", "participant=subject", *ends]) == 0
    assert "f is the strongest preference for sentence 1" in capsys.readouterr().err
