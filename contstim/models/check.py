"""Conformance check of sentence models, bundled or custom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import compress

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import ContstimError, InputError, UnknownWordError, ValidationError
from contstim.models.base import SentenceModel
from contstim.text import Sentence, WordList, pool

# A word that is in no vocabulary.
_NONSENSE = "qzxqvqzxq"
_SENTENCES_PER_LENGTH = 3
_MAX_CANDIDATES = 50


def check_model(
    model: SentenceModel,
    sentences: Sequence[str] | None = None,
    words: Sequence[str] = (),
    tolerance: float = 1e-4,
) -> list[str]:
    """Check that a model conforms to the interface `SentenceModel`.

    Parameters
    ----------
    model
        The model to check.
    sentences
        At least three sentences of different lengths that the model can score. The default is a
        selection of bundled sentences with words that the model knows.
    words
        Words of the vocabulary to try as replacements. The default is words of the sentences.
    tolerance
        Maximum difference, in nats, between two ways of computing one score.

    Returns
    -------
    list of str
        One line for each property that was checked.

    Raises
    ------
    ValidationError
        If a property is violated. The message states the property and the values.

    Examples
    --------
    >>> import contstim
    >>> report = check_model(contstim.load_model("contstim:bigram"))
    >>> report[1]
    'a batch, single sentences and another order give the same scores'
    """
    language = model.language
    if sentences is None:
        by_length: dict[int, list[str]] = defaultdict(list)
        for sentence in pool():
            split = language.split(sentence)
            group = by_length[len(split)]
            if len(group) < _SENTENCES_PER_LENGTH and _in_vocabulary(model, split).all():
                group.append(sentence)
        sentences = [sentence for group in by_length.values() for sentence in group]
    sentences = list(sentences)
    if len({len(language.split(s)) for s in sentences}) < 2 or len(sentences) < 3:
        raise ValidationError(
            f"{model.spec}: a check needs at least three sentences of different lengths that the "
            f"model can score, got {len(sentences)}; pass suitable sentences"
        )
    report = _check_scores(model, sentences, tolerance)
    report.append(_check_word_scores(model, sentences, tolerance))
    report.append(_check_unknown_words(model, sentences[0]))
    parsed = [Sentence.parse(sentence, language) for sentence in sentences]
    if not words:
        listed = list(dict.fromkeys(word for sentence in parsed for word in sentence.words))
        words = list(compress(listed, _in_vocabulary(model, listed)))[:_MAX_CANDIDATES]
    candidates = WordList.from_words(words)
    for sentence in parsed[:3]:
        for position in range(len(sentence)):
            _check_replacements(model, sentence, position, candidates, tolerance)
    report.append(
        f"replacement scores equal whole scores and satisfy their bounds ({len(candidates)} "
        "candidates at every position of three sentences)"
    )
    return report


def _failure(model: SentenceModel, problem: str) -> ValidationError:
    return ValidationError(f"{model.spec}: {problem}")


def _largest_difference(values: FloatArray, expected: FloatArray, tolerance: float) -> int | None:
    """Return the index of the largest difference, or None if it is at most `tolerance`.

    A missing value differs from every number.
    """
    i = int(np.abs(values - expected).argmax())  # `argmax` returns the first NaN.
    return None if abs(values[i] - expected[i]) <= tolerance else i


def _in_vocabulary(model: SentenceModel, words: Sequence[str]) -> BoolArray:
    """Return `model.in_vocabulary(words)` after checking its type and shape."""
    is_known = np.asarray(model.in_vocabulary(words))
    if is_known.dtype != np.bool_ or is_known.shape != (len(words),):
        raise _failure(
            model,
            f"in_vocabulary returns {is_known.dtype} of shape {is_known.shape}, expected bool of "
            f"shape ({len(words)},)",
        )
    return is_known


def _check_scores(model: SentenceModel, sentences: list[str], tolerance: float) -> list[str]:
    """Check the range of the scores, and that they depend on nothing but the sentence."""
    scores, highest = model.score(sentences), model.kind.highest
    if scores.dtype != np.float64 or scores.shape != (len(sentences),):
        raise _failure(
            model,
            f"score returns {scores.dtype} of shape {scores.shape}, expected float64 of "
            f"shape ({len(sentences)},)",
        )
    for sentence, value in zip(sentences, scores, strict=True):
        if not np.isfinite(value) or value > highest:
            raise _failure(
                model,
                f"scores {sentence!r} as {value}, expected a finite value of at most {highest:g}",
            )
    if not np.array_equal(scores, model.score(sentences)):
        raise _failure(model, "scores the same sentences differently a second time")
    routes = {
        "in reverse order": model.score(sentences[::-1])[::-1],
        "one by one": np.array([model.score([s])[0] for s in sentences]),
    }
    for route, values in routes.items():
        i = _largest_difference(values, scores, max(tolerance, model.batch_tolerance))
        if i is not None:
            raise _failure(
                model,
                f"scores {sentences[i]!r} as {scores[i]} in a batch and {values[i]} {route}",
            )
    return [
        f"scores are float64, finite, at most {highest:g} and repeatable ({len(sentences)} "
        "sentences)",
        "a batch, single sentences and another order give the same scores",
    ]


def _check_word_scores(model: SentenceModel, sentences: list[str], tolerance: float) -> str:
    """Check that word scores sum to sentence scores, or are refused if they have no meaning."""
    rows, scores = model.score_with_counts(sentences), model.score(sentences)
    i = _largest_difference(rows.score, scores, max(tolerance, model.batch_tolerance))
    if i is not None:
        raise _failure(
            model,
            f"score_with_counts scores {sentences[i]!r} as {rows.score[i]}, score as {scores[i]}",
        )
    if not model.kind.splits_over_words:
        try:
            model.score_words(sentences)
        except InputError:
            return "word scores are refused, since the score is not a sum over words"
        raise _failure(model, "returns word scores although its score is not a sum over words")
    word_scores = model.score_words(sentences)
    for i, sentence in enumerate(sentences):
        n_words, total = len(model.language.split(sentence)), float(np.nansum(word_scores[i]))
        if word_scores[i].shape != (n_words,) or rows.n_words[i] != n_words:
            raise _failure(
                model,
                f"returns {len(word_scores[i])} word scores for the {n_words} words of "
                f"{sentence!r}",
            )
        if not abs(total - rows.score[i]) <= tolerance:
            raise _failure(
                model,
                f"word scores of {sentence!r} sum to {total}, its score is {rows.score[i]}",
            )
    return "word scores sum to sentence scores, one for each word"


def _check_unknown_words(model: SentenceModel, sentence: str) -> str:
    """Check that a sentence with an unknown word is refused and the word is named."""
    if model.in_vocabulary([_NONSENSE])[0] or model.event.unknown != "error":
        return "every word can be scored (sub-word tokens, or unknown words as unk)"
    first_word, *later_words = sentence.split()
    text = " ".join([first_word, _NONSENSE, *later_words])
    try:
        value = model.score([text])[0]
    except UnknownWordError as error:
        if _NONSENSE not in str(error):
            raise _failure(model, f"refuses an unknown word without naming it: {error}") from error
        return "an unknown word is refused by name"
    except ContstimError as error:
        raise _failure(
            model, f"refuses an unknown word as {type(error).__name__}: {error}"
        ) from error
    raise _failure(model, f"scores {text!r} as {value}, but its event refuses unknown words")


def _check_replacements(
    model: SentenceModel,
    sentence: Sentence,
    position: int,
    candidates: WordList,
    tolerance: float,
) -> None:
    """Check scores and bounds of replacements at one position against whole sentences."""
    is_known = _in_vocabulary(model, [sentence.surface(position, word) for word in candidates])
    if not is_known.any():
        return
    words = WordList(tuple(compress(candidates, is_known)))
    expected = model.score([str(sentence.replace(position, word)) for word in words])
    replacements = model.score_replacements(sentence, position, words)
    routes = {"on demand": replacements.score(np.arange(len(words), dtype=np.int64))}
    if replacements.is_exact:
        routes["at once"] = replacements.estimates
    for route, values in routes.items():
        i = _largest_difference(values, expected, tolerance)
        if i is not None:
            raise _failure(
                model,
                f"replacement {words.words[i]!r} at position {position} of {str(sentence)!r} "
                f"scores {values[i]} {route}, {expected[i]} as a whole",
            )
    excess = expected - replacements.upper_bounds
    i = int(excess.argmax())
    if not excess[i] <= tolerance:
        raise _failure(
            model,
            f"replacement {words.words[i]!r} at position {position} of {str(sentence)!r} scores "
            f"{expected[i]}, above its bound {replacements.upper_bounds[i]}",
        )
