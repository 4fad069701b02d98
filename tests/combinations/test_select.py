"""Combinations of options of `contstim select`."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from covering import Combinations, Outcome, Relation, Row, on_files, require_values, run
from material import (
    MODELS,
    as_windows,
    decompose,
    nfc,
    nfd,
    read_out,
    read_scores,
    rewrite,
    save_scores,
    shuffle,
    write_features,
    write_scores,
    write_triplets,
)
from scipy.optimize import LinearConstraint, linear_sum_assignment, milp

from contstim.text.languages import ENGLISH

FEATURES = {"--features": "of the features"}
CONSTRAINTS = [
    None,
    "balance:words:0.5",
    ("equal:words", "at-most:topic:3"),
    "linear:characters::810",
]
NATURAL: dict[str, Any] = {
    "SCORES": ["wide.csv", "long.csv", "bits.csv", "scores.npz"],
    "--per-pair": ["2", "3"],
    "--criterion": [None, "rank"],
    "--accept-from": [None, "0.3", "0.7"],
    "--distinct": [None, True],
    "--repeatable": [None, "repeatable.txt"],
    "--constraint": CONSTRAINTS,
    "--features": [None, "features.csv"],
    "--tokens": [None, True],
    "--out": [None, "out.csv"],
}
TRIPLETS: dict[str, Any] = {
    "TRIPLETS": ["triplets.csv", "bom.csv"],
    "--per-pair": ["4", "6"],
    "--objective": [None, "controversiality", "worst-rank"],
    "--strata": [None, "1", "2"],
    "--max-word-share": [None, "0.2", "0.5"],
    "--distinct-items": [None, True],
    "--reference": [None, "wide.csv", "bits.csv"],
    "--tokens": [None, True],
    "--out": [None, "out.csv"],
}
SET: dict[str, Any] = {
    "SCORES": ["wide.csv", "long.csv", "bits.csv"],
    "--n": ["4", "9"],
    "--criterion": [None, "separation", "log-bf"],
    "--rank-margin": [None, "0.2"],
    "--max-uses": [None, "2"],
    "--triplets": [None, "scored_triplets.csv"],
    "--candidates": [None, "natural", "synthetic", "both"],
    "--distinct": [None, True],
    "--repeatable": [None, "repeatable.txt"],
    "--constraint": [None, "balance:words:1", ("equal:size", "at-most:topic:4")],
    "--features": [None, "features.csv"],
    "--time-limit": [None, "5"],
    "--seed": [None, "1"],
    "--out": [None, "out.csv"],
}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_scores()
    write_features()
    write_triplets()
    return folder


def words(sentence: str) -> list[str]:
    return [word.strip(".,;:!?'\"").lower() for word in sentence.split()]


def repeats(sentence: str, repeatable: set[str]) -> bool:
    counts = Counter(words(sentence))
    return any(n > 1 for word, n in counts.items() if word not in repeatable)


def check_distinct(row: Row, chosen: list[str]) -> None:
    """Assert that no chosen sentence has a word twice, if that was asked for."""
    if row["--distinct"]:
        assert not any(repeats(sentence, _repeatable(row)) for sentence in chosen)


def parse_bounds(outcome: Outcome) -> tuple[float, float]:
    """Return the objective and the bound that a command prints."""
    found = re.search(r"objective (\S+), bound (\S+),", outcome.err)
    assert found is not None
    return float(found[1]), float(found[2])


def features() -> pd.DataFrame:
    table = pd.read_csv("features.csv", dtype={"topic": str})
    return table.assign(sentence=table["sentence"].map(nfc)).set_index("sentence")


def check_natural(row: Row, outcome: Outcome) -> pd.DataFrame:
    table, scores = read_out(row, outcome), read_scores()
    ranks = scores.rank() / len(scores)
    per_pair, accept = int(row["--per-pair"]), float(row["--accept-from"] or 0.5)
    models = [*scores.columns]
    wanted = [*itertools.combinations(models, 2)]
    assert [*zip(table["model_1"], table["model_2"], strict=True)] == [
        pair for pair in wanted for _ in range(per_pair)
    ]
    chosen = [*table["sentence_1"], *table["sentence_2"]]
    assert len(set(chosen)) == len(chosen) == 2 * per_pair * len(wanted)
    for pair in table.itertuples():
        assert ranks.loc[pair.sentence_1, pair.model_1] >= accept
        assert ranks.loc[pair.sentence_2, pair.model_2] >= accept
        assert pair.rank_1 == pytest.approx(ranks.loc[pair.sentence_1, pair.model_2], abs=1e-12)
        assert pair.rank_2 == pytest.approx(ranks.loc[pair.sentence_2, pair.model_1], abs=1e-12)
        if row["--tokens"]:
            for side, model in itertools.product((1, 2), (1, 2)):
                n = table.loc[pair.Index, f"sentence_{side}_tokens_{model}"]
                assert n == len(pair[2 + side].split()) + 2  # words, final mark and end
    check_distinct(row, chosen)
    total = table["rank_1"].sum() + table["rank_2"].sum()
    eligible = np.array(
        [not (row["--distinct"] and repeats(s, _repeatable(row))) for s in scores.index]
    )
    least = _least_ranks(ranks, eligible, wanted, per_pair, accept)
    if row["--constraint"] is None:
        assert total == pytest.approx(least, abs=1e-9)
    else:
        assert total >= least - 1e-9
        _check_constraint(row, table)
    assert parse_bounds(outcome)[0] == pytest.approx(total)
    table.to_csv("next.csv", index=False)
    following = run("design trials", {"--natural": "next.csv", "--groups": "1"})
    assert following.status == 0, following.err
    return table


def _repeatable(row: Row) -> set[str]:
    return {"the", "a"} if row["--repeatable"] else set(ENGLISH.repeatable)


def _least_ranks(
    ranks: pd.DataFrame,
    eligible: np.ndarray,
    wanted: list[tuple[str, str]],
    per_pair: int,
    accept: float,
) -> float:
    """Return the smallest total rank of a selection: one assignment of sentences to roles."""
    high = ranks >= accept
    usable = eligible & high.any(axis=1).to_numpy() & ~high.all(axis=1).to_numpy()
    roles = [role for a, b in wanted for role in ((a, b), (b, a)) for _ in range(per_pair)]
    costs = [
        np.where(usable & high[accepting], ranks[rejecting], 1e6) for accepting, rejecting in roles
    ]
    rows, columns = linear_sum_assignment(np.array(costs))
    return float(np.array(costs)[rows, columns].sum())


def _check_constraint(row: Row, table: pd.DataFrame) -> None:
    n_words = {s: len(s.split()) for s in [*table["sentence_1"], *table["sentence_2"]]}
    sides = table["sentence_1"].map(n_words), table["sentence_2"].map(n_words)
    if row["--constraint"] == CONSTRAINTS[1]:
        means = [side.groupby([table["model_1"], table["model_2"]]).mean() for side in sides]
        assert ((means[0] - means[1]).abs() <= 0.5 + 1e-9).all()
    elif row["--constraint"] == CONSTRAINTS[2]:
        assert (sides[0] == sides[1]).all()
        topics = features()["topic"]
        assert max(Counter(topics[list(n_words)]).values()) <= 3
    else:
        assert sum(map(len, n_words)) <= 810


def check_triplets(row: Row, outcome: Outcome) -> pd.DataFrame:
    table = read_out(row, outcome)
    given = pd.read_csv("triplets.csv")
    for column in ("natural", "synthetic_1", "synthetic_2"):
        given[column] = given[column].map(nfc)
    per_pair = int(row["--per-pair"])
    strata = int(row["--strata"] or max(n for n in range(1, 11) if per_pair % n == 0))
    assert f"strata: {strata}" in outcome.err
    kept = given.merge(table[["source"]], on="source", how="inner")
    same = [column for column in given if column in table]
    assert same == [*given.columns], "a column was lost"
    pd.testing.assert_frame_equal(
        table.sort_values("source", ignore_index=True)[same],
        kept.sort_values("source", ignore_index=True),
    )
    if row["--distinct-items"]:
        texts = table[["natural", "synthetic_1", "synthetic_2"]].to_numpy().ravel()
        assert len({*texts}) == len(texts)
    total = 0.0
    for (one, two), of_pair in given.groupby(["model_1", "model_2"], sort=False):
        chosen = of_pair["source"].isin(table["source"]).to_numpy()
        assert not of_pair["natural"][chosen].duplicated().any()
        cells = [
            _strata(of_pair[f"natural_lp_{k}"], m, strata, row) for k, m in ((1, one), (2, two))
        ]
        for cell in cells:
            assert max(Counter(cell[chosen]).values()) <= per_pair // strata
        value = _objective(of_pair, row)
        share = float(row["--max-word-share"] or 1)
        if share == 1 and not row["--distinct-items"]:
            n, best = _best_triplets(value, cells, of_pair["natural"], per_pair // strata)
            assert chosen.sum() == n
            assert value[chosen].sum() == pytest.approx(best, abs=1e-6)
        if strata == 1 and chosen.any():
            assert value[chosen].mean() >= value.mean()
        texts = [*of_pair["synthetic_1"][chosen], *of_pair["synthetic_2"][chosen]]
        uses = Counter(word for text in texts for word in set(words(text)))
        if share < 1:
            assert max(uses["x0"], uses["x1"]) <= max(2, int(share * 2 * per_pair))
        total += value[chosen].sum()
    assert parse_bounds(outcome)[0] == pytest.approx(abs(total))  # ranks are reported as they are
    following = run("design trials", {"--triplets": row["--out"] or "triplets.csv"})
    assert following.status in (0, 2), following.err
    return table


def _strata(values: pd.Series, model: str, strata: int, row: Row) -> np.ndarray:
    corpus = values.drop_duplicates() if row["--reference"] is None else read_scores()[model]
    edges = np.quantile(corpus, np.linspace(0, 1, strata + 1)[1:-1])
    return np.array([(value > edges).sum() for value in values])


def _objective(triplets: pd.DataFrame, row: Row) -> np.ndarray:
    """Return what is maximised of each triplet: its controversiality, or its rank from below."""
    fall_1 = (triplets["natural_lp_2"] - triplets["synthetic_1_lp_2"]).to_numpy()
    fall_2 = (triplets["natural_lp_1"] - triplets["synthetic_2_lp_1"]).to_numpy()
    if row["--objective"] != "worst-rank":
        return fall_1 + fall_2
    worst = [
        max((fall_1 >= a).sum(), (fall_2 >= b).sum()) for a, b in zip(fall_1, fall_2, strict=True)
    ]
    return -np.array(pd.Series(worst).rank())


def _best_triplets(
    value: np.ndarray, cells: list[np.ndarray], natural: pd.Series, each: int
) -> tuple[int, float]:
    """Return the largest number of triplets within the strata, and their best total."""
    limits = [cell == k for cell in cells for k in np.unique(cell)]
    limits += [(natural == text).to_numpy() * each for text in natural[natural.duplicated()]]
    within = LinearConstraint(np.array(limits, dtype=float), -np.inf, each)
    bounds, whole = (0, 1), np.ones(len(value))
    most = milp(-whole, constraints=within, bounds=bounds, integrality=whole)
    n = round(-most.fun)
    exactly = LinearConstraint(whole[None], n, n)
    best = milp(-value, constraints=[within, exactly], bounds=bounds, integrality=whole)
    return n, -best.fun


def exchange_models(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with what belongs to model 1 and to model 2 exchanged."""
    names = {}
    for name in table:
        stem, _, end = name.rpartition("_")
        if stem.startswith("natural"):
            names[name] = f"{stem}_{3 - int(end)}" if end in "12" and end else name
        else:
            names[name] = name.translate(str.maketrans("12", "21"))
    return table.rename(columns=names)


