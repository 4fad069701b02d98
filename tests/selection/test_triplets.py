"""Triplets: objectives by hand, brute force, strata, reports, and rejected inputs.

Tests `contstim.selection.triplet_objectives` and `contstim.selection.strata` as well.
"""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contstim import ScoreKind, Vocabulary, synthesize_triplets
from contstim.cli import main
from contstim.errors import InfeasibleError, InputError, UnknownNameError
from contstim.models.reductions import REDUCTIONS, Reduction
from contstim.pipeline.stages.triplets import TripletOptions
from contstim.selection import controversiality, select_triplets, worst_ranks
from contstim.selection.highs import SOLVER
from contstim.selection.triplet_objectives import TRIPLET_OBJECTIVES, TripletObjective


def triplets(n, seed=0, pair=("m1", "m2"), whole=False):
    rng = np.random.default_rng(seed)
    natural = rng.normal(-60, 10, (n, 1)) + rng.normal(0, 8, (n, 2))
    loss = -rng.gamma(2.0, 10.0, (n, 2))
    if whole:
        natural, loss = np.round(natural / 10), np.round(loss / 10)
    tag = f"{pair[0]}{pair[1]}{seed}"
    return pd.DataFrame(
        {
            "model_1": pair[0],
            "model_2": pair[1],
            "natural": [f"n {tag} {i}" for i in range(n)],
            "synthetic_1": [f"s {tag} {i}" for i in range(n)],
            "synthetic_2": [f"t {tag} {i}" for i in range(n)],
            "natural_lp_1": natural[:, 0],
            "natural_lp_2": natural[:, 1],
            "synthetic_1_lp_1": natural[:, 0],
            "synthetic_1_lp_2": natural[:, 1] + loss[:, 0],
            "synthetic_2_lp_1": natural[:, 0] + loss[:, 1],
            "synthetic_2_lp_2": natural[:, 1],
        }
    )


def quantile_strata(values, strata, of=None):
    """Strata by counting the inner quantiles that a value exceeds."""
    inner = np.quantile(values if of is None else of, np.arange(1, strata) / strata)
    return np.array([sum(x > edge for edge in inner) for x in values])


def brute_force(table, worth, strata, each):
    """(number, best total) over all sets with at most `each` in every stratum of each model."""
    cells = [quantile_strata(table[f"natural_lp_{k}"].to_numpy(), strata) for k in (1, 2)]
    best = (0, -np.inf)
    for size in range(min(len(table), strata * each), 0, -1):
        for rows in combinations(range(len(table)), size):
            chosen = list(rows)
            if all(np.bincount(c[chosen], minlength=strata).max() <= each for c in cells):
                best = max(best, (size, worth[chosen].sum()))
        if best[0]:
            return best
    return best


def test_controversiality_by_hand():
    row = {
        "natural_lp_1": -10.0,
        "natural_lp_2": -20.0,
        "synthetic_1_lp_2": -27.0,
        "synthetic_2_lp_1": -15.0,
    }
    assert controversiality(pd.DataFrame([row])).tolist() == [12.0]


def test_worst_ranks_by_hand():
    table = pd.DataFrame(
        {
            "natural_lp_1": [0.0] * 4,
            "natural_lp_2": [0.0] * 4,
            "synthetic_1_lp_2": [-4.0, -3.0, -2.0, -2.0],  # ranks 1, 2, 3.5, 3.5
            "synthetic_2_lp_1": [-1.0, -3.0, -4.0, -2.0],  # ranks 4, 2, 1, 3
        }
    )  # weaker members: 4, 2, 3.5, 3.5
    assert worst_ranks(table).tolist() == [4.0, 1.0, 2.5, 2.5]
    assert worst_ranks(table, ties="row-order").tolist() == [4.0, 1.0, 2.0, 3.0]
    assert worst_ranks(table[::-1], ties="row-order").tolist() == [2.0, 3.0, 1.0, 4.0]


def triplets_of_few_words(n, seed):
    """Triplets of three words a sentence, of few words, so that some come in many."""
    rng = np.random.default_rng(seed)
    table = triplets(n, seed)
    for kind in ("synthetic_1", "synthetic_2"):
        table[kind] = [" ".join(rng.choice(list("abcdefghij"), 3, replace=False)) for _ in range(n)]
    table["natural"] = [f"n{i} {'a b' if i % 2 else 'a'}" for i in range(n)]
    return table


