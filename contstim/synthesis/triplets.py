"""Synthesis of triplets from many natural sentences, in one process.

A triplet consists of a natural sentence and two synthetic sentences about which two models disagree
(`Triplet`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from contstim.errors import InputError, require_integer
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.progress import track
from contstim.synthesis import synthesize
from contstim.synthesis.problem import require_distinct_models
from contstim.synthesis.results import (
    SynthesisResult,
    Triplet,
    make_distinct_triplets,
    max_attempts,
    spec_columns,
)
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.strategy import Strategy
from contstim.text.diversity import DEFAULT_WORD_SHARE, WordShareLimit
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary


def synthesize_triplets(
    sentences: Sequence[str],
    pairs: Sequence[tuple[SentenceModel | str, SentenceModel | str]],
    *,
    vocabulary: Vocabulary | None = None,
    strategy: str | Strategy = "edit",
    per_sentence: int = 1,
    seed: int = 0,
    minimum_drop: float = 0.0,
    max_word_share: float = DEFAULT_WORD_SHARE,
    **options: Any,
) -> pd.DataFrame:
    """Synthesise triplets from many natural sentences for pairs of models.

    A triplet consists of a natural sentence and two synthetic sentences. Model 2 finds the first
    synthetic sentence less probable than the natural sentence, but model 1 does not. For the second
    synthetic sentence, the models are exchanged.

    For long computations, use ``contstim synthesize --pair``, which runs several processes and can
    be continued after an interruption.

    Parameters
    ----------
    sentences
        Natural sentences; duplicates are ignored.
    pairs
        Pairs of models or of model specification strings, such as ``contstim:gpt``.
    vocabulary
        Words that may be used. Default: the bundled vocabulary.
    strategy, seed, options
        Parameters of :func:`~contstim.synthesis.synthesize`.
    per_sentence
        Maximum number of different triplets per natural sentence and pair of models. Each search
        visits the positions in a different order.
    minimum_drop
        Minimum decrease in log-probability under the model that finds the synthetic sentence less
        probable, in nats. Triplets with a smaller decrease are left out.
    max_word_share
        Maximum fraction of the synthetic sentences for a pair of models that may contain the same
        word. Below 1, no sentence occurs twice (`contstim.text.diversity.WordShareLimit`). 1: no
        limit.

    Returns
    -------
    DataFrame
        One row per triplet, with the columns of :data:`contstim.columns.TRIPLETS`. If
        the name of a model differs from its specification string, the columns ``spec_1`` and
        ``spec_2`` contain the strings.

    Raises
    ------
    InputError
        If a pair contains one model twice; if `per_sentence`, `minimum_drop` or `max_word_share` is
        out of range; or if :func:`~contstim.synthesis.synthesize` raises it.

    Examples
    --------
    >>> pair = ("contstim:bigram", "contstim:trigram")
    >>> table = synthesize_triplets(["The ship left at dawn."], [pair])
    >>> table[["natural", "synthetic_2"]].T
                                         0
    natural         The ship left at dawn.
    synthetic_2  The recourse left at two.
    """
    require_integer("per_sentence", per_sentence, 1)
    if not 0 <= minimum_drop < math.inf:  # also refuses NaN
        raise InputError(
            f"minimum_drop is {minimum_drop}; give the minimum decrease of the rejecting model's "
            "log-probability as a number of nats from 0 up"
        )
    words = bundled_vocabulary() if vocabulary is None else vocabulary
    loaded = {m: load_model(m) if isinstance(m, str) else m for pair in pairs for m in pair}
    model_pairs = [(loaded[first], loaded[second]) for first, second in pairs]
    for models in model_pairs:
        require_distinct_models("a pair needs two", [model.name for model in models])
    natural = list(dict.fromkeys(map(words.language.normalise_spacing, sentences)))

    triplets = list[Triplet]()
    options |= {"strategy": strategy, "seed": seed}

    def synthesize_all() -> Iterator[int]:
        """Synthesize sentences for all model pairs, and append to `triplets`.

        A triplet is a natural sentence with two synthetic sentences, about which two models
        disagree. The generator yields a number after each finished natural sentence, so that the
        caller can advance a progress bar. The yielded numbers have no other use.
        """
        for models in model_pairs:
            n_accepted, shared_vocabulary = 0, SharedVocabulary(words, models)
            triplets_by_number = dict[int, list[Triplet]]()
            # The limit returns batches of natural sentences, some of them again because a word
            # occurred too often in their synthetic sentences.
            limit = WordShareLimit(natural, 2 * per_sentence, max_word_share, words)
            while True:
                numbers, excluded_words = limit.next_batch()
                if not numbers:
                    break
                options["shared_vocabulary"] = shared_vocabulary.exclude(excluded_words)
                texts = []
                for number in numbers:
                    results = _search_repeatedly(natural[number], *models, per_sentence, options)
                    distinct = make_distinct_triplets(results, per_sentence, minimum_drop)
                    triplets_by_number[number] = distinct
                    texts.append(
                        [text for triplet in distinct for text in triplet.synthetic_sentences]
                    )
                limit.accept(texts)
                # Advance the progress bar once for each newly accepted natural sentence.
                yield from range(n_accepted, limit.n_accepted)
                n_accepted = max(n_accepted, limit.n_accepted)
            for number in range(len(natural)):
                triplets.extend(triplets_by_number[number])

    for _ in track(synthesize_all(), len(model_pairs) * len(natural), "writing triplets"):
        pass
    specs = {model.name: model.spec for models in model_pairs for model in models}
    table = [{**triplet.to_record(), **spec_columns(triplet, specs)} for triplet in triplets]
    return pd.DataFrame(table, columns=None if triplets else Triplet.columns())


def _search_repeatedly(
    sentence: str,
    model_1: SentenceModel,
    model_2: SentenceModel,
    per_sentence: int,
    options: dict[str, Any],
) -> Iterator[tuple[SynthesisResult, SynthesisResult]]:
    """Search repeatedly for two synthetic sentences, with different random numbers each time.

    Parameters
    ----------
    sentence
        Natural sentence from which both searches start.
    model_1, model_2
        Models that the synthetic sentences should distinguish.
    per_sentence
        Number of different results that are needed.
    options
        Further arguments of :func:`~contstim.synthesis.synthesize`.

    Yields
    ------
    first, second
        Synthetic sentence that is improbable only under model 2, and synthetic sentence that is
        improbable only under model 1.
    """
    for attempt in range(max_attempts(per_sentence)):
        first = synthesize(sentence, reject=model_2, accept=model_1, attempt=attempt, **options)
        second = synthesize(sentence, reject=model_1, accept=model_2, attempt=attempt, **options)
        yield first, second
