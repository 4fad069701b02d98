"""From selections to trials: who sees which two sentences, in which order, on which side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.design.allocation import TrialCells, allocate, separate_words
from contstim.errors import (
    InfeasibleError,
    InputError,
    ValidationError,
    require_known,
    require_whole,
)
from contstim.settings import Count, Natural, Several, one_of, settings
from contstim.tables import CHOICES, require_columns
from contstim.text import Sentence
from contstim.text.items import number_items
from contstim.text.language import Language, split_word
from contstim.text.languages import detect_language, language_from_script
from contstim.text.normalise import normalise_sentence
from contstim.trial_kinds import add_kinds

#: The conditions, in the order of the table's documentation.
CONDITIONS = (
    "natural_controversial",
    "natural_vs_synthetic_1",
    "natural_vs_synthetic_2",
    "synthetic_vs_synthetic",
    "random_natural",
    "catch",
)

_MOST_ROWS = 10**7  # trials of all participants

_OF_TRIPLET = ("natural", "synthetic_1", "synthetic_2")
# What the two sentences of a trial are, as published choices name kinds: natural, synthetic, at
# random, or of a catch trial.
_KINDS = dict(zip(CONDITIONS, ("NN", "SN", "NS", "SS", "RR", "CC"), strict=True))
# Which sentences the two of a trial are.
_SIDES = {
    CONDITIONS[0]: ("sentence_1", "sentence_2"),
    CONDITIONS[1]: ("synthetic_1", "natural"),
    CONDITIONS[2]: ("natural", "synthetic_2"),
    CONDITIONS[3]: ("synthetic_1", "synthetic_2"),
}


@settings
class Layout:
    """The size of an experiment.

    Attributes
    ----------
    groups
        Number of participant groups; each group has stimuli of its own.
    participants
        Participants in each group; all of a group see the same trials.
    random_natural
        Trials of two random natural sentences that each participant sees.
    catch
        Trials of a natural sentence against its own words shuffled that each participant sees.
    conditions
        Which conditions are made from the selections.

    Examples
    --------
    >>> from contstim import datasets, design_trials, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> layout = Layout(groups=2, participants=3)
    >>> trials = design_trials(select_natural_pairs(scores, per_pair=6), layout=layout)
    >>> trials["participant"].nunique(), trials.attrs["trials"]
    (6, 3)
    """

    groups: Count = 10
    participants: Count = 10
    random_natural: Natural = 0
    catch: Natural = 0
    conditions: Several[Annotated[str, one_of(CONDITIONS[:4], "condition")]] = CONDITIONS[:4]


#: Layouts of published experiments, by name.
LAYOUTS = {"golan2023": Layout(groups=10, participants=10, random_natural=9, catch=12)}


def design_trials(
    natural: pd.DataFrame | None = None,
    triplets: pd.DataFrame | None = None,
    pool: Sequence[str] = (),
    layout: Layout | str = "golan2023",
    *,
    common_words: Collection[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Lay out an experiment: the trials of every participant.

    Parameters
    ----------
    natural
        Natural controversial pairs, as :func:`select_natural_pairs` or :func:`select_set` returns
        them, with sentences (text) as labels. Those for a set have no models of their own.
    triplets
        Chosen triplets, as :func:`select_triplets` returns them.
    pool
        Natural sentences from which random pairs and catch trials are drawn; those that the
        selections use are passed over.
    layout
        The size of the experiment, or the name of one in :data:`LAYOUTS`.
    common_words
        If given, all other words are kept from recurring in a group, as far as exchanging trials
        between groups can.
    seed
        Settles every draw, order and side.

    Returns
    -------
    pandas.DataFrame
        A row per participant and trial, in the order of presentation: ``participant, group, trial,
        condition, sentence_1, sentence_2, model_1, model_2`` as in
        :data:`contstim.tables.CHOICES`, then ``stimulus`` (the same for all who see the same two
        sentences), ``item`` (the same for all trials made of one natural sentence, and for those
        that share a sentence: what :func:`contstim.evaluate` takes as sampled), ``side_1``
        (``left`` or ``right``: where sentence 1 is shown), ``catch``, and ``kind_1`` and ``kind_2``
        (what each sentence is: ``N`` natural, ``S`` synthetic, ``R`` random, ``C`` of a catch
        trial). Participants, groups, trials, stimuli and items count from 1. In a catch trial
        sentence 1 is the natural one. Random and catch trials have no models (missing). In
        ``.attrs``: ``seed``, ``layout``, ``trials`` (per participant), ``word_repeats`` (before and
        after).

    Raises
    ------
    InfeasibleError
        If groups cannot share the trials equally, or a participant would see a sentence twice,
        or the pool is too small; the message says which.
    InputError, UnknownNameError
        If tables or arguments cannot be used.

    See Also
    --------
    latin_square : items of the researcher's own, in several conditions.

    Notes
    -----
    Source: Golan et al. (2023), Section 4.9, whose layout is ``golan2023``. Each group sees every
    condition of every model pair equally often. Nobody sees a sentence twice; the result is checked
    by :func:`check_design`. Conditions follow "1 is what model 1 prefers": in
    ``natural_vs_synthetic_1`` sentence 1 is the synthetic sentence that model 1 accepts and
    sentence 2 the natural one, in ``natural_vs_synthetic_2`` sentence 1 is the natural sentence
    and sentence 2 the synthetic one that model 2 accepts. Departure: within each condition a
    participant has sentence 1 on the left in half of the trials (one more or less where their
    number is odd), instead of a coin toss for each.

    Examples
    --------
    >>> from contstim import Layout, datasets, pool, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_natural_pairs(scores, per_pair=6)
    >>> trials = design_trials(pairs, pool=pool(), layout=Layout(groups=2, participants=3, catch=1))
    >>> trials[["participant", "trial", "condition", "side_1"]].head(3)
       participant  trial              condition side_1
    0            1      1  natural_controversial   left
    1            1      2  natural_controversial   left
    2            1      3                  catch  right
    """
    if isinstance(layout, str):
        require_known("layout", layout, LAYOUTS)
        layout = LAYOUTS[layout]
    require_whole("seed", seed, 0)
    rng = np.random.default_rng(seed)
    parts, starts = _selected(natural, triplets, layout, rng)
    used = {s for part in parts for name in ("sentence_1", "sentence_2") for s in part[name]}
    fillers = _fillers(pool, used, layout, rng)
    parts += fillers
    starts += [np.arange(len(part)) % layout.groups for part in fillers]
    if not parts:
        raise InputError("there is nothing to lay out; give natural pairs, triplets or a pool")
    items = pd.concat(parts, ignore_index=True)
    rows = len(items) * layout.participants
    if rows > _MOST_ROWS:
        raise InputError(
            f"{layout.participants} participants in each of {layout.groups} groups would see "
            f"{rows} trials together, more than {_MOST_ROWS}; ask for fewer"
        )
    items.insert(0, "stimulus", np.arange(1, len(items) + 1))
    items["item"] = number_items(items[["sentence_1", "sentence_2", "origin"]].to_numpy())
    cells = _cells(items, layout.groups)
    allocated = allocate(cells, np.concatenate(starts), rng)
    repeats = None
    if common_words is not None:
        words = _rare_words(items, common_words)
        allocated, *repeats = separate_words(cells, allocated, words, rng)
    trials = _present(items, allocated, layout, seed)
    check_design(trials)
    trials.attrs = {
        "seed": seed,
        "layout": str(layout),
        "trials": len(items) // layout.groups,
        "word_repeats": repeats,
    }
    return trials