def count_uses(table):
    texts = [*table["synthetic_1"], *table["synthetic_2"]]
    return {word: sum(word in text.split() for text in texts) for word in "abcdefghij"}


@pytest.mark.parametrize("repeated", [0, 4])
@pytest.mark.parametrize("seed", range(6))
def test_word_limit_selection_equals_brute_force(seed, repeated):
    table = triplets_of_few_words(9, seed)
    # Another triplet of a natural sentence may leave a better choice than its best one.
    own = [column for column in table if column.startswith("natural")]
    table.loc[: repeated - 1, own] = table.loc[repeated : 2 * repeated - 1, own].to_numpy()
    first = ~table["natural"].duplicated(keep="last")
    worth = controversiality(table).to_numpy()
    cells = [
        quantile_strata(of.to_numpy(), 2, of[first].to_numpy())
        for of in (table["natural_lp_1"], table["natural_lp_2"])
    ]
    # Of eight sentences a word may be in two; "a" in all, since every natural sentence has it, and
    # "b" in three, since four of nine, or two of five, have it.
    limits = {**dict.fromkeys("cdefghij", 2), "a": 8, "b": 3}
    best = (0, -np.inf)
    for size in range(1, 5):
        for rows in map(list, combinations(range(9), size)):
            if table["natural"][rows].duplicated().any():
                continue
            if all(np.bincount(c[rows], minlength=2).max() <= 2 for c in cells) and all(
                n <= limits[word] for word, n in count_uses(table.iloc[rows]).items()
            ):
                best = max(best, (size, worth[rows].sum()))
    chosen = select_triplets(table, 4, strata=2, max_word_share=0.25)
    assert (len(chosen), chosen.attrs["objective"]) == (best[0], pytest.approx(best[1]))
    assert all(n <= limits[word] for word, n in count_uses(chosen).items())
    assert chosen.attrs["solver"] == SOLVER


@pytest.mark.parametrize("value", ["oops", ""])
def test_text_in_score_columns_is_reported(value):
    table = triplets(40).astype({"synthetic_2_lp_1": object})
    table.loc[2, "synthetic_2_lp_1"] = value
    for ask in (select_triplets, controversiality, worst_ranks):
        with pytest.raises(InputError) as caught:
            ask(table)
        assert str(caught.value) == (
            f"synthetic_2_lp_1 is {value!r} in row 3 of the triplets table; give a number, or "
            "leave the row out"
        )
    table.loc[2, "synthetic_2_lp_1"] = "-50.5"  # a number, though written as text
    kept = select_triplets(table, 40)
    assert kept.loc[2, "synthetic_2_lp_1"] == "-50.5"
    table.loc[2, "synthetic_2_lp_1"] = None
    assert select_triplets(table, 10).attrs["pairs"][0]["not finite"] == 1


@pytest.mark.parametrize("seed", range(4))
def test_unique_sentences_selection_equals_brute_force(seed):
    names = ("m1", "m2"), ("m1", "m3"), ("m2", "m3")
    table = pd.concat([triplets(4, seed, pair) for pair in names], ignore_index=True)
    rng = np.random.default_rng(seed)
    # Naturals of other pairs, a synthetic sentence that stands twice, and one that is natural.
    table["natural"] = [f"n {k}" for k in rng.integers(0, 6, len(table))]
    table.loc[5, "synthetic_1"] = f"  {table['synthetic_1'][2]}"
    table.loc[9, "synthetic_2"] = table["natural"][0]
    worth = controversiality(table).to_numpy()
    pair = np.repeat(range(3), 4)
    best = (0, -np.inf)
    for size in range(1, 7):
        for rows in map(list, combinations(range(12), size)):
            texts = table.loc[rows, ["natural", "synthetic_1", "synthetic_2"]].to_numpy().ravel()
            apart = len({" ".join(text.split()) for text in texts}) == len(texts)
            if apart and np.bincount(pair[rows]).max() <= 2:
                best = max(best, (size, worth[rows].sum()))
    chosen = select_triplets(table, 2, strata=1, distinct_items=True)
    assert (len(chosen), chosen.attrs["objective"]) == (best[0], pytest.approx(best[1]))
    assert sum(report["selected"] for report in chosen.attrs["pairs"]) == best[0]
    texts = chosen[["natural", "synthetic_1", "synthetic_2"]].to_numpy().ravel()
    assert len({" ".join(text.split()) for text in texts}) == len(texts)
    limited = select_triplets(table, 2, strata=1, distinct_items=True, max_word_share=0.99)
    assert limited.attrs["objective"] <= best[1] + 1e-9


