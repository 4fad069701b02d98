"""Combinations of options of `contstim evaluate`."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from covering import Combinations, Outcome, Relation, Row, on_files, require_values
from material import as_windows, decompose, nfc, nfd, rewrite, sentences, shuffle
from scipy.stats import false_discovery_control, rankdata

from contstim import load_model
from contstim.evaluation.options import PRESETS
from contstim.models.base import SentenceModel

SPECS = ("M=contstim:bigram?unknown=unk", "N=contstim:trigram?unknown=unk")
VALUES: dict[str, Any] = {
    "CHOICES": ["choices.csv", "choices.tsv"],
    "MORE": [None, "second.csv"],
    "--format": [None, "tidy"],
    "--column": [None, "participant=subject"],
    "--low": [None, "-3.5"],
    "--high": [None, "3.5"],
    "--side": [None, "none"],
    "--buttons": [None, "2"],
    "--trials": [None, "questions.csv"],
    "--participant-table": [None, "people.csv"],
    "--model": [None, SPECS],
    "--scores": [None, "long.csv"],
    "--measure": [None, ("signed_rank_cosine", "speed")],
    "--condition": [None, ("native", "length")],
    "--items": [None, "fixed"],
    "--exclude": [None, ("catch<0.75", "rt<300", "trials<18")],
    "--equivalence": [None, "0.3"],
    "--preset": [None, "golan2023"],
    "--plan": [None, "plan.toml"],
    "--mixed-models": [None, True],
    "--seed": [None, "3"],
    "--out": ["results", "results2"],
}
PLAN = 'measures = ["accuracy"]\nequivalence = 0.2\n[exclusions]\nmin_trials = 20\n'
KEYS = {
    "models": ["analysis", "measure", "model"],
    "comparisons": ["analysis", "measure", "model_1", "model_2"],
    "participants": ["analysis", "measure", "participant", "model"],
    "conditions": ["analysis", "measure", "factor", "level_1", "level_2", "model_1", "model_2"],
    "excluded": ["rule", "participant"],
    "ceilings": ["analysis", "measure"],
}
#: Texts, and sizes of studies, which are unbounded where a difference is nearly 0.
UNCOMPARED = ("note", "detail", "effect")
Tables = dict[str, pd.DataFrame]
RENAMED = {"A": "Zeta", "B": "Beta", "M": "Tau", "N": "Eta", "natural": "wood", "written": "apples"}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight participants who judge 16 pairs, three catch trials and two fillers."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(4)
    texts = sentences(72)
    pairs = pd.DataFrame({"sentence_1": texts[:21], "sentence_2": texts[21:42]})
    pairs["condition"] = ["natural", "written"] * 8 + ["catch"] * 3 + ["filler"] * 2
    pairs["item"] = [f"Stück {k // 2}" for k in range(21)]
    pairs["length"] = ["short"] * 7 + ["long"] * 9 + ["long"] * 5
    pairs["expected"] = [np.nan] * 16 + [1, 2, 2] + [np.nan] * 2
    for name, cells in (("model_1", ["A", "B"]), ("model_2", ["B", "A"])):
        pairs[name] = cells * 8 + [None] * 5
    names = [f"A={k}" for k in range(21)]
    values = {name: dict(zip(names, rng.normal(size=21), strict=True)) for name in "AB"}
    scores = pd.DataFrame({"sentence": texts})
    for model in "AB":
        half = np.array([*values[model].values()])
        scores[model] = np.concatenate([-20 - half, -20 + half, np.full(30, -20)])
    scores.to_csv("wide.csv", index=False)
    long = scores.melt("sentence", var_name="model", value_name="log_prob")
    long.assign(further="x").to_csv("long.csv", index=False)
    rows = []
    for person in range(8):
        for k in rng.permutation(21):
            pair = pairs.iloc[k]
            drive = values["A"][names[k]] + rng.normal(scale=1.2)
            rating = float(np.sign(drive) * min(2.5, math.floor(abs(2 * drive)) + 0.5))
            if pair["condition"] == "catch":
                right = rng.random() > (0.6 if person == 5 else 0.05)
                rating = 2.5 if (pair["expected"] == 2) == right else -2.5
            fast = person == 6 and rng.random() < 0.4
            trial = {"participant": f"p{person}", "group": f"g{person % 2}", "trial": len(rows) + 1}
            rt = 100 if fast else 900 + int(rng.integers(1500))
            rows.append({**trial, **pair, "rating": rating, "rt_ms": rt})
    choices = pd.DataFrame(rows)
    save_choices(choices)
    people = pd.DataFrame({"participant": [f"{x}{k}" for x in "pqs" for k in range(8)]})
    people["native"] = ["yes", "no", "no", "yes"] * 6
    people.to_csv("people.csv", index=False)
    Path("plan.toml").write_text(PLAN, "utf-8")
    Path("questions.csv").write_text("question,sentence_1,sentence_2\nQ1,a,b\n", "utf-8")
    return folder


def save_choices(choices: pd.DataFrame) -> None:
    """Write choices as choices.csv and choices.tsv, and those of others as second.csv."""
    choices = choices.assign(subject=choices["participant"].str.replace("p", "s"))
    choices.to_csv("choices.csv", index=False)
    choices.to_csv("choices.tsv", index=False, sep="\t")
    others = choices[choices["participant"].str.strip().isin([f"p{k}" for k in range(4)])]
    others = others.assign(rating=np.sign(others["rating"]) * (3 - others["rating"].abs()))
    for column in ("participant", "subject"):
        others[column] = "q" + others[column].str.strip().str[1:]
    others.to_csv("second.csv", index=False)


def check(row: Row, outcome: Outcome) -> Tables:
    """Check the tables against values computed in plain loops, and return them."""
    folder = Path(row["--out"])
    tables = {
        name: pd.read_csv(folder / f"{name}.csv", dtype={"participant": str, "note": str})
        for name in KEYS
        if (folder / f"{name}.csv").exists()
    }
    choices = included_choices(row)
    kept = {*choices["participant"]}
    if "excluded" in tables:
        assert not kept & {*tables["excluded"].query("rule != 'too fast'")["participant"]}
    scores = scores_of(row, choices)
    preset = row["--preset"] is not None
    measures = row["--measure"] or (
        ("accuracy",) if row["--plan"] else ("accuracy", "signed_rank_cosine")
    )
    measures = (measures,) if isinstance(measures, str) else measures
    experimental = choices[~choices["condition"].isin(["catch", "filler"])]
    if scores:
        table = tables["models"]
        assert set(table["measure"]) == set(measures)
        assert {*table["model"]} == {*scores}
        check_models(row, table, experimental, scores)
        check_differences(tables, adjusted=not preset)
        report = (folder / "report.html").read_text("utf-8")
        for line in table.query("analysis == 'all'").itertuples():
            shown = f"{line.value:.3f}"
            assert shown in outcome.out
            assert shown in report or f"{line.value:.2f}" in report
        if not preset:
            fixed = "items are fixed" in report
            assert fixed != ("treat participants and items as random" in report)
            assert fixed == (row["--items"] == "fixed")
        margin = float(row["--equivalence"] or (0.2 if row["--plan"] else 0.1))
        of_all = tables["comparisons"].query("analysis == 'all' and measure == 'accuracy'")
        if len(of_all) and not preset:
            ceiling = table.query("analysis == 'all' and measure == 'accuracy'")["ceiling_lower"]
            expected = margin * abs(ceiling.iloc[0] - 0.5)
            assert of_all["margin"].iloc[0] == pytest.approx(expected, abs=1e-9)
    assert f"{len(kept)} participants" in outcome.out
    assert f"{len(choices)} choices" in outcome.out
    if row["--mixed-models"]:
        written = pd.read_csv(folder / "mixed_models.csv", dtype={"participant": str})
        assert set(written["participant"]) == kept
        assert len(written) == len(experimental) * max(
            1, written.get("model", pd.Series()).nunique()
        )
    return tables


def included_choices(row: Row) -> pd.DataFrame:
    """Return the choices of a row's files that its rules of exclusion leave in."""
    files = [row["CHOICES"], *[row["MORE"]] * (row["MORE"] is not None)]
    separators = {"choices.tsv": "\t"}
    choices = pd.concat([pd.read_csv(f, sep=separators.get(f, ",")) for f in files])
    if row["--column"]:
        choices["participant"] = choices["subject"]
    if row["--low"]:
        choices["rating"] *= 2.5 / 3.5
    for column in ("sentence_1", "sentence_2", "condition", "participant"):
        choices[column] = choices[column].map(lambda text: nfc(str(text)).strip())
    choices["condition"] = choices["condition"].str.lower()
    share = 11 / 12 if row["--preset"] else None
    given = row["--exclude"] if isinstance(row["--exclude"], tuple) else (row["--exclude"],)
    if row["--plan"] and "catch<0.75" not in given:
        share = None  # a plan's exclusions replace those of a preset
    if "catch<0.75" in given:
        share = 0.75
    if share is not None:
        catch = choices[choices["condition"] == "catch"]
        right = (catch["rating"] > 0) == (catch["expected"] == 2)
        by_person = right.groupby(catch["participant"]).mean()
        choices = choices[choices["participant"].map(by_person) >= share]
    if "rt<300" in given:
        choices = choices[choices["rt_ms"] >= 300]
        size = choices.groupby("participant")["rating"].transform("size")
        choices = choices[size >= 18]
    return choices


