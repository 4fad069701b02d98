"""Combinations of options of `contstim design`, with those of `contstim.adaptive.commands`."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from covering import Combinations, Outcome, Relation, Row, on_files, require_values, run
from material import as_windows, decompose, nfc, read_out, rewrite, sentences, shuffle

from contstim import evaluate, load_model
from contstim.adaptive import predict_saved_answers
from contstim.design.power import power_curve, required_sample_size
from contstim.design.simulate import Simulation
from contstim.design.studies import GOLAN2023_PARTICIPANTS, StudySimulator
from contstim.selection import read_scores

TRIALS: dict[str, Any] = {
    "--natural": [None, "natural.csv"],
    "--triplets": [None, "triplets.csv"],
    "--pairs": [None, "items.csv", "crossed.csv"],
    "--factors": [None, "number tense"],
    "--sentences": [None, "pool.txt"],
    "--layout": [None, "golan2023"],
    "--groups": [None, "5"],
    "--participants": [None, "3"],
    "--random-natural": [None, "2"],
    "--catch": [None, "3"],
    "--seed": [None, "1"],
    "--out": [None, "out.csv"],
}
BIGRAM, TRIGRAM = "contstim:bigram?unknown=unk", "contstim:trigram?unknown=unk"
SIMULATE: dict[str, Any] = {
    "TRIALS": ["trials.csv", "sides.csv"],
    "--follow": [None, BIGRAM, (f"{BIGRAM}=3", f"{TRIGRAM}=1")],
    "--noise": [None, "0.1"],
    "--lapse": [None, "0", "1"],
    "--slope-sd": [None, "0.5"],
    "--item-sd": [None, "2"],
    "--shared": [None, "1"],
    "--seed": [None, "1"],
    "--out": [None, "out.csv"],
}
POWER: dict[str, Any] = {
    "TRIALS": [None, "pairs.csv"],
    "--difference": [None, "0.3"],
    "--compare": [None, f"{BIGRAM} {TRIGRAM}"],
    "--scores": [None, "wide.csv", "long.csv"],
    "--pilot-choices": [None, "pilot.csv"],
    "--format": [None, "tidy"],
    "--column": [None, "participant=subject"],
    "--low": [None, "-3.5"],
    "--high": [None, "3.5"],
    "--side": [None, "none"],
    "--buttons": [None, "2"],
    "--participants": ["3 9", "4", None],
    "--trials-each": [None, "4 8"],
    "--target": [None, "0.5", "0.8"],
    "--follow": [None, TRIGRAM],
    "--noise": [None, "0.1"],
    "--item-sd": [None, "1"],
    "--simulations": ["40", "80"],
    "--figure": [None, "power.svg"],
    "--seed": [None, "1"],
    "--out": [None, "out.csv"],
}
SAVINGS: dict[str, Any] = {
    "SCORES": ["wide.csv", "long.csv"],
    "--pairs": [None, "pairs.csv"],
    "--set": [None, "set.csv"],
    "--probability": [None, "0.6"],
    "--answers": ["30", "60"],
    "--simulations": ["20", "40"],
    "--seed": [None, "1"],
    "--out": [None, "out.csv"],
}
TEXTS = ["natural.csv", "triplets.csv", "items.csv", "crossed.csv", "pool.txt"]
SYNONYMS = {
    "--natural": "natural pairs",
    "--triplets": "triplets,",
    "--catch": "catch trials",
    "--pairs": "table of items|versions without a condition",
    "--factors": "the factors",
}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten natural pairs and ten triplets of two models, and eight items in four conditions."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    texts = sentences(460)
    natural = pd.DataFrame({"sentence_1": texts[:10], "sentence_2": texts[10:20]})
    natural.assign(model_1=BIGRAM, model_2=TRIGRAM, source=range(10)).to_csv(
        "natural.csv", index=False
    )
    triplets = pd.DataFrame({"natural": texts[20:30]})
    triplets["synthetic_1"] = [f"The x{k} {text}" for k, text in enumerate(texts[20:30])]
    triplets["synthetic_2"] = [f"A y{k} {text}" for k, text in enumerate(texts[20:30])]
    for name in ("natural", "synthetic_1", "synthetic_2"):
        triplets[f"{name}_lp_1"], triplets[f"{name}_lp_2"] = -20.0, -30.0
    triplets.assign(model_1=BIGRAM, model_2=TRIGRAM).to_csv("triplets.csv", index=False)
    items = [
        {
            "item": f"Stück {k}",
            "number": number,
            "tense": tense,
            "condition": f"{number}{tense}",
            "sentence_1": f"{texts[40 + k]} {number} {tense}.",
            "sentence_2": f"{texts[50 + k]} {tense}",
            "note": f"n{k}",
        }
        for k, number, tense in itertools.product(range(8), ("sg", "pl"), ("now", "then"))
    ]
    items.append({"item": "f", "condition": "filler", "sentence_1": "One.", "sentence_2": "Two."})
    pd.DataFrame(items).to_csv("items.csv", index=False)
    crossed = pd.DataFrame(items).assign(condition=[None] * 32 + ["filler"])
    crossed.to_csv("crossed.csv", index=False)
    Path("pool.txt").write_text("\n".join(texts[60:]) + "\n", "utf-8")
    return folder


def check_trials(row: Row, outcome: Outcome) -> pd.DataFrame:
    table = read_out(row, outcome)
    of_one = table.groupby("participant")
    assert table["side_1"].isin(["left", "right"]).all()
    assert len(table.groupby(["participant", "group"])) == table["participant"].nunique()
    if row["--pairs"]:
        check_latin_square(row, table)
    else:
        check_layout(row, table)
    for _, trials in of_one:
        assert sorted(trials["trial"]) == [*range(1, len(trials) + 1)]
        shown = [*trials["sentence_1"], *trials["sentence_2"]]
        assert len({*shown}) == len(shown)
        left = (trials["side_1"] == "left").groupby(trials["condition"]).agg(["sum", "size"])
        assert ((2 * left["sum"] - left["size"]).abs() <= 1).all()
    table.to_csv("next.csv", index=False)
    following = run("design simulate", {"TRIALS": "next.csv"})
    assert following.status == 0, following.err
    return table


def check_latin_square(row: Row, table: pd.DataFrame) -> None:
    assert table["participant"].nunique() == int(row["--participants"] or 24)
    items = pd.read_csv("items.csv")
    for _, trials in table.groupby("participant"):
        assert sorted(trials["item"]) == sorted({*map(nfc, items["item"])})
        assert {*Counter(trials["condition"]).values()} == {1, 2}
    joined = "." if row["--factors"] else ""
    square = table[table["condition"] != "filler"]
    made = square["number"] + joined + square["tense"]
    assert (square["condition"] == made).all()
    stated = items.assign(sentence_1=items["sentence_1"].map(nfc)).set_index("sentence_1")["note"]
    assert (square["note"] == square["sentence_1"].map(stated)).all()
    versions = square.groupby("item")["condition"].nunique()
    assert (versions == min(4, int(row["--participants"] or 24))).all()
    if int(row["--participants"] or 24) >= 4:
        assert table["stimulus"].nunique() == len(items)


def check_layout(row: Row, table: pd.DataFrame) -> None:
    published = row["--layout"] is not None
    groups = int(row["--groups"] or 10)
    participants = int(row["--participants"] or 10)
    n_catch, n_random = (
        (12, 9) if published else (int(row["--catch"] or 0), int(row["--random-natural"] or 0))
    )
    n_natural, n_triplets = bool(row["--natural"]) * 10, bool(row["--triplets"]) * 10
    assert table["group"].nunique() == groups
    assert (table.groupby("group")["participant"].nunique() == participants).all()
    counts = {
        "natural_controversial": n_natural // groups,
        "random_natural": n_random,
        "catch": n_catch,
    }
    for _, trials in table.groupby("participant"):
        found = Counter(trials["condition"])
        assert {name: found[name] for name in counts} == counts
        assert sum(found.values()) == sum(counts.values()) + 3 * n_triplets // groups
    compared = table[table["model_1"].notna()]
    if len(compared):
        assert compared.groupby("stimulus")["group"].nunique().max() == 1
        assert {*compared["model_1"]} == {BIGRAM}
    if n_triplets:
        check_triplet_trials(compared)
    if n_natural:
        natural = pd.read_csv("natural.csv").map(lambda cell: nfc(str(cell)))
        of_natural = compared[compared["condition"] == "natural_controversial"]
        shown = {*zip(of_natural["sentence_1"], of_natural["sentence_2"], strict=True)}
        assert shown == {*zip(natural["sentence_1"], natural["sentence_2"], strict=True)}
    catch = table[table["condition"] == "catch"]
    for trial in catch.itertuples():
        bare = [
            sorted(re.findall(r"[\w'-]+", text.lower()))
            for text in (trial.sentence_1, trial.sentence_2)
        ]
        assert bare[0] == bare[1]
    if row["--sentences"]:
        pool = {*map(nfc, Path("pool.txt").read_text("utf-8-sig").splitlines())}
        others = table[table["condition"] == "random_natural"]
        assert {*catch["sentence_1"], *others["sentence_1"], *others["sentence_2"]} <= pool


def check_triplet_trials(compared: pd.DataFrame) -> None:
    """Assert that sentence 1 is the one that model 1 accepts, and that a triplet is one item."""
    triplets = pd.read_csv("triplets.csv").map(lambda cell: nfc(str(cell)))
    sides = {
        "natural_vs_synthetic_1": ("synthetic_1", "natural"),
        "natural_vs_synthetic_2": ("natural", "synthetic_2"),
        "synthetic_vs_synthetic": ("synthetic_1", "synthetic_2"),
    }
    item_of: dict[str, set[Any]] = {}
    for condition, (one, two) in sides.items():
        trials = compared[compared["condition"] == condition]
        shown = {*zip(trials["sentence_1"], trials["sentence_2"], strict=True)}
        assert shown == {*zip(triplets[one], triplets[two], strict=True)}
        for trial in trials.itertuples():
            natural = next(
                n
                for n in triplets["natural"]
                if trial.sentence_1.endswith(n) or trial.sentence_2.endswith(n)
            )
            item_of.setdefault(natural, set()).add(trial.item)
    assert all(len(found) == 1 for found in item_of.values())
    assert len(set().union(*item_of.values())) == len(triplets)


def stimuli(table: pd.DataFrame) -> Counter[tuple[str, ...]]:
    """Return how often each selected pair of sentences is shown in each condition."""
    shown = table[~table["condition"].isin(["catch", "random_natural"])]
    columns = shown[["sentence_1", "sentence_2", "condition"]].astype(str)
    return Counter(columns.itertuples(index=False, name=None))


def equal_tables(one: Any, two: Any) -> None:
    if isinstance(one, Counter):
        assert one == two
    else:
        columns = [column for column in two if column in one]
        pd.testing.assert_frame_equal(one[columns], two[columns], check_dtype=False)


def quote(path: str) -> None:
    if path.endswith(".csv"):
        rewrite(path, quoting=csv.QUOTE_ALL)


def add_column(path: str) -> None:
    if path.endswith(".csv"):
        rewrite(path, lambda t: t.assign(further="x"))


def permute(path: str) -> None:
    if path.endswith(".csv"):
        rewrite(path, shuffle)


def permute_rows(row: Row) -> Row | None:
    """Permute the rows of all tables, unless some lists of a Latin square have no participant."""
    return None if row["--pairs"] and row["--participants"] else on_files(TEXTS, permute)(row)


def test_design_trials(inputs: Path, tmp_path: Path) -> None:
    require_values("design trials", TRIALS)
    relations = {
        "rows permuted": Relation(permute_rows, view=stimuli),
        "column added": Relation(on_files(TEXTS, add_column)),
        "NFD": Relation(on_files(TEXTS, decompose)),
        "CRLF and BOM": Relation(on_files(TEXTS, as_windows)),
        "quoted": Relation(on_files(TEXTS, quote)),
    }
    sources = ["--natural", "--triplets", "--pairs", "--layout", "--random-natural", "--catch"]
    judges = (check_trials, equal_tables)
    Combinations(
        "design trials", TRIALS, inputs, *judges, relations, SYNONYMS, one_of=[sources]
    ).check(tmp_path / "work", inert=[("--out", "out.csv")])


def check_simulated(row: Row, outcome: Outcome) -> pd.DataFrame:
    choices, trials = read_out(row, outcome), pd.read_csv(row["TRIALS"])
    assert len(choices) == len(trials)
    assert choices["rating"].isin([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]).all()
    keys = ["participant", "sentence_1", "sentence_2"]
    shown = {*trials[keys].map(lambda c: nfc(str(c))).itertuples(index=False, name=None)}
    answered = choices[keys].astype(str).itertuples(index=False, name=None)
    assert all((p, a, b) in shown or (p, b, a) in shown for p, a, b in answered)
    others = choices[choices["condition"] != "catch"]
    if row["--lapse"] == "1" or not row["--follow"]:
        assert abs((others["rating"] > 0).mean() - 0.5) < 0.2
    if row["--lapse"] == "1":
        assert np.abs(others["rating"]).value_counts(normalize=True).between(0.15, 0.5).all()
    if row["--follow"] == BIGRAM and row["--noise"] and not row["--item-sd"]:
        model = load_model(BIGRAM)
        ratio = model.score(choices["sentence_2"]) - model.score(choices["sentence_1"])
        strong = np.abs(ratio) > np.median(np.abs(ratio))
        agree = np.sign(ratio) == np.sign(choices["rating"])
        share = agree[strong & (choices["condition"] != "catch")].mean()
        assert abs(share - 0.5) < 0.2 if row["--lapse"] == "1" else share > 0.95
    choices.to_csv("next.csv", index=False)
    following = run("evaluate", {"CHOICES": "next.csv", "--measure": "accuracy", "--out": "next"})
    assert following.status == 0 or row["--lapse"] == "1", following.err
    return choices


def test_design_simulate(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_values("design simulate", SIMULATE)
    monkeypatch.setattr("contstim.evaluation.report.save_figure", lambda *_: None)
    given = {"--natural": "natural.csv", "--triplets": "triplets.csv", "--groups": "5"}
    counts = {"--participants": "2", "--catch": "2", "--out": "trials.csv"}
    assert run("design trials", {**given, **counts}).status == 0
    trials = pd.read_csv("trials.csv")
    trials.drop(columns=["item", "kind"], errors="ignore").to_csv("sides.csv", index=False)
    files = ["trials.csv", "sides.csv"]
    relations = {
        "column added": Relation(on_files(files, add_column)),
        "NFD": Relation(on_files(files, decompose)),
        "CRLF and BOM": Relation(on_files(files, as_windows)),
        "quoted": Relation(on_files(files, quote), given={"--lapse": "1"}),
    }
    Combinations(
        "design simulate",
        SIMULATE,
        inputs,
        check_simulated,
        equal_tables,
        relations,
        compared={"--follow": BIGRAM, "--noise": "0.1", "--lapse": "0", "--item-sd": None},
    ).check(tmp_path / "work", inert=[("--out", "out.csv"), ("--lapse", "0")])


def write_power_inputs() -> None:
    """Write 16 pairs of two groups, random scores, and a pilot of participants who follow one."""
    rng = np.random.default_rng(1)
    texts = sentences(32)
    pairs = pd.DataFrame({"sentence_1": texts[:16], "sentence_2": texts[16:]})
    pairs.assign(group=["g0", "g1"] * 8).to_csv("pairs.csv", index=False)
    scores = pd.DataFrame(-20 + rng.normal(size=(32, 2)), texts, [BIGRAM, TRIGRAM])
    scores = scores.rename_axis("sentence").reset_index()
    scores.to_csv("wide.csv", index=False)
    scores.melt("sentence", var_name="model", value_name="log_prob").to_csv("long.csv", index=False)
    choices = pd.concat([pairs.assign(participant=f"p{k}", subject=f"s{k}") for k in range(6)])
    ratio = np.tile(scores[BIGRAM][16:].to_numpy() - scores[BIGRAM][:16].to_numpy(), 6)
    ratio += rng.normal(size=len(ratio))
    choices["rating"] = np.sign(ratio) * (np.minimum(np.floor(np.abs(ratio)), 2) + 0.5)
    choices.to_csv("pilot.csv", index=False)


def simulator_of(row: Row) -> StudySimulator:
    """Return the simulator of a row, from tables that pandas reads."""
    effects = {"noise": row["--noise"], "item_sd": row["--item-sd"]}
    effects = {name: float(value) for name, value in effects.items() if value}
    if row["--difference"]:
        return StudySimulator.from_difference(0.3, replace(GOLAN2023_PARTICIPANTS, **effects))
    scores = pd.read_csv("wide.csv", encoding="utf-8-sig")
    names = [*scores.columns.intersection([BIGRAM, TRIGRAM])]
    if row["--compare"]:
        names = row["--compare"].split()
        texts = sorted({*scores["sentence"].map(nfc)})
        scores = pd.DataFrame({name: load_model(name).score(texts) for name in names})
        scores.insert(0, "sentence", texts)
    if row["--pilot-choices"]:
        choices = pd.read_csv("pilot.csv", encoding="utf-8-sig")
        if row["--low"]:
            choices["rating"] *= 2.5 / 3.5
        return StudySimulator.from_pilot(evaluate(choices, scores).data)
    simulation = Simulation(((row["--follow"] or names[0], 1.0),), **effects)
    pairs = pd.read_csv("pairs.csv", encoding="utf-8-sig")
    return StudySimulator.from_trials(pairs, scores, names, simulation)


def check_power(row: Row, outcome: Outcome) -> pd.DataFrame:
    """Compare the table with that of the Python function, and with what the options say."""
    table, n_simulations = read_out(row, outcome), int(row["--simulations"])
    assert Path("power.svg").exists() == bool(row["--figure"])
    share = table["power"]
    assert share.between(0, 1).all()
    assert (table["first_better"] <= share + 1e-9).all()
    assert (share <= table["power_unadjusted"] + 1e-9).all()
    assert (table["n_simulations"] == n_simulations).all()
    assert table["stderr"].to_numpy() == pytest.approx(np.sqrt(share * (1 - share) / n_simulations))
    simulator, seed = simulator_of(row), int(row["--seed"] or 0)
    numbers = [int(n) for n in (row["--participants"] or "").split()]
    n_trials = [int(n) for n in (row["--trials-each"] or "").split()]
    target = float(row["--target"] or 0.8)
    if numbers:
        expected = power_curve(simulator, numbers, n_trials or None, n_simulations, seed)
        assert [*table["n_participants"].unique()] == numbers
        keys = ["n_trials", "analysis", "measure"]
        for _, of_one in table.groupby(keys):
            assert of_one["n_participants"].is_monotonic_increasing
            error = 3 * np.hypot(of_one["stderr"].iloc[0], of_one["stderr"].iloc[-1])
            assert of_one["power"].iloc[-1] >= of_one["power"].iloc[0] - error
    else:
        curves = []
        for n in n_trials or [simulator.default_trials]:
            needed, curve = required_sample_size(simulator, n, target, n_simulations, seed)
            curves.append(curve)
            for line in needed.itertuples():
                takes = f"{target:.0%} power takes {line.n_participants} participants"
                assert (takes if pd.notna(line.n_participants) else "power is") in outcome.err
        expected = pd.concat(curves)
    pd.testing.assert_frame_equal(table, expected.reset_index(drop=True), check_dtype=False)
    check_followed(row, table[table["measure"] == "accuracy"])
    return table


def check_followed(row: Row, table: pd.DataFrame) -> None:
    """Assert that the difference in accuracy is the one given, or that of the model followed."""
    difference = table["difference"]
    if row["--difference"]:
        assert (table["model_1"] == "first").all()
        assert difference.to_numpy() == pytest.approx(0.3, abs=0.12)
        assert (table["recovery"] > 0.5).all()
    elif row["TRIALS"] and row["--scores"]:
        follows_first = (row["--follow"] or table["model_1"].iloc[0]) == table["model_1"].iloc[0]
        assert ((difference > 0) == follows_first).all()
        assert (table["recovery"] > 0.5).all()
        wrong = table["power"] - table["first_better"] if follows_first else table["first_better"]
        assert (wrong < 0.1).all()
    elif row["--scores"]:  # participants of the pilot follow the bigram model
        assert ((difference > 0) == (table["model_1"] == BIGRAM)).all()


def reverse_models(row: Row) -> Row:
    """List the models in the other order; participants follow the same model."""
    for path in ("wide.csv", "long.csv"):
        table = pd.read_csv(path)
        if path == "wide.csv":
            table = table[["sentence", TRIGRAM, BIGRAM]]
        else:
            table = table.sort_values("model", ascending=False, kind="stable")
        table.to_csv(path, index=False)
    follow = row["--follow"] or (BIGRAM if row["TRIALS"] else None)
    compare = row["--compare"] and " ".join(reversed(row["--compare"].split()))
    return {**row, "--compare": compare, "--follow": follow}


def restore_model_order(table: pd.DataFrame) -> pd.DataFrame:
    if (table["model_1"] == "first").all():
        return table
    first_better = table["power"] - table["first_better"]
    table = table.rename(columns={"model_1": "model_2", "model_2": "model_1"})
    return table.assign(difference=-table["difference"], first_better=first_better)


def scale(path: str) -> None:
    table = pd.read_csv(path)
    numbers = table.select_dtypes("number").columns
    table.assign(**{name: 4 * table[name] - 8 for name in numbers}).to_csv(path, index=False)


def test_design_power(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_values("design power", POWER)
    monkeypatch.setattr("contstim.drawing.save_figure", lambda _, path: path.touch())
    monkeypatch.setattr("contstim.design.power._MAX_PARTICIPANTS", 16)
    write_power_inputs()
    inert = [("--out", "out.csv"), ("--figure", "power.svg"), ("--format", "tidy")]
    inert += [("--column", "participant=subject"), ("--side", "none")]
    scores, files = ["wide.csv", "long.csv"], ["wide.csv", "long.csv", "pairs.csv", "pilot.csv"]
    relations = {
        "scores permuted": Relation(on_files(scores[:1], permute)),
        "scores scaled": Relation(on_files(scores, scale)),
        "models reversed": Relation(reverse_models, restore_model_order),
        "NFD": Relation(on_files(files, decompose)),
        "CRLF and BOM": Relation(on_files(files, as_windows)),
        "quoted": Relation(on_files(files, quote)),
        "column added": Relation(on_files(files[1:], add_column)),
    }
    Combinations(
        "design power",
        POWER,
        inputs,
        check_power,
        equal_tables,
        relations,
        {"TRIALS": "table of trials", "--pilot-choices": r"pilot\.csv"},
        compared={"--scores": "wide.csv", "TRIALS": "pairs.csv"},
        one_of=[["--compare", "--scores", "--difference"]],
        unaccepted=["--buttons"],
    ).check(tmp_path / "work", inert=inert)


def check_savings(row: Row, outcome: Outcome) -> pd.DataFrame:
    """Compare the table with that of the Python function, and with what the options say."""
    table, columns = read_out(row, outcome), ["sentence_1", "sentence_2"]
    files = (row["--pairs"], row["--set"])
    given = [f and pd.read_csv(f, encoding="utf-8-sig")[columns].map(nfc) for f in files]
    expected = predict_saved_answers(
        read_scores(row["SCORES"]),
        *given,
        target=float(row["--probability"] or 0.9),
        n_answers=int(row["--answers"]),
        n_studies=int(row["--simulations"]),
        seed=int(row["--seed"] or 0),
    )
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    assert table["policy"].tolist() == ["random", *["set"] * bool(row["--set"]), "adaptive"]
    assert (table["answers"].dropna() <= int(row["--answers"])).all()
    return table


def exchange_sides(row: Row) -> Row:
    """Exchange the two sentences of each pair of the set."""
    table = pd.read_csv("set.csv")
    names = {"sentence_1": "sentence_2", "sentence_2": "sentence_1"}
    table.rename(columns=names).to_csv("set.csv", index=False)
    return row


def test_design_savings(inputs: Path, tmp_path: Path) -> None:
    require_values("design savings", SAVINGS)
    write_power_inputs()
    pd.read_csv("pairs.csv")[:6].to_csv("set.csv", index=False)
    files = ["wide.csv", "long.csv", "pairs.csv", "set.csv"]
    relations = {
        "scores scaled": Relation(on_files(files[:2], scale)),
        "sides exchanged": Relation(exchange_sides),
        "NFD": Relation(on_files(files, decompose)),
        "CRLF and BOM": Relation(on_files(files, as_windows)),
        "column added": Relation(on_files(files[2:], add_column)),
    }
    Combinations("design savings", SAVINGS, inputs, check_savings, equal_tables, relations).check(
        tmp_path / "work", inert=[("--out", "out.csv")]
    )