def test_unfilled_strata_are_reported():
    table = triplets(4)
    table["natural_lp_1"] = [-5.0, -4.0, -3.0, -2.0]
    table["natural_lp_2"] = [-9.0, -9.0, -9.0, -9.0]  # all in the lower stratum
    found = select_triplets(table, 2, strata=2)
    assert len(found) == 1
    assert found.attrs["pairs"][0]["selected"] == 1
    assert found.attrs["pairs"][0]["considered"] == 4
    unfilled = found.attrs["pairs"][0]["unfilled"]
    assert [entry["model"] for entry in unfilled] == ["m1", "m2"]
    assert unfilled[1] == {
        "model": "m2", "stratum": 1, "wanted": 1, "selected": 0, "available": 0
    }  # fmt: skip


def test_unusable_and_repeated_triplets_are_reported():
    table = triplets(20)
    table.loc[0, "natural_lp_1"] = -np.inf
    table.loc[1, "synthetic_2_lp_1"] = np.nan
    table.loc[19] = table.loc[2]
    table.loc[19, "synthetic_1_lp_2"] -= 500.0  # the better of the two with this sentence
    found = select_triplets(table, 17, strata=1)
    assert set(found.index) == set(range(3, 20))
    entry = found.attrs["pairs"][0]
    assert (entry["considered"], entry["not finite"], entry["repeated natural"]) == (20, 2, 1)


def test_pair_without_a_usable_triplet():
    table = triplets(3)
    table["natural_lp_1"] = np.nan
    with pytest.raises(InfeasibleError) as caught:
        select_triplets(table, 1, strata=1)
    assert str(caught.value) == (
        "model pair m1 and m2: none of 3 triplets has finite log-probabilities; synthesise some or "
        "leave the pair out"
    )
    with pytest.raises(InfeasibleError, match="the triplets table has no row"):
        select_triplets(table.iloc[:0], 1, strata=1)


def test_invalid_arguments_are_rejected():
    table = triplets(20)
    with pytest.raises(InputError) as caught:
        select_triplets(table, 5, strata=10)
    assert str(caught.value) == (
        "per_pair is 5, which is not a multiple of strata, 10; change one of them, or leave strata "
        "out"
    )
    with pytest.raises(UnknownNameError) as caught:
        select_triplets(table, objective="worst")
    assert str(caught.value) == "unknown objective 'worst'; did you mean 'worst-rank'?"
    with pytest.raises(UnknownNameError, match="unknown tie rule 'first'"):
        select_triplets(table, objective="worst-rank", ties="first")
    with pytest.raises(InputError, match="the triplets table has no column 'natural_lp_2'"):
        select_triplets(table.drop(columns="natural_lp_2"))
    unnamed = table.assign(model_2=["m2", None, *["m2"] * (len(table) - 2)])
    with pytest.raises(InputError, match="row 2 of the triplets table lacks a model's name"):
        select_triplets(unnamed)
    with pytest.raises(InputError, match="row 2 of the triplets table lacks a model's name"):
        select_triplets(unnamed.fillna(""), 2, strata=1)  # as read_triplets has it
    both = pd.concat([table, table.assign(model_1="m2", model_2="m1")])
    with pytest.raises(InputError, match="in both orders; swap models"):
        select_triplets(both)
    with pytest.raises(InputError, match="model 'm1' is paired with itself"):
        select_triplets(table.assign(model_2="m1"))
    with pytest.raises(InputError, match="the reference table has no column 'm2'"):
        select_triplets(table, reference=pd.DataFrame({"m1": [1.0, 2.0]}))
    for missing in (np.nan, -np.inf):
        empty = pd.DataFrame({"m1": [missing], "m2": [1.0]})
        with pytest.raises(InputError, match="the reference table lacks a score for model 'm1'"):
            select_triplets(table, reference=empty)