@cache
def load_cached(spec: str) -> SentenceModel:
    return load_model(spec)


def scores_of(row: Row, choices: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return each model's score of each sentence."""
    scores = {}
    texts = sorted({*choices["sentence_1"], *choices["sentence_2"]})
    if row["--model"]:
        specs = row["--model"] if isinstance(row["--model"], tuple) else (row["--model"],)
        for spec in specs:
            name, _, model = spec.partition("=")
            values = load_cached(model).score(texts)
            scores[name] = dict(zip(texts, values.tolist(), strict=True))
    if row["--scores"]:
        table = pd.read_csv("wide.csv")
        for name in table.columns[1:]:
            scores[name] = dict(zip(table["sentence"].map(nfc), table[name], strict=True))
    return scores


def check_models(
    row: Row, table: pd.DataFrame, choices: pd.DataFrame, scores: dict[str, dict[str, float]]
) -> None:
    """Compare values and lower ceilings with those of plain loops, analysis by analysis."""
    people = pd.read_csv("people.csv", dtype=str).set_index("participant")["native"]
    levels = {"native": choices["participant"].map(people), "length": choices["length"]}
    selections = {"all": choices}
    for condition in choices["condition"].unique():
        selections[condition] = choices[choices["condition"] == condition]
    if row["--condition"]:
        for column, of_level in levels.items():
            for level in of_level.unique():
                selections[f"all, {column} {level}"] = choices[of_level == level]
        assert {*selections} <= {*table["analysis"]}
    for name, chosen in selections.items():
        for (measure, model), of_model in table[table["analysis"] == name].groupby(
            ["measure", "model"]
        ):
            line = of_model.iloc[0]
            assert len(of_model) == 1
            if measure == "speed":
                continue
            ratio = [
                scores[model][t.sentence_2] - scores[model][t.sentence_1]
                for t in chosen.itertuples()
            ]
            value = VALUE_OF[measure]
            by_person = defaultdict(lambda: ([], []))
            for person, rating, prediction in zip(
                chosen["participant"], chosen["rating"], ratio, strict=True
            ):
                by_person[person][0].append(rating)
                by_person[person][1].append(prediction)
            expected = np.nanmean([value(*map(np.array, pair)) for pair in by_person.values()])
            assert line["value"] == pytest.approx(expected, abs=1e-9, nan_ok=True), name
            assert line["n_participants"] == len(by_person)
            shown = zip(chosen["sentence_1"], chosen["sentence_2"], strict=True)
            assert line["n_trials"] == len({*map(frozenset, shown)})
            if measure == "accuracy" and not (row["MORE"] and row["--condition"]):
                assert line["ceiling_lower"] == pytest.approx(
                    lower_ceiling(chosen), abs=1e-9, nan_ok=True
                )
            if not math.isnan(line["ci_low"]) and not row["--preset"]:
                assert line["ci_low"] - 1e-9 <= line["value"] <= line["ci_high"] + 1e-9


def accuracy(rating: np.ndarray, prediction: np.ndarray) -> float:
    return float(
        np.mean(
            [0.5 + 0.5 * np.sign(r) * np.sign(p) for r, p in zip(rating, prediction, strict=True)]
        )
    )


def cosine(rating: np.ndarray, prediction: np.ndarray) -> float:
    one, two = (np.sign(x) * rankdata(np.abs(np.round(x, 12))) for x in (rating, prediction))
    n = len(rating)
    return float(one @ two / (n * (n + 1) * (2 * n + 1) / 6))


VALUE_OF: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "signed_rank_cosine": cosine,
}


