"""Test custom tables described by options, and exports of Qualtrics.

Tests `contstim.evaluation.importers.qualtrics` and `contstim.evaluation.importers.answers`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.errors import InputError
from contstim.evaluation import HumanData, read_choices
from contstim.evaluation.importers import join_participants

_PAIRS = [
    (f"The {animal} {verb} in the old barn.", f"In the {animal} barn {verb} the old.")
    for animal in ("dog", "cat", "mouse", "horse")
    for verb in ("slept", "hid", "ate")
]


def simulate_answers() -> pd.DataFrame:
    """Return answers of 12 participants: codes 1 to 6, and whether sentence 1 was on the left."""
    rng = np.random.default_rng(0)
    rows = [
        (f"p{who:02d}", *pair, int(rng.integers(1, 7)), bool(rng.random() < 0.5))
        for who in range(12)
        for pair in _PAIRS
    ]
    return pd.DataFrame(rows, columns=["who", "one", "two", "code", "left"])


def signed_ratings(human: HumanData) -> list[float]:
    """Return ratings towards the second sentence of each pair, by participant."""
    choices = human.choices.copy()
    first = choices["sentence_1"].isin([one for one, _ in _PAIRS])
    choices["rating"] = choices["rating"].where(first, -choices["rating"])
    choices["one"] = choices["sentence_1"].where(first, choices["sentence_2"])
    return choices.sort_values(["participant", "one"])["rating"].tolist()


def expected_ratings() -> list[float]:
    return (simulate_answers().sort_values(["who", "one"])["code"] - 3.5).tolist()


def german_table() -> pd.DataFrame:
    t = simulate_answers()
    return pd.DataFrame(
        {
            "VP-Code": t["who"],
            "Alter": t["who"].str[1:].astype(int) % 5 + 20,
            "Satz links": t["one"].where(t["left"], t["two"]),
            "Satz rechts": t["two"].where(t["left"], t["one"]),
            "Urteil": t["code"].where(t["left"], 7 - t["code"]),
            "Reaktionszeit (ms)": 900 + t.index,
        }
    )


NAMED = {"participant": "VP-Code", "left": "Satz links", "right": "Satz rechts", "rating": "Urteil"}


ENDS = ["--low", "1", "--high", "6"]


def test_unknown_columns_raise_an_error_with_a_proposal(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    german_table().to_csv(path, index=False)
    with pytest.raises(InputError) as error:
        read_choices(path)
    assert str(error.value).startswith(
        "which columns contain participant and sentence_1 and sentence_2 and rating? Correct this "
        f"proposal: {path} --column 'participant=THEIRS,sentence_1=Satz links,sentence_2=Satz "
        f"rechts,rating=THEIRS' or, in Python, read_choices({str(path)!r}, columns={{'participant':"
        " 'THEIRS', 'sentence_1': 'Satz links', 'sentence_2': 'Satz rechts', 'rating': 'THEIRS'}); "
        "write left and right if these are the sides "
        "of the screen, else sentence_1 and 2; it has 'Alter', "
    )
    with pytest.raises(InputError) as error:
        read_choices(german_table(), columns=NAMED)
    assert str(error.value) == (
        "the answers are '6', '4', '3', '1' ...; which of them are the strongest preference for "
        "sentence 1 and for sentence 2 (or for the left and the right one)? Correct this proposal: "
        "read_choices(table, columns={'participant': 'VP-Code', 'left': 'Satz links', 'right': "
        "'Satz rechts', 'rating': 'Urteil'}, low=1.0, high=6.0)"
    )
    human = read_choices(german_table(), columns=NAMED, low=1, high=6)
    assert signed_ratings(human) == expected_ratings()
    assert human.choices["Alter"].nunique() == 5
    assert "rt_ms" in human.choices
    assert human.choices["rt_ms"].isna().all()
    english = {"VP-Code": "Subject", "Satz links": "SentenceA", "Satz rechts": "SentenceB"}
    with pytest.raises(InputError) as error:
        read_choices(german_table().rename(columns=english | {"Urteil": "Answer"}))
    assert (
        "columns={'participant': 'Subject', 'sentence_1': 'SentenceA', 'sentence_2': 'SentenceB', "
        "'response': 'Answer'}, low=1.0, high=6.0)"
    ) in str(error.value)


def test_columns_with_sentences_are_proposed() -> None:
    for names, roles in (
        (("text left", "text right"), ("left", "right")),
        (("text right", "text left"), ("right", "left")),
        (("A", "B"), ("sentence_1", "sentence_2")),
        (("SentenceB", "other words"), ("sentence_2", "sentence_1")),
    ):
        columns = dict(zip(["Satz links", "Satz rechts"], names, strict=True))
        with pytest.raises(InputError, match="which columns contain participant") as error:
            read_choices(german_table().rename(columns=columns))
        for role, name in zip(roles, names, strict=True):
            assert f"'{role}': '{name}'" in str(error.value)


def test_trial_numbers_are_read_or_noted() -> None:
    columns = {"participant": "who", "sentence_1": "one", "sentence_2": "two", "rating": "code"}
    t = simulate_answers().drop(columns="left").assign(trialNr=np.tile(np.arange(12, 0, -1), 12))
    human = read_choices(t, columns=columns, low=1, high=6)
    assert human.choices["trial"].tolist() == t["trialNr"].tolist()
    assert "trial from 'trialNr'" in human.notes[0]
    assert not any("row order" in note for note in human.notes)
    # The order is unknown if no column has a name that is recognised.
    unknown = t.rename(columns={"trialNr": "when"})
    human = read_choices(unknown, columns=columns, low=1, high=6)
    assert human.choices["trial"].tolist() == [*range(1, 13)] * 12
    assert any(note.startswith("trial: numbered by row order") for note in human.notes)
    named = read_choices(unknown, columns=columns | {"trial": "when"}, low=1, high=6)
    assert named.choices["trial"].tolist() == t["trialNr"].tolist()


def test_unused_side_column_is_reported() -> None:
    t = simulate_answers().assign(position=lambda t: t["left"].map({True: "Left", False: "right"}))
    t = t.drop(columns="left")
    columns = {"participant": "who", "sentence_1": "one", "sentence_2": "two", "rating": "code"}
    ends = {"low": 1, "high": 6}
    with pytest.raises(InputError) as error:
        read_choices(t, columns=columns, **ends)
    assert str(error.value).startswith("the column 'position' contains left and right, and is not")
    assert str(error.value).count("side='position'") == str(error.value).count("side='none'") == 1
    assert (
        signed_ratings(read_choices(t, columns=columns, side="none", **ends)) == expected_ratings()
    )
    shown = t.assign(code=t["code"].where(t["position"] == "Left", 7 - t["code"]))
    assert (
        signed_ratings(read_choices(shown, columns=columns, side="position", **ends))
        == expected_ratings()
    )


def test_side_none_ignores_a_column_of_sides() -> None:
    gorilla = "Participant Private ID"
    for participant, name, sides in (
        ("participant", "side", ["left", "right"]),
        (gorilla, "side", ["left", "right"]),
        (gorilla, "swapped", [False, True]),
    ):
        choices = {participant: ["p1"] * 2, "sentence_1": ["He slept good.", "She run away."]}
        choices |= {"sentence_2": ["He slept well.", "She ran away."], "rating": [7, 7]}
        table = pd.DataFrame({**choices, name: sides})
        # The second answer is the right sentence: sentence 1 by the sides, otherwise sentence 2.
        for side, chosen in ((None, "She run away."), ("none", "She ran away.")):
            rows = read_choices(table, low=1, high=7, side=side).choices
            found = rows["sentence_2"].where(rows["rating"] > 0, rows["sentence_1"])
            assert found.tolist() == ["He slept well.", chosen], (participant, name, side)


def test_contradictory_expected_sentences_are_rejected() -> None:
    t = german_table().assign(best=1)
    with pytest.raises(InputError, match="conflicting expected sentences .*if 1 is the left one"):
        read_choices(t, columns={**NAMED, "expected": "best"}, low=1, high=6)


def test_custom_left_and_right_columns_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    german_table().rename(columns={"Satz links": "L, here", "Satz rechts": "R"}).to_csv(
        tmp_path / "own.csv", index=False
    )
    scores = pd.DataFrame([(one, 2) for one, _ in _PAIRS] + [(two, 1) for _, two in _PAIRS])
    scores.set_axis(["sentence", "m"], axis=1).to_csv(tmp_path / "scores.csv", index=False)
    command = ["evaluate", str(tmp_path / "own.csv"), "--scores", str(tmp_path / "scores.csv")]
    columns = ["--column", "left=L, here,right=R,participant=VP-Code,rating=Urteil"]
    assert main([*command, *columns, *ENDS, "--out", str(tmp_path / "out")]) == 0
    assert "left from 'L, here', right from 'R'" in capsys.readouterr().err
    models = pd.read_csv(tmp_path / "out" / "models.csv").set_index("measure")["value"]
    assert models["accuracy"] == pytest.approx((simulate_answers()["code"] < 4).mean(), abs=1e-12)


@pytest.mark.parametrize("name", ["swapped", "flipped"])
def test_swapped_column_puts_sentence_1_on_the_right(name: str) -> None:
    table = pd.DataFrame(
        {
            "subject": ["s1", "s1", "s2", "s2"],
            "left": ["The dog slept.", "Home went he.", "The dog slept.", "Home went he."],
            "right": ["Dog the slept.", "He went home.", "Dog the slept.", "He went home."],
            name: [False, True] * 2,
            "response": ["left", "right", "left", "right"],
            "item": [1, 2, 1, 2],
        }
    )
    choices = read_choices(table, columns={"participant": "subject", "side": name}).choices
    first = choices["rating"] < 0
    chosen = choices["sentence_1"].where(first, choices["sentence_2"])
    assert chosen.tolist() == ["The dog slept.", "He went home."] * 2
    assert choices["side_1"].eq("left").eq(first).tolist() == [True, False] * 2


def test_repeated_pair_in_an_unknown_table_is_rejected() -> None:
    t = german_table()
    with pytest.raises(
        InputError,
        match="has several answers to the same pair .*rename one participant",
    ):
        read_choices(pd.concat([t, t.head(1)]), columns=NAMED, low=1, high=6)


def qualtrics_export() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return an export with answers 1 to 6 and timers, and its table of questions."""
    t = simulate_answers()
    wide = pd.DataFrame({"ResponseId": [f"R_{n}" for n in range(12)], "PROLIFIC_PID": ""})
    wide["PROLIFIC_PID"] = [f"5f{n}" for n in range(12)]
    wide["native"] = ["yes", "no"] * 6
    columns = {}
    for number, (one, _) in enumerate(_PAIRS):
        own = t[t["one"] == one]
        columns[f"Q{number}"] = own["code"].to_numpy()
        columns[f"Q{50 + number}_First Click"] = 0.5
        columns[f"Q{50 + number}_Page Submit"] = 1.5 + number
    wide = wide.assign(**columns)
    top = pd.DataFrame([{c: f"text of {c}" for c in wide}, dict.fromkeys(wide, '{"ImportId":"x"}')])
    questions = pd.DataFrame(_PAIRS, columns=["sentence_1", "sentence_2"])
    return pd.concat([top, wide]), questions.assign(question=[f"Q{n}" for n in range(12)])


