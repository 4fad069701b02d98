"""Sheets that are judged blind: how they are made, bound to their key, and counted."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from contstim.cli import main
from contstim.errors import InputError, NoDataError
from contstim.selection.blind import (
    RULE,
    BlindSheet,
    blind_sheet,
    english_shares,
    key_of,
    read_source,
    read_verdicts,
)

SOURCES = {
    "written": [("A dog ran.", "A cat ran."), ("A man sat.", "Man a sat."), ("A dog ran.", "So.")],
    "published": ["A dog ran.", "Ran dog, a.", "Ran  dog, a."],
    "natural": ["I slept.", "=You slept."],
}


def fill(sheet: Path, judge: str, verdict: Callable[[str], str]) -> Path:
    """Write a judge's copy of a sheet, as an editor does: sorted by sentence, with CRLF."""
    table = pd.read_csv(sheet, dtype=str)
    table["english"] = table["sentence"].map(verdict)
    path = sheet.with_name(f"{judge}.csv")
    table.sort_values("sentence").to_csv(path, index=False, lineterminator="\r\n")
    return path


def test_each_sentence_is_on_the_sheet_once_and_counts_for_each_of_its_sources() -> None:
    sheet = blind_sheet(SOURCES, seed=3)
    assert sorted(sheet.sentences.values()) == sorted(
        {"A dog ran.", "A cat ran.", "A man sat.", "Man a sat.", "So.", "Ran dog, a."}
        | {*SOURCES["natural"]}
    )
    assert list(sheet.sentences) == [str(k) for k in range(1, 9)]
    texts = sheet.key.assign(text=sheet.key["number"].map(sheet.sentences))
    assert {name: {*rows["text"]} for name, rows in texts.groupby("source")} == {
        "written": {"A dog ran.", "A cat ran.", "A man sat.", "Man a sat.", "So."},
        "published": {"A dog ran.", "Ran dog, a."},
        "natural": {*SOURCES["natural"]},
    }
    rows = texts[texts["row"] != ""]
    assert [{*of_row} for _, of_row in rows.groupby("row")["text"]] == [
        {*entry} for entry in SOURCES["written"]
    ]
    assert not {*texts["row"][texts["source"] != "written"]} - {""}


def test_the_seed_says_what_is_drawn_and_in_which_order() -> None:
    one, same, other = (blind_sheet(SOURCES, seed=seed) for seed in (1, 1, 2))
    assert one.sentences == same.sentences
    assert one.key.equals(same.key)
    assert one.sentences != other.sentences
    assert {*one.sentences.values()} == {*other.sentences.values()}
    assert one.digest == same.digest != other.digest