def lower_ceiling(choices: pd.DataFrame) -> float:
    """Return the mean accuracy of the majority of the other participants."""
    keys = [choices[["sentence_1", "sentence_2"]].min(axis=1)]
    turned = choices["sentence_1"] > choices["sentence_2"]
    sign = np.sign(choices["rating"]).where(~turned, -np.sign(choices["rating"]))
    keys = [
        choices["sentence_1"].where(~turned, choices["sentence_2"]),
        choices["sentence_2"].where(~turned, choices["sentence_1"]),
    ]
    others = sign.groupby(keys).transform("sum") - sign
    seen = sign.groupby(keys).transform("size") > 1
    agree = (0.5 + 0.5 * np.sign(others) * sign)[seen]
    return float(agree.groupby(choices["participant"][seen]).mean().mean())


def check_differences(tables: Tables, adjusted: bool) -> None:
    """Assert that comparisons are differences of values, and q those of one family."""
    values = tables["models"].set_index(KEYS["models"])["value"]
    comparisons = tables["comparisons"]
    for line in comparisons.itertuples():
        one, two = (
            values.get((line.analysis, line.measure, m)) for m in (line.model_1, line.model_2)
        )
        if not line.analysis.startswith("targeted") and "/" not in line.analysis:
            assert line.difference == pytest.approx(one - two, abs=1e-9, nan_ok=True)
    is_main = ~comparisons["analysis"].str.match("catch|fillers")
    family = comparisons[is_main & comparisons["p"].notna()]
    if adjusted and len(family):
        expected = false_discovery_control(family["p"])
        assert family["q"].to_numpy() == pytest.approx(expected, abs=1e-9)