def qualtrics_ratings(human: HumanData) -> list[float]:
    """Return `signed_ratings` of participants identified by Qualtrics."""
    who = human.choices["participant"].str.removeprefix("R_").str.zfill(2)
    return signed_ratings(HumanData(human.choices.assign(participant=who)))


def test_qualtrics_ratings_and_timers_are_read() -> None:
    raw, questions = qualtrics_export()
    questions = questions.assign(low=1, high=6)
    timers = [f"Q{50 + n}" for n in range(12)]
    human = read_choices(raw, trials=questions.assign(timer=timers))
    assert qualtrics_ratings(human) == expected_ratings()
    times = human.choices.groupby("trial")["rt_ms"].unique()
    assert {name: value.tolist() for name, value in times.items()} == {
        f"Q{n}": [1500.0 + 1000 * n] for n in range(12)
    }
    assert human.choices.groupby("participant")["native"].first().value_counts().tolist() == [6, 6]
    assert "PROLIFIC_PID" not in human.choices
    # Times of pages are used only if the table of questions names the timers.
    assert read_choices(raw, trials=questions).choices["rt_ms"].isna().all()
    fewer = raw.drop(columns="Q53_Page Submit")
    timers = [f"Q{50 + n}" if n != 3 else None for n in range(12)]
    named = read_choices(fewer, trials=questions.assign(timer=timers)).choices
    assert named[named["rt_ms"].isna()]["trial"].unique().tolist() == ["Q3"]
    with pytest.raises(InputError, match="has no column 'Q99_Page Submit'"):
        read_choices(raw, trials=questions.assign(timer="Q99"))


