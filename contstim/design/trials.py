"""Trials of an experiment: which sentence pairs each participant sees, in which order and sides."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.columns import CHOICES, PAIR
from contstim.design.allocation import TrialCells, allocate, separate_words
from contstim.design.check import check_design
from contstim.errors import (
    InfeasibleError,
    InputError,
    format_count,
    require_integer,
    require_known,
)
from contstim.settings import NonNegativeInt, PositiveInt, TupleFromList, settings, validate_choice
from contstim.tables import require_columns
from contstim.text import Sentence
from contstim.text.items import group_into_items
from contstim.text.language import split_word
from contstim.text.languages import detect_language, language_from_script
from contstim.text.normalise import normalise_sentence
from contstim.trial_kinds import add_trial_kinds

#: Conditions of trials, named after the kinds of the two sentences.
CONDITIONS = (
    "natural_controversial", "natural_vs_synthetic_1", "natural_vs_synthetic_2",
    "synthetic_vs_synthetic", "random_natural", "catch",
)  # fmt: skip

_MAX_ROWS = 10**7  # trials of all participants

_TRIPLET = ("natural", "synthetic_1", "synthetic_2")
# Kinds of sentences 1 and 2: N natural, S synthetic, R random natural, C sentence of a catch trial.
_SENTENCE_KINDS = dict(zip(CONDITIONS, ("NN", "SN", "NS", "SS", "RR", "CC"), strict=True))
# Columns of the table of natural pairs, and of triplets, that become sentences 1 and 2.
_PAIR_COLUMNS = {"natural_controversial": PAIR}
_TRIPLET_COLUMNS = {
    "natural_vs_synthetic_1": ("synthetic_1", "natural"),
    "natural_vs_synthetic_2": ("natural", "synthetic_2"),
    "synthetic_vs_synthetic": ("synthetic_1", "synthetic_2"),
}
_SELECTED_CONDITIONS = (*_PAIR_COLUMNS, *_TRIPLET_COLUMNS)
_SET_OF_MODELS = "the set of models"


@settings
class Layout:
    """Number of participants and trials of an experiment.

    Attributes
    ----------
    groups
        Number of groups of participants. Different groups see different sentence pairs.
    participants
        Number of participants per group. All participants of a group see the same trials.
    random_natural
        Number of trials per participant with two natural sentences that are drawn at random.
    catch
        Number of catch trials per participant, in which a natural sentence is compared with its
        words in random order.
    conditions
        Conditions of the trials with selected sentences: trials with a pair of natural sentences,
        and trials with two sentences of a triplet (one natural and two synthetic sentences).

    Examples
    --------
    >>> from contstim import datasets, design_trials, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> layout = Layout(groups=2, participants=3)
    >>> trials = design_trials(select_natural_pairs(scores, per_pair=6), layout=layout)
    >>> trials["participant"].nunique(), trials.attrs["trials"]
    (6, 3)
    """

    groups: PositiveInt = 10
    participants: PositiveInt = 10
    random_natural: NonNegativeInt = 0
    catch: NonNegativeInt = 0
    conditions: TupleFromList[
        Annotated[str, validate_choice(_SELECTED_CONDITIONS, "condition")]
    ] = _SELECTED_CONDITIONS


#: Numbers of participants and trials of published experiments: mapping from name to layout.
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
    """Assign sentence pairs to the participants of an experiment, in random order and sides.

    Participants are divided into groups that see different sentence pairs. For each condition and
    pair of models, all groups see the same number of trials. No participant sees a sentence twice.
    Within each condition, sentence 1 is on the left in half of a participant's trials.

    Parameters
    ----------
    natural : DataFrame, optional
        Natural pairs from :func:`select_natural_pairs` or :func:`select_set`. Pairs from
        :func:`select_set`, which compare all models of a set, have no columns ``model_1`` and
        ``model_2``.
    triplets : DataFrame, optional
        Triplets from :func:`select_triplets`.
    pool
        Natural sentences for random pairs and catch trials. Sentences that occur in `natural` or
        `triplets` are not used.
    layout : Layout or str, default "golan2023"
        Number of participants and trials, or the name of a published layout in :data:`LAYOUTS`.
    common_words : optional
        Words that may occur repeatedly in the trials of a group. If given, repeats of all other
        words are reduced by exchanging trials between groups.
    seed : int, default 0
        Random seed of draws, orders and sides.

    Returns
    -------
    DataFrame
        One row per participant and trial, in the order of presentation, with the columns

        - ``participant, group, trial, condition, sentence_1, sentence_2``,
        - ``model_1, model_2``: compared models; missing for random and catch trials,
        - ``stimulus``: number of the sentence pair,
        - ``item``: number of the item. Trials belong to the same item if they derive from the same
          natural sentence or share a sentence,
        - ``side_1``: side of sentence 1, ``left`` or ``right``,
        - ``kind``: ``experimental``, ``catch`` or ``filler``,
        - ``kind_1, kind_2``: kinds of the two sentences, ``N`` natural, ``S`` synthetic, ``R``
          random natural, ``C`` of a catch trial.

        Sentence 1 of a catch trial is the natural sentence. In ``.attrs``: ``seed``, ``layout``,
        ``trials`` (number per participant) and ``word_repeats`` (number before and after the
        exchange of trials).

    Raises
    ------
    InfeasibleError
        If the trials cannot be divided equally among the groups, if a participant would see a
        sentence twice, or if the pool is too small.
    InputError, UnknownNameError
        If a table or argument is invalid.

    See Also
    --------
    latin_square : Design for custom items with several versions.

    Notes
    -----
    The design follows Golan et al. (2023), section 4.9. Model 1 prefers sentence 1, which is the
    synthetic sentence in ``natural_vs_synthetic_1`` and the natural sentence in
    ``natural_vs_synthetic_2``. Unlike in the paper, sides are not drawn independently for each
    trial, but balanced within each condition.

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
    require_integer("seed", seed, 0)
    rng = np.random.default_rng(seed)
    parts: list[pd.DataFrame] = []
    initial_groups: list[IntArray] = []
    # Build the stimuli of each condition, one from each row of a table. The stimuli of a row are
    # first assigned to different groups.
    selections = (
        ("the table of natural pairs", natural, PAIR, _PAIR_COLUMNS),
        ("the table of triplets", triplets, _TRIPLET, _TRIPLET_COLUMNS),
    )
    for table_name, selection, columns, columns_by_condition in selections:
        conditions = [name for name in columns_by_condition if name in layout.conditions]
        if selection is None or not conditions:
            continue
        checked = _check_selection(selection, columns, table_name)
        tables = [_build_stimuli(checked, name, columns_by_condition[name]) for name in conditions]
        numbers = _assign_random_numbers(tables[0], layout.groups, conditions[0], rng)
        parts += tables
        initial_groups += [(numbers + k) % layout.groups for k in range(len(conditions))]
    used = {sentence for part in parts for name in PAIR for sentence in part[name]}
    fillers = _draw_fillers(pool, used, layout, rng)
    parts += fillers
    initial_groups += [np.arange(len(part)) % layout.groups for part in fillers]
    if not parts:
        raise InputError(
            "there is nothing to lay out; give natural pairs, triplets, or a number of "
            "random_natural or catch trials"
        )

    stimuli = pd.concat(parts, ignore_index=True)
    n_rows = len(stimuli) * layout.participants
    if n_rows > _MAX_ROWS:
        raise InputError(
            f"{layout.participants} participants in each of {layout.groups} groups would see "
            f"{n_rows} trials together, more than {_MAX_ROWS}; ask for fewer"
        )
    stimuli["stimulus"] = range(1, len(stimuli) + 1)
    stimuli["item"] = group_into_items(stimuli[[*PAIR, "origin"]].to_numpy())

    # Allocate the stimuli to groups. A cell of the design is a condition and a pair of models.
    by_cell = stimuli.groupby(["condition", "model_1", "model_2"], sort=False, dropna=False)
    sentences = list(zip(stimuli["sentence_1"], stimuli["sentence_2"], strict=True))
    cells = TrialCells(np.asarray(by_cell.ngroup(), dtype=np.int64), sentences, layout.groups)
    groups = allocate(cells, np.concatenate(initial_groups), rng)
    word_repeats = None
    if common_words is not None:
        common = {word.lower() for word in common_words}
        rare_words = []
        for text in stimuli["sentence_1"] + " " + stimuli["sentence_2"]:
            words = {split_word(word)[1] for word in language_from_script(text).split(text)}
            rare_words.append(frozenset({word.lower() for word in words} - common))
        groups, *word_repeats = separate_words(cells, groups, rare_words, rng)

    # Draw order and sides. Each participant has a separate random stream, so that additional
    # participants do not change the trials of others.
    participants = []
    for group in range(layout.groups):
        group_stimuli = stimuli[groups == group]
        for member in range(layout.participants):
            stream = np.random.default_rng([seed, group, member])
            table = group_stimuli.assign(side_1=draw_sides(group_stimuli, stream))
            table = table.iloc[stream.permutation(len(table))].assign(group=group + 1)
            number = group * layout.participants + member + 1
            participants.append(table.assign(participant=number, trial=range(1, len(table) + 1)))
    trials: pd.DataFrame = add_trial_kinds(pd.concat(participants, ignore_index=True))
    kinds = trials["condition"].map(_SENTENCE_KINDS)
    trials["kind_1"], trials["kind_2"] = kinds.str[0], kinds.str[1]
    trials = trials[[*CHOICES[:8], "stimulus", "item", "side_1", "kind", "kind_1", "kind_2"]]
    check_design(trials)
    trials.attrs = {
        "seed": seed,
        "layout": str(layout),
        "trials": len(stimuli) // layout.groups,
        "word_repeats": word_repeats,
    }
    return trials