def compare(one: Tables, two: Tables) -> None:
    """Compare the rows and columns of `two`, comparisons with models in alphabetical order."""
    assert one.keys() == two.keys()
    for name, table in two.items():
        keys = KEYS[name]
        both = [orient_models(t).sort_values(keys, ignore_index=True) for t in (one[name], table)]
        assert {*both[0]} == {*both[1]}
        columns = [column for column in both[1] if column not in UNCOMPARED]
        pd.testing.assert_frame_equal(
            both[0][columns], both[1][columns], check_dtype=False, rtol=1e-7, atol=1e-9
        )


def orient_models(table: pd.DataFrame) -> pd.DataFrame:
    if "model_1" not in table:
        return table
    turn = table["model_1"] > table["model_2"]
    out = table.assign(
        model_1=table["model_1"].where(~turn, table["model_2"]),
        model_2=table["model_2"].where(~turn, table["model_1"]),
        difference=table["difference"].where(~turn, -table["difference"]),
        ci_low=table["ci_low"].where(~turn, -table["ci_high"]),
        ci_high=table["ci_high"].where(~turn, -table["ci_low"]),
    )
    if "level_1" in out:
        turn = out["level_1"] > out["level_2"]
        out = out.assign(
            level_1=out["level_1"].where(~turn, out["level_2"]),
            level_2=out["level_2"].where(~turn, out["level_1"]),
            n_participants_1=out["n_participants_1"].where(~turn, out["n_participants_2"]),
            n_participants_2=out["n_participants_2"].where(~turn, out["n_participants_1"]),
            difference=out["difference"].where(~turn, -out["difference"]),
            ci_low=out["ci_low"].where(~turn, -out["ci_high"]),
            ci_high=out["ci_high"].where(~turn, -out["ci_low"]),
        )
    return out.drop(columns="conclusion")


def on_choices(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Row], Row]:
    """Return a change of all files of choices."""

    def apply(row: Row) -> Row:
        save_choices(change(pd.read_csv("choices.csv")))
        return row

    return apply


