"""Test the design of trials: balance, repeated sentences, errors and `check_design`.

Tests `contstim.design`, `contstim.design.check` and `contstim.design.trials`.
"""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contstim.design import CONDITIONS, LAYOUTS, Layout, allocation, check_design, design_trials
from contstim.errors import InfeasibleError, InputError, UnknownNameError, ValidationError
from contstim.text import Sentence
from contstim.text.languages import get_language

POOL = [f"Pool sentence number {i} is here." for i in range(400)]


def selection(models, per_pair):
    """Return natural pairs and triplets with unique sentences."""
    natural, triplets = [], []
    names = [f"m{k}" for k in range(models)]
    for one, two in combinations(names, 2):
        for i in range(per_pair):
            tag = f"{one} {two} {i}"
            natural.append((one, two, f"N1 {tag}", f"N2 {tag}"))
            triplets.append((one, two, f"N {tag}", f"S1 {tag}", f"S2 {tag}"))
    return (
        pd.DataFrame(natural, columns=["model_1", "model_2", "sentence_1", "sentence_2"]),
        pd.DataFrame(
            triplets, columns=["model_1", "model_2", "natural", "synthetic_1", "synthetic_2"]
        ),
    )


def assert_balanced_design(trials):
    """Assert that the design is balanced, without using the code under test."""
    cells = {}
    for (group, _), own in trials.groupby(["group", "participant"]):
        shown = [*own["sentence_1"], *own["sentence_2"]]
        assert len(set(shown)) == len(shown)
        assert own["trial"].tolist() == list(range(1, len(own) + 1))
        keys = zip(
            own["condition"], own["model_1"].astype(str), own["model_2"].astype(str), strict=True
        )
        counted = pd.Series(list(keys)).value_counts().to_dict()
        cells.setdefault("any", counted)
        assert counted == cells["any"]
        items = cells.setdefault(group, set(own["stimulus"]))
        assert items == set(own["stimulus"])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_designs_are_balanced_without_repeated_sentences(data):
    groups = data.draw(st.integers(3, 6))
    per_pair = groups * data.draw(st.integers(1, 2))
    natural, triplets = selection(data.draw(st.integers(2, 4)), per_pair)
    # Sentences that several model pairs share.
    for _ in range(data.draw(st.integers(0, 4))):
        one, two = (data.draw(st.integers(0, len(triplets) - 1)) for _ in range(2))
        if triplets.loc[one, "model_2"] != triplets.loc[two, "model_2"]:
            triplets.loc[two, "natural"] = natural.loc[one, "sentence_1"]
    layout = Layout(groups, 2, data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2)))
    uses = triplets["natural"].value_counts()
    if uses.max() * 2 + 1 > groups:
        return
    trials = design_trials(natural, triplets, POOL, layout, seed=data.draw(st.integers(0, 99)))
    assert_balanced_design(trials)
    n_pairs = len(natural) // per_pair
    expected = 4 * n_pairs * per_pair // groups + layout.random_natural + layout.catch
    assert trials.attrs["trials"] == expected
    assert len(trials) == expected * groups * 2
    # Every stimulus is used, by one group.
    assert trials["stimulus"].nunique() == expected * groups


def test_golan2023_layout_matches_the_published_design():
    natural, triplets = selection(9, 10)
    # One natural sentence in two model pairs, as in the published stimuli.
    triplets.loc[200, "natural"] = triplets.loc[30, "natural"]
    trials = design_trials(natural, triplets, POOL, "golan2023")
    assert LAYOUTS["golan2023"] == Layout(10, 10, 9, 12)
    assert check_design(trials) == {
        "participants": 100, "groups": 10, "trials": 165, "cells": 144
    }  # fmt: skip
    assert_balanced_design(trials)
    first = trials[trials["participant"] == 1]
    counts = first["condition"].value_counts()
    assert counts[list(CONDITIONS)].tolist() == [36, 36, 36, 36, 9, 12]
    assert trials.columns.tolist() == [
        "participant", "group", "trial", "condition", "sentence_1", "sentence_2",
        "model_1", "model_2", "stimulus", "item", "side_1", "kind", "kind_1", "kind_2",
    ]  # fmt: skip