def _check_selection(table: pd.DataFrame, columns: Sequence[str], table_name: str) -> pd.DataFrame:
    """Check a table of selected sentences, and prepare it for `_build_stimuli`.

    The sentences of a row are either two natural sentences or one natural sentence and two
    synthetic ones. In the returned copy of the table:

    - sentences are normalised;
    - empty names of models are None. A row without names belongs to a set of sentences that
      compares all models at once instead of two of them;
    - the new column ``origin`` contains the first sentence of each row. Stimuli with the same
      origin belong to the same item.

    Parameters
    ----------
    table
        Table with one selected pair or triplet of sentences per row.
    columns
        Columns that contain the sentences.
    table_name
        Description of the table in error messages.
    """
    is_triplets = "natural" in columns
    required = ("model_1", "model_2", *columns) if is_triplets else columns
    require_columns(table, required, table_name)
    if "condition" in table:
        raise InputError(
            f"{table_name} has a column 'condition', which the layout sets; lay out custom items "
            "and conditions with latin_square (--pairs), or rename the column"
        )
    # A row names the two models that its sentences compare, or none if they compare all models.
    names = table.reindex(columns=["model_1", "model_2"]).astype(object)
    is_unnamed = (names.isna() | (names == "")).to_numpy()
    has_one_name = is_unnamed[:, 0] != is_unnamed[:, 1]
    if has_one_name.any():
        raise InputError(
            f"row {int(has_one_name.argmax()) + 1} of {table_name} names one model but not the "
            "other; name both, or neither for a set of models"
        )
    if is_unnamed.any():
        table = table.assign(**names.mask(is_unnamed, None))
    for column in columns:
        for value in table[column]:
            if not isinstance(value, str) or not value.split():
                raise InputError(
                    f"{column} of {table_name} contains {value!r}, not a sentence; put the "
                    "sentences there"
                )
    # Stimuli that are made from the same row belong to the same item.
    table = table.assign(**table[[*columns]].map(normalise_sentence))
    return table.assign(origin=table[columns[0]])