def compare_unordered(columns: list[str]) -> Callable[[pd.DataFrame, pd.DataFrame], None]:
    """Return a comparison of tables without regard to the order of rows and columns."""

    def compare(one: pd.DataFrame, two: pd.DataFrame) -> None:
        tables = [t[sorted(t)].sort_values(columns, ignore_index=True) for t in (one, two)]
        pd.testing.assert_frame_equal(*tables, check_dtype=False, rtol=1e-9)

    return compare


def on_scores(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Row], Row]:
    """Return a change of the files of scores."""

    def apply(row: Row) -> Row:
        save_scores(change(read_scores()))
        return row

    return apply


def decompose_scores(row: Row) -> Row:
    """Write sentences in the normal form NFD, every second one of the scores and features."""
    scores = read_scores()
    texts = [nfd(text) if k % 2 else text for k, text in enumerate(scores.index)]
    save_scores(scores.set_axis(texts))
    decompose("features.csv")
    return row


TEXTS = ("wide.csv", "long.csv", "bits.csv", "features.csv")
SCORES: dict[str, Relation] = {
    "rows permuted": Relation(on_scores(shuffle)),
    "scores scaled": Relation(on_scores(lambda s: s * 3 - 7)),
    "monotone": Relation(on_scores(lambda s: -np.exp(-s / 10))),
    "constant added": Relation(on_scores(lambda s: s.assign(**{MODELS[1]: s[MODELS[1]] - 9}))),
    "NFD": Relation(
        decompose_scores, given={"--constraint": CONSTRAINTS[2], "--features": "features.csv"}
    ),
    "CRLF and BOM": Relation(on_files(TEXTS, as_windows)),
    "quoted": Relation(on_files(TEXTS, lambda p: rewrite(p, quoting=csv.QUOTE_ALL))),
    "columns added": Relation(
        on_files(
            ("long.csv", "bits.csv", "features.csv"),
            lambda p: rewrite(p, lambda t: t.assign(further="x", z=1)),
        )
    ),
}