@pytest.mark.parametrize("conditions", [CONDITIONS[:4], CONDITIONS[3:4], CONDITIONS[1:2]])
def test_trials_that_share_a_sentence_are_one_item(conditions):
    natural, triplets = selection(3, 6)
    origin = dict(zip(triplets["synthetic_1"], triplets.index, strict=True))
    origin |= dict(zip(triplets["synthetic_2"], triplets.index, strict=True))
    # Two triplets of one natural sentence, two that share a synthetic one, and a natural pair that
    # has the sentence of a triplet.
    triplets.loc[7, "natural"] = triplets.loc[0, "natural"]
    triplets.loc[8, "synthetic_1"] = triplets.loc[1, "synthetic_1"]
    natural.loc[13, "sentence_1"] = triplets.loc[2, "natural"]
    layout = Layout(6, 1, 1, 1, conditions=conditions)
    trials = design_trials(natural, triplets, POOL, layout).drop_duplicates("stimulus")
    items: dict[object, set[int]] = {}
    for row in trials.to_dict("records"):
        if (
            row["condition"] in CONDITIONS[:1]
            and row["sentence_1"] == natural.loc[13, "sentence_1"]
        ):
            key = 2
        elif row["condition"] in CONDITIONS[1:4]:
            of = next(origin[s] for s in (row["sentence_1"], row["sentence_2"]) if s in origin)
            key = {7: 0, 8: 1}.get(of, of)
        else:
            key = row["sentence_1"]
        items.setdefault(key, set()).add(row["item"])
    assert all(len(numbers) == 1 for numbers in items.values())
    assert len(set.union(*items.values())) == len(items)
    assert trials["item"].min() == 1
    assert trials["item"].max() == len(items)


def test_design_is_determined_by_the_seed():
    natural, triplets = selection(3, 4)
    make = [design_trials(natural, triplets, POOL, Layout(4, 2, 1, 1), seed=s) for s in (3, 3, 4)]
    pd.testing.assert_frame_equal(make[0], make[1])
    assert not make[0].equals(make[2])
    # More participants leave those before them as they were.
    more = design_trials(natural, triplets, POOL, Layout(4, 3, 1, 1), seed=3)
    same = more[more["participant"] == 1].drop(columns="participant").reset_index(drop=True)
    first = make[0][make[0]["participant"] == 1].drop(columns="participant")
    pd.testing.assert_frame_equal(same, first.reset_index(drop=True), check_dtype=False)


def test_common_words_option_reduces_rare_word_repeats():
    rng = np.random.default_rng(0)
    natural, triplets = selection(4, 6)
    rare = [f"rare{i}" for i in range(60)]
    for frame, names in ((natural, ["sentence_1", "sentence_2"]), (triplets, ["natural"])):
        for name in names:
            frame[name] += [f" {rare[i]}" for i in rng.integers(60, size=len(frame))]
    known = {w for frame in (natural, triplets) for c in frame for s in frame[c] for w in s.split()}
    layout = Layout(6, 1)
    plain = design_trials(natural, triplets, layout=layout)
    trials = design_trials(natural, triplets, layout=layout, common_words=known - set(rare))
    assert_balanced_design(trials)

    def repeats(table):
        total = 0
        for _, own in table.groupby("group"):
            words = [
                w
                for one, two in zip(own["sentence_1"], own["sentence_2"], strict=True)
                for w in {*one.split(), *two.split()} & set(rare)
            ]
            total += len(words) - len(set(words))
        return total

    before, after = trials.attrs["word_repeats"]
    assert (before, after) == (repeats(plain), repeats(trials))
    assert after < before