def _selected(
    natural: pd.DataFrame | None,
    triplets: pd.DataFrame | None,
    layout: Layout,
    rng: np.random.Generator,
) -> tuple[list[pd.DataFrame], list[IntArray]]:
    """Return the stimuli of each condition of the selections, and the groups they begin in."""
    parts, starts = [], []
    tables = (
        ("the table of natural pairs", natural, CONDITIONS[:1], ("sentence_1", "sentence_2")),
        ("the table of triplets", triplets, CONDITIONS[1:4], ("model_1", "model_2", *_OF_TRIPLET)),
    )
    for what, frame, conditions, columns in tables:
        wanted = [condition for condition in conditions if condition in layout.conditions]
        if frame is None or not wanted:
            continue
        require_columns(frame, columns, what)
        if "condition" in frame:
            raise InputError(
                f"{what} has a column 'condition', which the layout sets; lay out items and "
                "conditions of your own with latin_square (--items), or rename it"
            )
        named = _named(frame, what)
        table = _sentences(named, [c for c in columns if c not in ("model_1", "model_2")], what)
        table["origin"] = table["natural" if "natural" in columns else "sentence_1"]
        made = [_items(table, condition, _SIDES[condition]) for condition in wanted]
        number = _order(made[0], layout.groups, wanted[0], rng)
        parts += made
        starts += [(number + k) % layout.groups for k in range(len(made))]
    return parts, starts