def _build_stimuli(table: pd.DataFrame, condition: str, columns: tuple[str, str]) -> pd.DataFrame:
    """Build one stimulus (a sentence pair in a condition) from each row of a table.

    Parameters
    ----------
    table
        Natural pairs or triplets, with the columns `model_1`, `model_2` and `origin`.
    condition
        Name of the condition.
    columns
        Columns of the table that contain sentence 1 and sentence 2.
    """
    stimuli = table[[*columns, "model_1", "model_2", "origin"]].reset_index(drop=True)
    stimuli.columns = pd.Index([*PAIR, "model_1", "model_2", "origin"])
    stimuli.insert(0, "condition", condition)
    return stimuli


def _assign_random_numbers(
    stimuli: pd.DataFrame, n_groups: int, condition: str, rng: np.random.Generator
) -> IntArray:
    """Assign the numbers 0, 1, 2, ... to the stimuli of each pair of models, in random order.

    The caller distributes the stimuli among the groups of participants by these numbers: number i
    starts in group i mod `n_groups`, so each group has equally many stimuli of each pair of models.
    All stimuli without named models are numbered together.

    Parameters
    ----------
    stimuli
        Stimuli of one condition.
    n_groups
        Number of groups of participants.
    condition
        Name of the condition, for error messages.
    rng
        Random number generator.

    Returns
    -------
    (n,) array
        Number of each of the n stimuli.

    Raises
    ------
    InfeasibleError
        If a pair of models has a number of stimuli that is not a multiple of `n_groups`, or if
        pairs of models have different numbers of stimuli.
    """
    random_numbers = np.empty(len(stimuli), dtype=np.int64)
    # For each distinct number of stimuli, a pair of models that has this number.
    model_pair_by_size: dict[int, str] = {}
    # Label the two models that each stimulus distinguishes.
    model_pairs = "model pair " + stimuli["model_1"].astype(str)
    model_pairs += " and " + stimuli["model_2"].astype(str)
    model_pairs = model_pairs.where(stimuli["model_1"].notna(), _SET_OF_MODELS)
    for model_pair, rows in stimuli.groupby(model_pairs, sort=False).indices.items():
        # Each group of participants needs the same number of stimuli of each pair of models.
        if len(rows) % n_groups:
            raise InfeasibleError(
                f"{condition}: {model_pair} has {format_count(len(rows), 'stimulus', 'stimuli')}, "
                f"which {n_groups} groups cannot share equally; select a multiple of {n_groups} or "
                "change the number of groups"
            )
        if model_pair != _SET_OF_MODELS:
            model_pair_by_size.setdefault(len(rows), str(model_pair))
        random_numbers[rows] = rng.permutation(len(rows))
    # If two pairs of models have different numbers of stimuli, name both.
    if len(model_pair_by_size) > 1:
        (size, model_pair), (other_size, other_model_pair), *_ = model_pair_by_size.items()
        raise InfeasibleError(
            f"{condition}: {model_pair} has {format_count(size, 'stimulus', 'stimuli')} but "
            f"{other_model_pair} has {other_size}; select equally many"
        )
    return random_numbers