def exchange_sides(choices: pd.DataFrame) -> pd.DataFrame:
    """Exchange the two sentences in half of the rows, and all that belongs to them."""
    turned = choices.rename(columns=lambda name: name.translate(str.maketrans("12", "21")))
    turned = turned.assign(rating=-choices["rating"], expected=3 - choices["expected"])
    half = choices["trial"] % 2 == 0
    return pd.concat([choices[~half], turned[choices.columns][half]]).sort_values("trial")


def add_trials(condition: str, rating: float) -> Callable[[Row], Row | None]:
    """Return a change that adds two trials of a kind for each participant; rules count them."""

    def change(choices: pd.DataFrame) -> pd.DataFrame:
        first = choices.drop_duplicates("participant")
        added = [
            first.assign(
                sentence_1=sentences(72)[50 + k],
                sentence_2=sentences(72)[60 + k],
                condition=condition,
                rating=rating,
                model_1=None,
                model_2=None,
                item=f"new {k}",
                trial=900 + k,
                length="long",
                expected=2 if condition == "catch" else np.nan,
                rt_ms=1500,
            )
            for k in range(2)
        ]
        return pd.concat([choices, *added])

    def apply(row: Row) -> Row | None:
        has_rules = row["--exclude"] or row["--plan"] or row["--preset"]
        return None if has_rules else on_choices(change)(row)

    return apply


def select_experimental(tables: Tables) -> Tables:
    """Return the rows of tables on trials that compare models."""
    kept = {name: t for name, t in tables.items() if name != "excluded"}
    return {
        name: table[~table["analysis"].str.match("catch|fillers")] for name, table in kept.items()
    }


def respace_labels(choices: pd.DataFrame) -> pd.DataFrame:
    """Write labels in every second row with spaces, in capitals or in another normal form."""
    odd = choices["trial"] % 2 == 1
    conditions = choices["condition"].replace({"catch": "Catch", "filler": "FILLER"}) + " "
    return choices.assign(
        condition=choices["condition"].where(~odd, conditions),
        participant=choices["participant"].where(~odd, choices["participant"] + " "),
        **{
            name: choices[name].where(~odd, choices[name].map(lambda text: f"{nfd(text)} "))
            for name in ("item", "group", "length", "sentence_1", "sentence_2")
        },
    )


def rename_participants(row: Row) -> Row:
    """Put a zero before all names of participants."""
    for path in ("choices.csv", "choices.tsv", "second.csv", "people.csv"):
        separator = "\t" if path.endswith(".tsv") else ","
        table = pd.read_csv(path, sep=separator)
        named = [name for name in ("participant", "subject") if name in table]
        table[named] = "0" + table[named]
        table.to_csv(path, sep=separator, index=False)
    return row


def rename_models(row: Row) -> Row:
    """Exchange the alphabetical order of the models."""
    for path in ("choices.csv", "choices.tsv", "second.csv", "long.csv", "wide.csv"):
        separator = "\t" if path.endswith(".tsv") else ","
        table = pd.read_csv(path, sep=separator).rename(columns=RENAMED)
        for name in {"model", "model_1", "model_2"} & {*table}:
            table[name] = table[name].replace(RENAMED)
        table.to_csv(path, sep=separator, index=False)
    specs = row["--model"] and tuple(RENAMED[spec[0]] + spec[1:] for spec in row["--model"])
    return {**row, "--model": specs}


def restore_names(tables: Tables) -> Tables:
    """Return tables with the models, conditions and participants as they were."""
    back = {new: old for old, new in RENAMED.items()}
    words = {rf"\b{new}\b": old for new, old in back.items()}
    return {name: t.replace(words, regex=True) for name, t in tables.items()}