def test_repeated_qualtrics_sessions_are_one_participant() -> None:
    raw, questions = qualtrics_export()
    questions = questions.assign(low=1, high=6)
    again = raw.tail(1).assign(ResponseId="R_again", **{f"Q{n}": 1 for n in range(12)})
    human = read_choices(pd.concat([raw, again]), trials=questions)
    assert qualtrics_ratings(human) == expected_ratings()
    assert any(note.startswith("Participants with several sessions, by 'PROLIFIC_PID': 1.")
               for note in human.notes)  # fmt: skip
    # Whose id is not known is somebody of their own.
    nobody = pd.concat([raw, again.assign(PROLIFIC_PID=""), again.assign(PROLIFIC_PID=" ")])
    nobody = nobody.assign(ResponseId=[*nobody["ResponseId"][:-1], "R_other"])
    assert read_choices(nobody, trials=questions).choices["participant"].nunique() == 14


def test_qualtrics_scale_ends_are_set_per_question() -> None:
    raw, questions = qualtrics_export()
    with pytest.raises(InputError, match="which of them are the strongest"):
        read_choices(raw, trials=questions)
    given = questions.assign(low=[1, 7] * 6, high=[7, 1] * 6)
    turned = raw.copy()
    for column in questions["question"][1::2]:
        turned.loc[turned.index[2:], column] = 7 - raw[column][2:]
    # As if on a scale up to 7: 1 is -2.5 and 6 is 1.67; turned, 6 is for 1, -1.67.
    codes = [rating + 3.5 for rating in expected_ratings()]
    by_hand = sorted(((code - 1) / 6 - 0.5) * 5 for code in codes)
    human = read_choices(raw, trials=questions.assign(low=1, high=7))
    assert sorted(qualtrics_ratings(human)) == pytest.approx(by_hand, abs=1e-6)
    both = read_choices(turned, trials=given.assign(low=[1, 6] * 6, high=[6, 1] * 6))
    assert qualtrics_ratings(both) == expected_ratings()
    with pytest.raises(InputError, match="questions has no low or no high in row 2"):
        read_choices(raw, trials=questions.assign(low=[1, None] + [1] * 10, high=6))
    # What the command says goes before.
    over = read_choices(raw, low=6, high=1, trials=questions.assign(low=1, high=6))
    assert qualtrics_ratings(over) == [-rating for rating in expected_ratings()]