def _draw_fillers(
    pool: Sequence[str], used: set[str], layout: Layout, rng: np.random.Generator
) -> list[pd.DataFrame]:
    """Draw the random natural pairs and the catch trials of all groups from a pool of sentences.

    A catch trial compares a natural sentence with its words in random order.

    Parameters
    ----------
    pool
        Natural sentences.
    used
        Sentences that other stimuli contain, and that are not drawn.
    layout
        Number of groups and trials.
    rng
        Random number generator.

    Returns
    -------
    list of DataFrame
        Stimuli of the random natural pairs and of the catch trials, if there are any.
    """
    n_random, n_catch = layout.groups * layout.random_natural, layout.groups * layout.catch
    if not n_random + n_catch:
        return []
    sentences = dict.fromkeys(normalise_sentence(sentence) for sentence in pool)
    unused = [sentence for sentence in sentences if sentence and sentence not in used]
    order = [unused[i] for i in rng.permutation(len(unused))]
    language = detect_language(sentences)
    excluded = used | set(order)
    # Sentences for catch trials, each with its shuffled words, and sentences for random pairs.
    catch: list[tuple[str, str]] = []
    unshuffled: list[str] = []
    for sentence in order:
        parsed = Sentence.parse(sentence, language)
        shuffled = None
        # Shuffle the words, up to ten times, until the result is a new sentence.
        for _ in range(10 if len(catch) < n_catch else 0):
            words = tuple(parsed.words[i] for i in rng.permutation(len(parsed)))
            candidate = parsed.with_words(words)
            is_readable = language.is_space_delimited or candidate.round_trips
            if is_readable and str(candidate) not in excluded:
                shuffled = str(candidate)
                break
        if shuffled is None:
            unshuffled.append(sentence)
        else:
            excluded.add(shuffled)
            catch.append((sentence, shuffled))
    if len(catch) < n_catch or len(unshuffled) < 2 * n_random:
        shuffled_note = f", {len(catch)} of which have words to shuffle"
        raise InfeasibleError(
            f"{format_count(n_random, 'random pair')} and {format_count(n_catch, 'catch trial')} "
            f"need {format_count(2 * n_random + n_catch, 'natural sentence')}, but the pool has "
            f"{len(unused)} that are not used already"
            f"{shuffled_note if len(catch) < n_catch else ''}; give a larger pool"
        )
    first, second = unshuffled[:n_random], unshuffled[n_random : 2 * n_random]
    random_pairs = list(zip(first, second, strict=True))
    fillers = []
    for condition, pairs in (("random_natural", random_pairs), ("catch", catch)):
        if pairs:
            table = pd.DataFrame(pairs, columns=[*PAIR], dtype=object)
            table = table.assign(model_1=None, model_2=None, origin=table["sentence_1"])
            fillers.append(_build_stimuli(table, condition, PAIR))
    return fillers


def draw_sides(trials: pd.DataFrame, rng: np.random.Generator) -> pd.Series:
    """Draw the side of the screen for sentence 1 in each trial, balanced within conditions.

    Parameters
    ----------
    trials
        Trials of one participant, with the column ``condition``.
    rng
        Random number generator.

    Returns
    -------
    Series
        ``left`` in half of the trials of each condition and ``right`` in the other half. If the
        number of trials is odd, the side with one more trial is drawn at random.
    """
    side = pd.Series("right", index=trials.index)
    for rows in trials.groupby("condition", sort=False).indices.values():
        # One half, rounded down; if the number is odd, add 1 with probability 1/2.
        n_left = len(rows) // 2 + int(rng.integers(2)) * (len(rows) % 2)
        side.iloc[rng.permutation(rows)[:n_left]] = "left"
    return side