def error_message(error, *arguments, **named):
    with pytest.raises(error) as caught:
        design_trials(*arguments, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_unequal_shares_are_rejected():
    natural, _ = selection(3, 4)
    assert error_message(InfeasibleError, natural, layout=Layout(3, 1)) == (
        "natural_controversial: model pair m0 and m1 has 4 stimuli, which 3 groups cannot share "
        "equally; select a multiple of 3 or change the number of groups"
    )
    fewer = pd.concat([natural.iloc[:8], natural.iloc[8:10]])
    assert error_message(InfeasibleError, fewer, layout=Layout(2, 1)) == (
        "natural_controversial: model pair m0 and m1 has 4 stimuli but model pair m1 and m2 has 2; "
        "select equally many"
    )


def test_too_few_groups_for_a_sentence_are_rejected():
    natural, triplets = selection(2, 2)
    assert error_message(InfeasibleError, None, triplets, layout=Layout(2, 1)) == (
        "the sentences 'S1 m0 m1 0', 'N m0 m1 0' and 'S2 m0 m1 0' are compared in three trials, "
        "nobody may see one twice, and the number of groups is 2; use at least 3 groups or fewer "
        "conditions"
    )
    natural["sentence_1"] = "same old sentence"
    assert error_message(InfeasibleError, natural, layout=Layout(1, 1)) == (
        "the sentence 'same old sentence' is in 2 trials, nobody may see it twice, and the number "
        "of groups is 1; use more groups (a triplet makes three trials, so at least 3), or leave "
        "out some pairs or triplets that contain it"
    )
    natural["sentence_2"] = "same  old sentence"
    assert error_message(InfeasibleError, natural, layout=Layout(2, 1)) == (
        "a trial would show the sentence 'same old sentence' against itself; leave it out"
    )


def test_unshufflable_pools_and_invalid_seeds_are_rejected():
    assert error_message(
        InfeasibleError, pool=["Stop.", "Go.", "Run."], layout=Layout(1, 1, 0, 2)
    ) == (
        "0 random pairs and 2 catch trials need 2 natural sentences, but the pool has 3 that are "
        "not used already, 0 of which have words to shuffle; give a larger pool"
    )
    told = "seed is -1; give a whole number of at least 0"
    assert error_message(InputError, pool=POOL, layout=Layout(1, 1, 1), seed=-1) == told


def test_small_pools_are_rejected():
    assert error_message(InfeasibleError, pool=POOL[:10] + POOL[:5], layout=Layout(2, 1, 2, 3)) == (
        "4 random pairs and 6 catch trials need 14 natural sentences, but the pool has 10 that are "
        "not used already; give a larger pool"
    )
    # One word cannot be shuffled.
    assert "the pool has 8" in error_message(
        InfeasibleError, pool=[f"Word{i}" for i in range(8)], layout=Layout(1, 1, 0, 2)
    )


def test_pool_sentences_of_the_selection_are_not_reused():
    natural, _ = selection(2, 10)
    pool = [*natural["sentence_1"], *POOL[:20]]
    trials = design_trials(natural, pool=pool, layout=Layout(10, 1, 1, 0))
    rest = trials[trials["condition"] == "random_natural"]
    assert set(rest["sentence_1"]) | set(rest["sentence_2"]) == set(POOL[:20])


def test_disjoint_triplets_are_allocated_without_exchanges(monkeypatch):
    monkeypatch.setattr(allocation._RepeatCounter, "exchange", None)
    natural, triplets = selection(4, 6)
    assert_balanced_design(design_trials(natural, triplets, layout=Layout(3, 1)))


def test_invalid_arguments_are_rejected():
    natural, triplets = selection(2, 3)
    assert error_message(UnknownNameError, natural, layout="golan2032") == (
        "unknown layout 'golan2032'; did you mean 'golan2023'?"
    )
    assert error_message(InputError, layout=Layout(2, 2)) == (
        "there is nothing to lay out; give natural pairs, triplets, or a number of "
        "random_natural or catch trials"
    )
    assert error_message(InputError, natural.assign(sentence_1=range(3)), layout=Layout(3, 1)) == (
        "sentence_1 of the table of natural pairs contains 0, not a sentence; put the sentences "
        "there"
    )
    assert error_message(
        InputError, None, triplets.drop(columns="natural"), layout=Layout(3, 1)
    ) == (
        "the table of triplets has no column 'natural'; it has 'model_1', 'model_2', "
        "'synthetic_1', 'synthetic_2'"
    )
    for half in (natural.assign(model_1=""), natural.drop(columns="model_2")):
        assert error_message(InputError, half, layout=Layout(3, 1)) == (
            "row 1 of the table of natural pairs names one model but not the other; name both, or "
            "neither for a set of models"
        )
    unnamed = triplets.assign(model_1=["m1", None, *["m1"] * (len(triplets) - 2)])
    assert error_message(InputError, None, unnamed, layout=Layout(3, 1)) == (
        "row 2 of the table of triplets names one model but not the other; name both, or neither "
        "for a set of models"
    )
    with pytest.raises(InputError) as caught:
        Layout(groups=0)
    assert str(caught.value) == "groups is 0; give at least 1"
    with pytest.raises(UnknownNameError):
        Layout(conditions=("catch",))


@pytest.fixture
def valid_trials():
    natural, triplets = selection(3, 4)
    return design_trials(natural, triplets, POOL, Layout(4, 2, 1, 1))


def change_row(trials, row, **values):
    trials = trials.copy()
    for name, value in values.items():
        trials.loc[row, name] = value
    return trials


def test_check_design_finds_each_fault(valid_trials):
    assert check_design(valid_trials) == {"participants": 8, "groups": 4, "trials": 14, "cells": 12}
    other = valid_trials.loc[1, "sentence_1"]
    faults = {
        f"participant 1 sees {other!r} twice": change_row(valid_trials, 0, sentence_2=other),
        "participant 1 is in more than one group": change_row(valid_trials, 0, group=2),
        "the trials of participant 1 are not numbered 1 to 14": change_row(
            valid_trials, 0, trial=2
        ),
        "side_1 is 'top', not left or right": change_row(valid_trials, 0, side_1="top"),
        "the table of trials has no row": valid_trials.iloc[:0],
        "participants 1 and 2 of group 1 see different trials": change_row(
            valid_trials, 0, sentence_1="Something else."
        ),
    }
    for message, trials in faults.items():
        with pytest.raises(ValidationError) as caught:
            check_design(trials)
        assert str(caught.value) == message
    row = valid_trials[valid_trials["kind"] != "catch"].iloc[0]
    with pytest.raises(ValidationError) as caught:
        check_design(change_row(valid_trials, row.name, kind="catch"))
    assert str(caught.value) == (
        f"trial {row['trial']} of participant 1: kind is catch but the condition is "
        f"{row['condition']!r}"
    )


def test_check_design_finds_unequal_shares(valid_trials):
    one = (valid_trials["condition"] == "natural_controversial") & (valid_trials["group"] == 1)
    with pytest.raises(ValidationError) as caught:
        check_design(valid_trials.assign(model_2=valid_trials["model_2"].mask(one, "m9")))
    assert str(caught.value) == (
        "natural_controversial of m0 and m1 is seen 0 times by group 1 but 1 times by group 2"
    )


def test_selection_imports_without_torch():
    code = (
        "import sys, contstim.selection; "
        "print(sorted({'torch', 'pulp', 'wordfreq', 'transformers'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_catch_trials_shuffle_the_words_of_the_language():
    french = get_language("fr")
    pool = [
        f"L'homme qu'on attend {verb} l'eau dans la maison le {day}\u202f!"
        for verb in ("voit", "boit", "aime")
        for day in ("matin", "soir")
    ]
    trials = design_trials(pool=pool, layout=Layout(1, 1, catch=3))
    for natural, shuffled in trials[["sentence_1", "sentence_2"]].to_numpy().tolist():
        before, after = (Sentence.parse(text, french) for text in (natural, shuffled))
        assert natural in pool
        assert natural != shuffled
        assert sorted(before.words) == sorted(after.words)
        assert before.after == after.after
        assert shuffled.endswith("\u202f!")