def test_leading_zeros_of_participants_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"{who},{one},{two},2.5,{native}"
        for who, native in (("001", 1), ("002", 2), ("013", 1), ("20", 2), ("100", 1))
        for one, two in (("A b c.", "B a c."), ("D e f.", "E d f."), ("G h i.", "H g i."))
    ]
    columns = "participant,sentence_1,sentence_2,rating,list"
    (tmp_path / "choices.csv").write_text("\n".join([columns, *rows]) + "\n", "utf-8")
    people = ["participant,native", "001,yes", "002,no", "013,yes", "20,no", "100,yes"]
    (tmp_path / "people.csv").write_text("\n".join(people) + "\n", "utf-8")
    (tmp_path / "out.txt").write_text("001\n", "utf-8")
    human = read_choices(tmp_path / "choices.csv").choices
    assert list(dict.fromkeys(human["participant"])) == ["001", "002", "013", "20", "100"]
    assert human["list"].dtype.kind == "i"
    people = ["--participant-table", str(tmp_path / "people.csv")]
    asked = ["evaluate", str(tmp_path / "choices.csv"), *people]
    rule = f"participants={tmp_path / 'out.txt'}"
    more = ["--exclude", rule, "--condition", "native", "--out", str(tmp_path / "r")]
    assert main([*asked, *more]) == 0
    assert "The table of participants lacks" not in capsys.readouterr().err
    excluded = pd.read_csv(tmp_path / "r" / "excluded.csv", dtype=str)
    assert excluded["participant"].tolist() == ["001"]