def test_custom_objective(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(TRIPLET_OBJECTIVES, "smaller-fall", None)  # to be taken out at the end

    def smaller_fall(table):
        falls = (table[f"natural_lp_{k}"] - table[f"synthetic_{3 - k}_lp_{k}"] for k in (1, 2))
        return np.minimum(*falls)

    TRIPLET_OBJECTIVES["smaller-fall"] = TripletObjective(smaller_fall, sign=1.0)
    table = triplets(12)
    chosen = select_triplets(table, 4, "smaller-fall", strata=2)
    value = smaller_fall(table).to_numpy()
    assert chosen.attrs["objective"] == pytest.approx(brute_force(table, value, 2, 2)[1])
    file = tmp_path / "triplets.csv"
    table.to_csv(file, index=False)
    argv = ["select", "triplets", str(file), "--per-pair", "4", "--strata", "2"]
    assert main([*argv, "--objective", "smaller-fall"]) == 0
    assert f"objective {chosen.attrs['objective']:.10g}" in capsys.readouterr().err
    assert (
        TripletOptions(per_pair=4, strata=2, objective="smaller-fall").objective == "smaller-fall"
    )


WORDS = "The A dog cat sat ran away here child song"


def test_named_models_preserve_score_units(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def halve(kind: ScoreKind) -> ScoreKind:
        return replace(kind, name="half", unit="halves", differs_in_nats=False)

    halved = Reduction("LP / 2", lambda lengths: 0.5 + 0 * lengths, halve)
    monkeypatch.setitem(REDUCTIONS._objects, "half", halved)
    Path("words.txt").write_text("\n".join(WORDS.split()))
    pair = ("both=contstim:unigram?reduction=half", "b=contstim:bigram")
    written = ["synthesize", "The cat sat here.", "--pair", *pair, "--vocabulary", "words.txt"]
    asked = ["--max-word-share", "1", "--out", "triplets.csv"]
    assert main([*written, *asked]) == 0
    words = Vocabulary.read("words.txt")
    here = synthesize_triplets(["The cat sat here."], [pair], vocabulary=words, max_word_share=1)
    table = pd.read_csv("triplets.csv")
    assert set(table["model_1"]) == {"both"}
    for triplets_of in (table, here):
        with pytest.raises(InputError, match="and 'both' does not score in nats; use the obj"):
            select_triplets(triplets_of, per_pair=1)
        chosen = select_triplets(triplets_of, per_pair=1, objective="worst-rank")
        columns = chosen[["spec_1", "spec_2"]].to_numpy().ravel().tolist()
        assert columns == ["contstim:unigram?reduction=half", "contstim:bigram"]
    # Where models go by their specs there is nothing to say.
    pair = tuple(text.partition("=")[2] for text in pair)
    plain = synthesize_triplets(["The cat sat here."], [pair], vocabulary=words, max_word_share=1)
    assert "spec_1" not in plain


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([(2, 1), (3, 1), (2, 2)]),
    st.sampled_from(["controversiality", "worst-rank"]),
    st.booleans(),
)
def test_optimum_equals_brute_force(seed, shape, objective, whole):
    strata, each = shape
    table = triplets(7, seed, whole=whole)
    value = controversiality(table) if objective == "controversiality" else -worst_ranks(table)
    number, best = brute_force(table, value.to_numpy(), strata, each)
    found = select_triplets(table, strata * each, objective, strata=strata)
    assert len(found) == number
    sign = 1 if objective == "controversiality" else -1
    assert found.attrs["objective"] == pytest.approx(sign * best)
    assert found.attrs["bound"] == pytest.approx(found.attrs["objective"])
    assert found.attrs["gap"] == 0
    assert value[found.index].sum() == pytest.approx(best)


@pytest.mark.parametrize(
    ("per_pair", "strata"), [(1, 1), (5, 5), (7, 7), (11, 1), (12, 6), (20, 10)]
)
def test_default_strata_divide_the_triplets_equally(per_pair, strata):
    found = select_triplets(triplets(40), per_pair)
    asked = select_triplets(triplets(40), per_pair, strata=strata)
    assert found.attrs["strata"] == strata
    assert found.index.tolist() == asked.index.tolist()