@given(st.integers(1, 14), st.integers(0, 50))
def test_so_many_are_drawn_of_each_source_and_triplets_whole(each: int, seed: int) -> None:
    written = [(f"A {k}.", f"B {k}.") for k in range(6)]
    sheet = blind_sheet({"written": written, "natural": ["N 1.", "N 2."]}, each, seed)
    numbers = sheet.key.groupby("source")["number"].nunique()
    assert numbers.to_dict() == {"written": min(each, 12), "natural": min(each, 2)}
    in_rows = Counter(sheet.key["row"][sheet.key["row"] != ""])
    assert sorted(in_rows.values()) == [2] * (min(each, 12) // 2)


def test_every_sentence_is_as_likely_to_be_drawn_and_to_stand_first() -> None:
    written = [(f"A {k}.", f"B {k}.") for k in range(3)]
    sheets = [blind_sheet({"written": written}, 3, seed) for seed in range(600)]
    drawn = Counter(text for sheet in sheets for text in sheet.sentences.values())
    first = Counter(sheet.sentences["1"] for sheet in sheets)
    for counts, expected in ((drawn, 300), (first, 100)):
        assert len(counts) == 6
        assert all(abs(n - expected) < 60 for n in counts.values())


@pytest.mark.parametrize("sources", [{"": ["A."]}, {"a": []}, {"a": ["A.", " "]}])
def test_a_source_has_a_name_and_sentences(sources: dict[str, list[str]]) -> None:
    (name,) = sources
    with pytest.raises(InputError) as error:
        blind_sheet(sources)
    assert str(error.value) == f"the source {name!r} lacks a name or a sentence; give both"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "t.csv",
            "natural,synthetic_1,synthetic_2\nN.,A  b.,B.\n",
            [("A b.", "B.")],
        ),
        ("t.tsv", "sentence_1\tsentence_2\nA, b.\tB.\n", [("A, b.", "B.")]),
        ("t.csv", "accept,synthetic\nm,A.\n", [("A.",)]),
        ("t.csv", "id,sentence\n1,A.\n2,B.\n", [("A.",), ("B.",)]),
        ("t.txt", "A, b.\nB.\n", [("A, b.",), ("B.",)]),
    ],
)
def test_sources_are_what_other_commands_write_and_lists(
    tmp_path: Path, name: str, text: str, expected: list[tuple[str, ...]]
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert read_source(tmp_path / name) == expected


def test_sources_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("S1,S2\nA.,B.\n", "utf-8")
    with pytest.raises(InputError, match=r"t\.csv has no column 'sentence'; it has 'S1', 'S2'$"):
        read_source(path)
    path.write_text("synthetic_1,synthetic_2\nA.,B.\nC.,\n", "utf-8")
    with pytest.raises(InputError, match=r"lacks a sentence in row 2; fill or remove the row$"):
        read_source(path)


def test_a_sheet_tells_nothing_of_the_sources_and_is_not_overwritten(tmp_path: Path) -> None:
    sheet = blind_sheet(SOURCES)
    path = tmp_path / "sheet.csv"
    key, rule = sheet.write(path)
    assert (key.name, rule.name) == ("sheet.key.csv", "sheet.rule.txt")
    written = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert list(written) == ["number", "sentence", "english", "note"]
    assert {*written["english"], *written["note"]} == {""}
    assert "'=You slept." in {*written["sentence"]}  # no formula
    assert rule.read_text("utf-8").startswith(RULE)
    again = BlindSheet.read(path)
    assert again.sentences == sheet.sentences
    assert again.key.equals(sheet.key)
    for place in (path, key, rule):
        left = [p for p in (path, key, rule) if p != place]
        for other in left:
            other.rename(other.with_suffix(".away"))
        with pytest.raises(InputError) as error:
            sheet.write(path)
        assert str(error.value) == (
            f"{place} is there already, and may be judged; give the sheet another name"
        )
        for other in left:
            other.with_suffix(".away").rename(other)
    for name in ("sheet", "sheet.tsv", "-", ".csv"):
        with pytest.raises(InputError, match=r"is no name of a sheet; give one that ends in \.csv"):
            sheet.write(name)


def test_a_key_belongs_to_one_sheet(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    blind_sheet(SOURCES, seed=1).write(one)
    blind_sheet(SOURCES, seed=2).write(two)
    shutil.copy(key_of(two), key_of(one))
    with pytest.raises(InputError) as error:
        BlindSheet.read(one)
    assert str(error.value) == (
        f"{key_of(one)} is not the key of {one} as it is now; restore both as they were written"
    )
    blind_sheet(SOURCES, seed=1).write(tmp_path / "three.csv")
    key = key_of(tmp_path / "three.csv")
    text = key.read_text("utf-8").splitlines(keepends=True)
    lone = next(line for line in text if line.endswith("natural,\n"))
    key.write_text("".join(line for line in text if line != lone), "utf-8")
    with pytest.raises(InputError, match=r"three\.key\.csv is not the key of"):
        BlindSheet.read(tmp_path / "three.csv")
    two.write_text(two.read_text("utf-8").replace("slept", "sleep"), "utf-8")
    with pytest.raises(InputError, match=r"is not the key of .*two\.csv as it is now"):
        BlindSheet.read(two)
    key_of(two).unlink()
    with pytest.raises(NoDataError, match=r"there is no file .*two\.key\.csv"):
        BlindSheet.read(two)


def test_shares_of_each_source_and_judge(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    blind_sheet(SOURCES).write(path)
    sheet = BlindSheet.read(path)
    judges = [
        fill(path, "MK", lambda text: "no" if "a " in text or ", a" in text else "yes"),
        fill(path, "AB", lambda text: " Yes" if "A " in text else "NO "),
    ]
    verdicts = read_verdicts(sheet, judges)
    assert list(verdicts) == ["MK", "AB"]
    table = english_shares(sheet, verdicts)
    counts = {
        (row["measure"], row["source"], row["judge"]): (row["count"], row["n"])
        for row in table.to_dict("records")
    }
    # By hand: MK refuses "Man a sat." and "Ran dog, a."; AB takes what has "A ".
    assert counts == {
        ("english", "written", "MK"): (4, 5),
        ("both_english", "written", "MK"): (2, 3),
        ("english", "written", "AB"): (3, 5),
        ("both_english", "written", "AB"): (1, 3),
        ("english", "published", "MK"): (1, 2),
        ("english", "published", "AB"): (1, 2),
        ("english", "natural", "MK"): (2, 2),
        ("english", "natural", "AB"): (0, 2),
        ("kappa", "", "MK"): (5, 8),
    }
    shares = table[table["measure"] != "kappa"]
    assert np.allclose(shares["value"], shares["count"] / shares["n"])
    for row in shares.to_dict("records"):
        wilson = binomtest(row["count"], row["n"]).proportion_ci(0.95, "wilson")
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((wilson.low, wilson.high))
    # Of 8: MK 6 yes, AB 3; agreed 5/8, expected 18/64 + 10/64; kappa (40 - 28) / (64 - 28).
    kappa = table.iloc[-1]
    assert (kappa["judge_2"], kappa["value"]) == ("AB", pytest.approx(1 / 3))
    assert -1 <= kappa["ci_low"] < 1 / 3 < kappa["ci_high"] <= 1


def test_judges_who_never_differ_have_no_interval_of_kappa(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    blind_sheet(SOURCES).write(path)
    sheet = BlindSheet.read(path)
    files = [fill(path, who, lambda text: "yes" if "A " in text else "no") for who in "AB"]
    kappa = english_shares(sheet, read_verdicts(sheet, files)).iloc[-1]
    assert kappa["value"] == pytest.approx(1)
    assert np.isnan([kappa["ci_low"], kappa["ci_high"]]).all()


def test_kappa_is_at_most_1_in_its_interval_too(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    blind_sheet({"a": [f"{k}." for k in range(12)]}).write(path)
    sheet = BlindSheet.read(path)
    one = fill(path, "A", lambda text: "yes" if len(text) > 2 else "no")
    two = fill(path, "B", lambda text: "yes" if text == "10." else "no")
    kappa = english_shares(sheet, read_verdicts(sheet, [one, two])).iloc[-1]
    # Agreed 11/12, expected (2 * 1 + 10 * 11) / 144: kappa (132 - 112) / (144 - 112).
    assert kappa["value"] == pytest.approx(20 / 32)
    assert kappa["ci_high"] == 1


def test_nothing_is_told_before_all_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    blind_sheet(SOURCES).write(path)
    sheet = BlindSheet.read(path)
    one = fill(path, "MK", lambda text: "yes" if "A " in text else "")
    two = fill(path, "AB", lambda text: "no" if "A " in text else " ")
    done = fill(path, "CD", lambda text: "no")
    with pytest.raises(NoDataError) as error:
        read_verdicts(sheet, [done, one, two])
    assert str(error.value) == (
        f"{one} lacks 5 of 8 verdicts; {two} lacks 5 of 8 verdicts; sources are shown when all "
        "sentences are judged"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("slept.,yes", "slept.,maybe"), r"has 'maybe' as the verdict about number '\d'; write"),
        (("I slept.", "I sleep."), r"has 'I sleep.' as number '\d', the sheet 'I slept.'; judge"),
        (("number", "id"), r"has no column 'number'; it has"),
        (("english", "English"), r"has no column 'english'; did you mean"),
        (("1,", "10,"), r"lacks number '1' of the sheet; put the row back$"),
        (("1,", "2,"), r"has number '2' twice; keep one row$"),
        (("note\r\n", "note\r\n9,A hat.,yes,\r\n"), r"has number '9', the sheet has not; remove"),
    ],
)
def test_verdicts_that_are_not_of_the_sheet(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    path = tmp_path / "sheet.csv"
    blind_sheet(SOURCES).write(path)
    judge = fill(path, "MK", lambda text: "yes")
    text = judge.read_bytes().decode()
    assert change[0] in text
    judge.write_bytes(text.replace(*change).encode())
    with pytest.raises(InputError, match=message):
        read_verdicts(BlindSheet.read(path), [judge])


def test_two_judges_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    blind_sheet(SOURCES).write(path)
    judge = fill(path, "MK", lambda text: "yes")
    with pytest.raises(InputError) as error:
        read_verdicts(BlindSheet.read(path), [judge, judge])
    assert str(error.value) == (
        "two files of verdicts are named 'MK', which names the judge; rename one"
    )


def test_sources_that_lack_the_mark_of_others() -> None:
    assert blind_sheet({"a": ["A.", "B"], "b": ["C", "D"], "c": ["E?"]}).without_marks() == ["b"]
    assert blind_sheet({"a": ["A"], "b": ["C", "D"]}).without_marks() == []


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("synthetic_1,synthetic_2\nA dog ran.,Dog a ran.\n", "utf-8")
    Path("p.txt").write_text("Ran a dog\nA dog sat\n", "utf-8")
    Path("rule.txt").write_text("Lies es laut.\n", "utf-8")
    sources = ["--source", "written=t.csv", "--source", "published=p.txt"]
    blind = ["review", "--blind", "sheet.csv"]
    assert main([*blind, *sources, "--each", "2", "--seed", "4", "--rule", "rule.txt"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "sheet.csv: 4 sentences; judges get a copy each, and sheet.rule.txt",
        "sheet.key.csv: 2 written, 2 published; not for judges",
        "note: no sentence of published ends with a mark, others do: judges can tell them",
    ]
    assert Path("sheet.rule.txt").read_text("utf-8").startswith("Lies es laut.\n")
    assert main([*blind, *sources]) == 2
    Path("empty.txt").write_text("\n", "utf-8")
    assert main(["review", "--blind", "b.csv", *sources, "--rule", "empty.txt"]) == 2
    fill(Path("sheet.csv"), "MK", lambda text: "yes" if text.startswith("A") else "")
    assert main([*blind, "--verdicts", "MK.csv", "--out", "shares.csv"]) == 2
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "contstim: sheet.csv is there already, and may be judged; give the sheet another name",
        "contstim: empty.txt holds no rule; write one, or leave out --rule",
        "contstim: MK.csv lacks 2 of 4 verdicts; sources are shown when all sentences are judged",
    ]
    assert not out
    assert not Path("shares.csv").exists()
    for who in ("MK", "AB"):
        fill(Path("sheet.csv"), who, lambda text: "yes" if text.startswith("A") else "no")
    ask = [*blind, "--verdicts", "MK.csv", "--verdicts", "AB.csv"]
    assert main([*ask, "--out", "shares.csv"]) == 0
    out = capsys.readouterr().out
    assert "both_english   written    MK          1      0" in out
    shares = pd.read_csv("shares.csv")
    assert list(shares["measure"]) == [
        *["english", "both_english"] * 2,
        *["english"] * 2,
        "kappa",
    ]
    assert main([*ask, "--out", "-"]) == 0
    assert capsys.readouterr().out == Path("shares.csv").read_text("utf-8")
    assert main([*ask, "--out", "sheet.key.csv"]) == 2
    assert "would be both read and written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("s.csv --blind", "--blind makes a sheet of --source, or counts --verdicts; give either"),
        ("s.csv --each 3", "--each is of --blind; give that too"),
        ("s.csv --verdicts MK.csv", "--verdicts is of --blind; give that too"),
        (
            "s.csv --blind --reviewer MK",
            "--reviewer goes without --blind; leave out one of the two",
        ),
        (
            "s.csv --blind --source a=b.txt --out c.csv",
            "--out goes without --source; leave out one of the two",
        ),
        ("s.csv --blind --verdicts MK.csv --each 3", "--each is for a new sheet; leave it out"),
        ("s.csv --blind --source a", "--source 'a' is not NAME=FILE, each name once; write it so"),
        (
            "s.csv --blind --source a=b --source a=c",
            "--source 'a=c' is not NAME=FILE, each name once; write it so",
        ),
    ],
)
def test_commands_that_say_too_much_or_too_little(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["review", *command.split()]) == 2
    assert capsys.readouterr().err == f"contstim: {message}\n"