def test_numeric_participants_match_the_participant_table(
    tmp_path: Path,
) -> None:
    table = pd.DataFrame(
        {"sub": [1, 2, None], "sentence_1": "A b c.", "sentence_2": "B a c.", "response": "A b c."}
    )
    table.loc[2, ["sentence_1", "response"]] = None  # instructions, which are of nobody
    table.to_csv(tmp_path / "choices.csv", index=False)
    human = read_choices(tmp_path / "choices.csv", columns={"participant": "sub"})
    assert human.choices["participant"].tolist() == ["1", "2"]
    people = pd.DataFrame({"participant": ["1", "2"], "native": ["yes", "no"]})
    assert join_participants(human, people).choices["native"].tolist() == ["yes", "no"]


def test_session_columns_of_qualtrics_are_renamed() -> None:
    export = pd.DataFrame(
        {
            "ResponseId": ["R_1", "R_2"],
            "condition": ["short", "long"],
            "id": ["anna", "bert"],
            "Q1": ["A b c.", "B a c."],
        }
    )
    trials = pd.DataFrame({"question": ["Q1"], "sentence_1": "A b c.", "sentence_2": "B a c."})
    human = read_choices(export, trials=trials.assign(condition="verbs"))
    assert human.choices["condition"].tolist() == ["verbs", "verbs"]
    assert human.choices["session_condition"].tolist() == ["short", "long"]
    assert "anna" not in human.choices.to_csv()
    assert [note for note in human.notes if note.startswith("The session's")] == [
        "The session's column 'condition' is called 'session_condition', since it describes "
        "participants, not pairs; to compare them, name 'session_condition' as a condition."
    ]


def test_duplicate_columns_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("participant,sentence_1,sentence_2,rating,rating\np1,A b.,B a.,2.5,-2.5\n")
    with pytest.raises(InputError, match="twice.csv has two columns 'rating'; keep one"):
        read_choices(path)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ({"scale_low": [1, 1, None, 1], "scale_high": 4}, r"scale_low is missing \(row 3\); give"),
        ({"scale_low": 1, "scale_high": [4, 4, 4, None]}, r"scale_high is missing \(row 4\); give"),
        ({"scale_low": 1}, "has no column 'scale_high'"),
        ({"scale_low": None, "scale_high": None}, r"scale_low is missing \(rows 1, 2, 3 and 4\)"),
    ],
)
def test_missing_scale_ends_are_rejected(ends: dict[str, object], message: str) -> None:
    table = pd.DataFrame(
        {
            "participant": ["p", "p", "q", "q"],
            "sentence_1": ["The dog slept.", "He went home."] * 2,
            "sentence_2": ["Dog the slept.", "Home went he."] * 2,
            "response": [1, 2, 3, 4],
        }
    )
    with pytest.raises(InputError, match=message):
        read_choices(table.assign(**ends))