def swap_models(scores: pd.DataFrame) -> pd.DataFrame:
    return scores[scores.columns[::-1]]


def test_select_natural(inputs: Path, tmp_path: Path) -> None:
    require_values("select natural", NATURAL)
    relations = {**SCORES, "models reversed": Relation(on_scores(swap_models), exchange_models)}
    Combinations(
        "select natural",
        NATURAL,
        inputs,
        check_natural,
        compare_unordered(["model_1", "model_2", "sentence_1"]),
        relations,
        FEATURES,
    ).check(tmp_path / "work", inert=[("--criterion", "rank"), ("--out", "out.csv")])


def test_select_triplets(inputs: Path, tmp_path: Path) -> None:
    require_values("select triplets", TRIPLETS)
    (inputs / "bom.csv").write_bytes((inputs / "triplets.csv").read_bytes())
    as_windows(str(inputs / "bom.csv"))
    both = ("triplets.csv", "bom.csv")

    def on_triplets(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Row], Row]:
        return on_files(both, lambda path: change_triplets(path, change))

    def change_triplets(path: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        change(pd.read_csv(path)).to_csv(path, index=False)

    relations = {
        "rows permuted": Relation(on_triplets(shuffle)),
        "models exchanged": Relation(on_triplets(exchange_models), exchange_models),
        "column added": Relation(
            on_triplets(lambda t: t.assign(further=1)), lambda t: t.drop(columns="further")
        ),
        "NFD": Relation(on_files(both, decompose)),
        "quoted": Relation(on_files(both, lambda p: rewrite(p, quoting=csv.QUOTE_ALL))),
        "reference permuted": Relation(on_scores(shuffle)),
    }
    compared = {"--objective": "worst-rank", "--max-word-share": None, "--distinct-items": None}
    judges = (check_triplets, compare_unordered(["source"]))
    Combinations("select triplets", TRIPLETS, inputs, *judges, relations, compared=compared).check(
        tmp_path / "work",
        inert=[("--objective", "controversiality"), ("--out", "out.csv")],
    )


def check_set(row: Row, outcome: Outcome) -> pd.DataFrame:
    table, scores = read_out(row, outcome).fillna({"prefer_1": "", "prefer_2": ""}), read_scores()
    ranks = scores.rank() / len(scores)
    assert len(table) == int(row["--n"])
    pairs = [frozenset(pair) for pair in zip(table["sentence_1"], table["sentence_2"], strict=True)]
    assert len(set(pairs)) == len(pairs)
    uses = Counter(sentence for pair in pairs for sentence in pair)
    assert max(uses.values()) <= int(row["--max-uses"] or 1)
    differences = ranks.loc[table["sentence_1"]].to_numpy() - ranks.loc[table["sentence_2"]]
    differences = differences[sorted(scores)].to_numpy()
    beyond = np.abs(differences) > float(row["--rank-margin"] or 0) + 1e-12
    signs = np.sign(differences) * beyond
    for pair, sign in zip(table.itertuples(), np.sign(differences), strict=True):
        for side, names in ((1, pair.prefer_1), (-1, pair.prefer_2)):
            assert names == " ".join(
                m for m, s in zip(sorted(scores), sign, strict=True) if s == side
            )
        assert sign[0] == 1  # sentence 1 is the one that the first model prefers
    separated = {
        (i, j): signs[:, i] * signs[:, j] < 0 for i, j in itertools.combinations(range(3), 2)
    }
    assert table["separated"].tolist() == sum(separated.values()).tolist()
    assert table["least_difference"].to_numpy() == pytest.approx(np.abs(differences).min(axis=1))
    objective, bound = parse_bounds(outcome)
    assert objective <= bound + 1e-9
    if row["--criterion"] != "log-bf":
        assert objective == min(of_pair.sum() for of_pair in separated.values())
        assert bound <= 2 * len(table) // 3
    _check_candidates(row, table)
    if row["--distinct"]:
        formed = row["--candidates"] != "synthetic"
        natural = [s for s in uses if not s.startswith(("The x", "The y"))] if formed else []
        if row["--triplets"] is None:
            check_distinct(row, natural)
    _check_set_constraint(row, table, np.sign(differences))
    table.to_csv("next.csv", index=False)
    following = run("design trials", {"--natural": "next.csv", "--groups": "1"})
    assert following.status in (0, 2), following.err
    assert following.status == 0 or row.get("--max-uses"), following.err
    return table


def _check_candidates(row: Row, table: pd.DataFrame) -> None:
    """Assert that the pairs are of the kind that was asked for."""
    if row["--triplets"] is None:
        return
    triplets = pd.read_csv("scored_triplets.csv")
    texts = {name: triplets[name].map(nfc) for name in ("natural", "synthetic_1", "synthetic_2")}
    written = {*texts["synthetic_1"], *texts["synthetic_2"]}
    of_triplets = {
        frozenset(pair)
        for one, two in itertools.combinations(texts.values(), 2)
        for pair in zip(one, two, strict=True)
    }
    for pair in zip(table["sentence_1"], table["sentence_2"], strict=True):
        natural = not written & {*pair}
        kinds = {"natural": natural, "synthetic": frozenset(pair) in of_triplets}
        if row["--candidates"] in kinds:
            assert kinds[row["--candidates"]]
        assert any(kinds.values())


def _check_set_constraint(row: Row, table: pd.DataFrame, signs: np.ndarray) -> None:
    sides = [table["sentence_1"], table["sentence_2"]]
    if row["--constraint"] == "balance:words:1":
        n_words = [side.str.split().str.len().to_numpy() for side in sides]
        for sign in signs.T:
            assert abs((sign * (n_words[0] - n_words[1])).mean()) <= 1 + 1e-9
    elif row["--constraint"] is not None:
        known = features()
        assert (sides[0].map(known["size"]) == sides[1].map(known["size"])).all()
        assert max(Counter(known["topic"].reindex(pd.concat(sides))).values()) <= 4


def test_select_set(inputs: Path, tmp_path: Path) -> None:
    require_values("select set", SET)
    write_triplets(8)
    triplets = pd.read_csv("triplets.csv")
    triplets.to_csv("scored_triplets.csv", index=False)
    texts = [*read_scores().index[:40], *triplets["synthetic_1"], *triplets["synthetic_2"]]
    texts = list(dict.fromkeys([*texts, *triplets["natural"]]))
    write_scores(len(texts))
    save_scores(pd.read_csv("wide.csv").assign(sentence=texts).set_index("sentence"))
    n = range(len(texts))
    table = {"sentence": texts, "topic": [f"t{k % 6}" for k in n], "size": [k % 3 for k in n]}
    pd.DataFrame(table).to_csv("features.csv", index=False)
    on_texts = (*TEXTS, "scored_triplets.csv")
    extremes = {"--criterion": "log-bf", "--max-uses": None, "--triplets": None}
    relations = {
        "rows permuted": Relation(on_scores(shuffle), given={"--n": "9", **extremes}),
        "monotone": Relation(on_scores(lambda s: s * 2 + 1)),
        "NFD": Relation(on_files(on_texts, decompose)),
        "CRLF and BOM": Relation(on_files(on_texts, as_windows)),
        "models reversed": Relation(on_scores(swap_models)),
    }
    inert = [("--criterion", "separation"), ("--time-limit", "5"), ("--seed", "1")]
    Combinations(
        "select set",
        SET,
        inputs,
        check_set,
        compare_unordered(["sentence_1", "sentence_2"]),
        relations,
        FEATURES,
    ).check(tmp_path / "work", inert=[*inert, ("--candidates", "both"), ("--out", "out.csv")])