def _named(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return a table with two models' names in each row, or none: pairs for a set of models."""
    names = frame.reindex(columns=["model_1", "model_2"]).astype(object)
    unnamed = (names.isna() | (names == "")).to_numpy()
    if (half := unnamed[:, 0] != unnamed[:, 1]).any():
        raise InputError(
            f"row {int(half.argmax()) + 1} of {what} names one model but not the other; name both, "
            "or neither for a set of models"
        )
    return frame.assign(**names.mask(unnamed, None)) if unnamed.any() else frame


def _sentences(frame: pd.DataFrame, columns: Sequence[str], what: str) -> pd.DataFrame:
    """Return a table with the sentences of `columns`, spaces between words made single."""
    for column in columns:
        for value in frame[column]:
            if not isinstance(value, str) or not value.split():
                raise InputError(
                    f"{column} of {what} holds {value!r}, not a sentence; put the sentences there"
                )
    clean = frame[[*columns]].map(normalise_sentence)
    return frame.assign(**clean)


def _items(table: pd.DataFrame, condition: str, columns: tuple[str, str]) -> pd.DataFrame:
    """Return the stimuli of a condition: its sentences are in these columns of the table."""
    items = table[[*columns, "model_1", "model_2", "origin"]].reset_index(drop=True)
    items.columns = pd.Index(["sentence_1", "sentence_2", "model_1", "model_2", "origin"])
    items.insert(0, "condition", condition)
    return items


def _order(items: pd.DataFrame, groups: int, condition: str, rng: np.random.Generator) -> IntArray:
    """Give the stimuli of each model pair random numbers; refuse what cannot be shared equally."""
    number = np.empty(len(items), dtype=np.int64)
    sizes: dict[int, str] = {}
    pairs = "model pair " + items["model_1"].astype(str) + " and " + items["model_2"].astype(str)
    of_set = "the set of models"
    pairs = pairs.where(items["model_1"].notna(), of_set)
    for pair, rows in items.groupby(pairs, sort=False).indices.items():
        name = str(pair)
        if len(rows) % groups:
            raise InfeasibleError(
                f"{condition}: {name} has {len(rows)} stimuli, which {groups} groups cannot share "
                f"equally; select a multiple of {groups} or change the number of groups"
            )
        if name != of_set:
            sizes.setdefault(len(rows), name)
        number[rows] = rng.permutation(len(rows))
    if len(sizes) > 1:
        (few, first), (many, second) = list(sizes.items())[:2]
        raise InfeasibleError(
            f"{condition}: {first} has {few} stimuli but {second} has {many}; select equally many"
        )
    return number


def _fillers(
    pool: Sequence[str], used: set[str], layout: Layout, rng: np.random.Generator
) -> list[pd.DataFrame]:
    """Draw random natural pairs and catch trials from sentences not used otherwise."""
    n_random, n_catch = layout.groups * layout.random_natural, layout.groups * layout.catch
    if not n_random + n_catch:
        return []
    clean = dict.fromkeys(normalise_sentence(sentence) for sentence in pool)
    free = [sentence for sentence in clean if sentence and sentence not in used]
    order = [free[i] for i in rng.permutation(len(free))]
    language = detect_language(clean)
    taken = used | set(order)
    catch: list[tuple[str, str]] = []
    rest: list[str] = []
    for sentence in order:
        short = len(catch) < n_catch
        shuffled = _shuffled(sentence, taken, rng, language) if short else None
        if shuffled is None:
            rest.append(sentence)
        else:
            taken.add(shuffled)
            catch.append((sentence, shuffled))
    if len(catch) < n_catch or len(rest) < 2 * n_random:
        raise InfeasibleError(
            f"{n_random} random pairs and {n_catch} catch trials need {2 * n_random + n_catch} "
            f"natural sentences, but the pool has {len(free)} that are not used already"
            f"{f', {len(catch)} of which have words to shuffle' if len(catch) < n_catch else ''}; "
            "give a larger pool"
        )
    pairs = list(zip(rest[:n_random], rest[n_random : 2 * n_random], strict=True))
    frames = []
    for condition, rows in (("random_natural", pairs), ("catch", catch)):
        if rows:
            frame = pd.DataFrame(rows, columns=["sentence_1", "sentence_2"], dtype=object)
            unnamed = frame.assign(model_1=None, model_2=None, origin=frame["sentence_1"])
            frames.append(_items(unnamed, condition, ("sentence_1", "sentence_2")))
    return frames


def _shuffled(
    sentence: str, taken: set[str], rng: np.random.Generator, language: Language
) -> str | None:
    """Return the words of `sentence` in another order, or None if none was found."""
    parsed = Sentence.parse(sentence, language)
    for _ in range(10):
        words = tuple(parsed.words[i] for i in rng.permutation(len(parsed)))
        shuffled = parsed.with_words(words)
        text = str(shuffled)
        if text not in taken and (language.is_space_delimited or shuffled.round_trips):
            return text
    return None


def _cells(items: pd.DataFrame, groups: int) -> TrialCells:
    key = list(zip(items["condition"], items["model_1"], items["model_2"], strict=True))
    codes = {cell: number for number, cell in enumerate(dict.fromkeys(key))}
    members = list(zip(items["sentence_1"], items["sentence_2"], strict=True))
    return TrialCells(np.array([codes[cell] for cell in key]), members, groups)


def _rare_words(items: pd.DataFrame, common: Collection[str]) -> list[frozenset[str]]:
    leave_out = {word.lower() for word in common}
    both = items["sentence_1"] + " " + items["sentence_2"]
    words = (
        {split_word(word)[1].lower() for word in language_from_script(text).split(text)}
        for text in both
    )
    return [frozenset(cores - leave_out) for cores in words]


def _present(items: pd.DataFrame, allocated: IntArray, layout: Layout, seed: int) -> pd.DataFrame:
    """Give every participant an order and sides of their own."""
    tables = []
    for group in range(layout.groups):
        of_group = items[allocated == group]
        for member in range(layout.participants):
            # A stream for each participant: adding participants changes nobody else's trials.
            rng = np.random.default_rng([seed, group, member])
            side = random_sides(of_group, rng)
            table = of_group.assign(side_1=side).iloc[rng.permutation(len(of_group))]
            table.insert(0, "trial", np.arange(1, len(of_group) + 1))
            table.insert(0, "group", group + 1)
            table.insert(0, "participant", group * layout.participants + member + 1)
            tables.append(table)
    trials: pd.DataFrame = pd.concat(tables, ignore_index=True)
    trials = add_kinds(trials)
    kinds = trials["condition"].map(_KINDS)
    trials["kind_1"], trials["kind_2"] = kinds.str[0], kinds.str[1]
    return trials[[*CHOICES[:8], "stimulus", "item", "side_1", "kind", "kind_1", "kind_2"]]


def random_sides(trials: pd.DataFrame, rng: np.random.Generator) -> pd.Series:
    """Return where sentence 1 of each trial of a participant stands: left in half of a condition.

    Where their number is odd, chance says whether it is one more or one less.
    """
    side = pd.Series("right", index=trials.index)
    for rows in trials.groupby("condition", sort=False).indices.values():
        left = len(rows) // 2 + int(rng.integers(2)) * (len(rows) % 2)
        side.iloc[rng.permutation(rows)[:left]] = "left"
    return side


_COLUMNS = (*CHOICES[:8], "side_1", "kind")


def check_design(trials: pd.DataFrame) -> dict[str, int]:
    """Check that a table of trials keeps what :func:`design_trials` promises.

    Parameters
    ----------
    trials
        A row per participant and trial, with the columns that :func:`design_trials` returns.

    Returns
    -------
    dict
        Numbers of ``participants``, ``groups``, ``trials`` (the most of any participant) and
        ``cells`` (model pairs by conditions).

    Raises
    ------
    ValidationError
        Naming the first promise broken and where: a participant who sees a sentence twice, is in
        two groups or has other trials than their group, trial numbers that do not count from 1, a
        group that sees a condition of a model pair more often than another does, a side that is
        neither left nor right, a kind that disagrees with the condition.
    InputError
        If a column is missing.

    Examples
    --------
    >>> from contstim import Layout, datasets, design_trials, pool, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_natural_pairs(scores, per_pair=6)
    >>> trials = design_trials(pairs, pool=pool(), layout=Layout(groups=2, participants=3, catch=1))
    >>> check_design(trials)
    {'participants': 6, 'groups': 2, 'trials': 4, 'cells': 1}
    """
    require_columns(trials, _COLUMNS, "the table of trials")
    if trials.empty:
        raise ValidationError("the table of trials has no row")
    sides = ~trials["side_1"].isin(["left", "right"])
    if sides.any():
        raise ValidationError(f"side_1 is {trials['side_1'][sides].iloc[0]!r}, not left or right")
    trials = add_kinds(trials)
    wrong = trials["kind"] != add_kinds(trials[["condition"]])["kind"]
    if wrong.any():
        row = trials[wrong].iloc[0]
        raise ValidationError(
            f"trial {row['trial']} of participant {row['participant']}: kind is {row['kind']} "
            f"but the condition is {row['condition']!r}"
        )
    compositions: dict[object, tuple[object, list[tuple[object, ...]]]] = {}
    for participant, seen in trials.groupby("participant", sort=False):
        sentences = pd.concat([seen["sentence_1"], seen["sentence_2"]])
        if sentences.duplicated().any():
            twice = sentences[sentences.duplicated()].iloc[0]
            raise ValidationError(f"participant {participant} sees {twice!r} twice")
        if len(set(seen["group"])) > 1:
            raise ValidationError(f"participant {participant} is in more than one group")
        if sorted(seen["trial"]) != list(range(1, len(seen) + 1)):
            raise ValidationError(
                f"the trials of participant {participant} are not numbered 1 to {len(seen)}"
            )
        group = seen["group"].iloc[0]
        columns = (seen["condition"], seen["sentence_1"], seen["sentence_2"])
        shown: list[tuple[object, ...]] = sorted(zip(*columns, strict=True))
        other, theirs = compositions.setdefault(group, (participant, shown))
        if theirs != shown:
            raise ValidationError(
                f"participants {other} and {participant} of group {group} see different trials"
            )
    cells = _check_cells(trials)
    return {
        "participants": int(trials["participant"].nunique()),
        "groups": int(trials["group"].nunique()),
        "trials": int(trials.groupby("participant").size().max()),
        "cells": cells,
    }


def _check_cells(trials: pd.DataFrame) -> int:
    """Check that groups see every cell equally often; return the number of cells with models."""
    first = trials.groupby("group")["participant"].transform("first") == trials["participant"]
    table = trials[first]
    keys = [table[name].astype(object).where(table[name].notna(), "-") for name in _COLUMNS[6:8]]
    counts = pd.crosstab([table["condition"], *keys], table["group"])
    uneven = counts.min(axis=1) != counts.max(axis=1)
    if uneven.any():
        condition, model_1, model_2 = counts.index[uneven.to_numpy()][0]
        seen = counts[uneven].iloc[0]
        raise ValidationError(
            f"{condition} of {model_1} and {model_2} is seen {seen.min()} times by group "
            f"{seen.idxmin()} but {seen.max()} times by group {seen.idxmax()}"
        )
    return int((counts.index.get_level_values(1) != "-").sum())