def duplicate_participants(row: Row) -> Row | None:
    """Add a participant with the same answers for each participant."""
    if row["MORE"]:
        return None
    people = pd.read_csv("people.csv")
    doubles = people.assign(participant="d" + people["participant"])
    pd.concat([people, doubles]).to_csv("people.csv", index=False)

    def double(choices: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([choices, choices.assign(participant="d" + choices["participant"])])

    return on_choices(double)(row)


def select_values(tables: Tables) -> Tables:
    return {"models": tables["models"][[*KEYS["models"], "value"]]} if "models" in tables else {}


def add_person(row: Row) -> Row:
    """Add a participant without trials, who is of a group of their own."""
    people = pd.read_csv("people.csv")
    people.loc[len(people)] = ["z9", "unknown"]
    people.to_csv("people.csv", index=False)
    return row


def restore_participants(tables: Tables) -> Tables:
    return {
        name: t.assign(participant=t["participant"].str[1:]) if "participant" in t else t
        for name, t in tables.items()
    }


def split_files(row: Row) -> Row | None:
    if row["CHOICES"] != "choices.csv" or row["MORE"]:
        return None
    choices = pd.read_csv("choices.csv")
    first = choices["participant"].isin(["p0", "p3", "p6"])
    choices[first].to_csv("part.csv", index=False)
    choices[~first].to_csv("rest.csv", index=False)
    return {
        "CHOICES": "part.csv",
        "MORE": "rest.csv",
        **{k: v for k, v in row.items() if k.startswith("--")},
    }


FILES = ["choices.csv", "choices.tsv", "second.csv", "wide.csv", "long.csv", "people.csv"]


def scale_scores(row: Row) -> Row:
    table = pd.read_csv("wide.csv")
    scores = table.assign(A=3 * table["A"] - 5, B=3 * table["B"] + 100 - 300)
    scores.to_csv("wide.csv", index=False)
    scores.melt("sentence", var_name="model", value_name="log_prob").to_csv("long.csv", index=False)
    return row


def convert_to_surprisals(row: Row) -> Row:
    long = pd.read_csv("long.csv")
    long.assign(log_prob=-long["log_prob"] / np.log(2), unit="surprisal-bits").to_csv(
        "long.csv", index=False
    )
    return row


def quote_all(path: str) -> None:
    if path.endswith(".csv"):
        rewrite(path, quoting=csv.QUOTE_ALL)
    as_windows(path)


FACTORS = {"--condition": VALUES["--condition"][1], "--participant-table": "people.csv"}
RELATIONS = {
    "rows permuted": Relation(on_choices(shuffle)),
    "sides exchanged": Relation(on_choices(exchange_sides)),
    "column added": Relation(on_choices(lambda t: t.assign(further=1, kind_of="x"))),
    "fillers added": Relation(add_trials("filler", -2.5), view=select_experimental, given=FACTORS),
    "catch trials added": Relation(add_trials("catch", 2.5), view=select_experimental),
    "labels respaced": Relation(on_choices(respace_labels)),
    "participants renamed": Relation(rename_participants, restore_participants),
    "participants duplicated": Relation(duplicate_participants, view=select_values),
    "participant without trials": Relation(add_person, given=FACTORS),
    "models renamed": Relation(rename_models, restore_names),
    "conditions renamed": Relation(
        on_choices(lambda t: t.assign(condition=t["condition"].replace(RENAMED))), restore_names
    ),
    "file split": Relation(split_files),
    "scores scaled": Relation(scale_scores),
    "surprisals": Relation(convert_to_surprisals),
    "NFD": Relation(on_files(FILES, decompose)),
    "quoted, CRLF and BOM": Relation(on_files(FILES, quote_all)),
}


def test_evaluate(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_values("evaluate", VALUES)
    monkeypatch.setattr("contstim.evaluation.report.save_figure", lambda *_: None)
    # Bootstrap draws follow the order in which participants appear.
    published = replace(PRESETS["golan2023"], n_bootstrap=0)
    monkeypatch.setitem(PRESETS, "golan2023", published)
    inert = [("--column", "participant=subject"), ("--low", "-3.5"), ("--high", "3.5")]
    inert += [
        ("--out", "results2"),
        ("--mixed-models", True),
        ("--format", "tidy"),
        ("--side", "none"),
        ("--seed", "3"),
    ]
    left_out = (
        "MORE",
        "--measure",
        "--condition",
        "--model",
        "--exclude",
        "--plan",
        "--preset",
        "--mixed-models",
    )
    compared = {"--scores": "long.csv", **dict.fromkeys(left_out)}
    synonyms = {"--trials": "the table of trials"}
    Combinations(
        "evaluate",
        VALUES,
        inputs,
        check,
        compare,
        RELATIONS,
        synonyms,
        compared=compared,
        unaccepted=["--buttons", "--trials"],
    ).check(tmp_path / "work", inert=inert)
