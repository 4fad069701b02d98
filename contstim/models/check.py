"""Conformance check of sentence models, for authors of custom models."""

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
        selection of bundled sentences with words in the model's vocabulary.
    words
        Words of the vocabulary to try as replacements. The default is the words of the sentences.
    tolerance
        Maximum difference, in nats, between two computations of the same score.

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
    'a batch, single sentences and a different order give the same scores'
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
    for original in parsed[:3]:
        for position in range(len(original)):
            _check_replacements(model, original, position, candidates, tolerance)
    report.append(
        f"replacement scores equal whole scores and satisfy their bounds ({len(candidates)} "
        "candidates at every position of three sentences)"
    )
    return report


def _in_vocabulary(model: SentenceModel, words: Sequence[str]) -> BoolArray:
    """Return `model.in_vocabulary(words)` after checking its type and shape."""
    is_known = np.asarray(model.in_vocabulary(words))
    if is_known.dtype != np.bool_ or is_known.shape != (len(words),):
        raise ValidationError(
            f"{model.spec}: in_vocabulary returns {is_known.dtype} of shape {is_known.shape}, "
            f"expected bool of shape ({len(words)},)"
        )
    return is_known


def _require_equal(
    model: SentenceModel,
    sentences: Sequence[str],
    scores: tuple[FloatArray, FloatArray],
    descriptions: tuple[str, str],
    tolerance: float,
) -> None:
    """Raise `ValidationError` if two computations of the scores of S sentences differ.

    Parameters
    ----------
    model
        Model that is checked.
    sentences
        The S sentences.
    scores
        Results of the two computations, each of shape (S,). NaN is an error.
    descriptions
        Descriptions of the two computations for the message, for example ``in a batch``.
    tolerance
        Maximum difference between two scores of a sentence.
    """
    first, second = scores
    # Find the sentence with the largest difference. `argmax` returns the index of a NaN, if any.
    i = int(np.abs(first - second).argmax())
    if not abs(first[i] - second[i]) <= tolerance:
        raise ValidationError(
            f"{model.spec}: scores {sentences[i]!r} as {first[i]} {descriptions[0]}, but as "
            f"{second[i]} {descriptions[1]}"
        )


def _check_scores(model: SentenceModel, sentences: list[str], tolerance: float) -> list[str]:
    """Check type, range and reproducibility of the scores of a model.

    The score of a sentence must not depend on the other sentences in a batch or on their order.

    Parameters
    ----------
    model
        Model to check.
    sentences
        Test sentences.
    tolerance
        Maximum difference between two scores of the same sentence.

    Returns
    -------
    list of str
        Two lines for the report.

    Raises
    ------
    ValidationError
        If the model fails the check.
    """
    scores, highest = model.score(sentences), model.kind.highest
    # Type and shape of the scores.
    if scores.dtype != np.float64 or scores.shape != (len(sentences),):
        raise ValidationError(
            f"{model.spec}: score returns {scores.dtype} of shape {scores.shape}, expected float64 "
            f"of shape ({len(sentences)},)"
        )
    # Range: the highest score is 0 for log-probabilities.
    for sentence, value in zip(sentences, scores, strict=True):
        if not np.isfinite(value) or value > highest:
            raise ValidationError(
                f"{model.spec}: scores {sentence!r} as {value}, expected a finite value of at most "
                f"{highest:g}"
            )
    if not np.array_equal(scores, model.score(sentences)):
        raise ValidationError(f"{model.spec}: scores the same sentences differently a second time")
    # The scores of a sentence must not depend on the other sentences of a batch.
    tolerance = max(tolerance, model.batch_tolerance)
    backwards = model.score(sentences[::-1])[::-1]
    single = np.array([model.score([sentence])[0] for sentence in sentences])
    for values, order in ((backwards, "in reverse order"), (single, "one at a time")):
        _require_equal(model, sentences, (values, scores), (order, "in a batch"), tolerance)
    return [
        f"scores are float64, finite, at most {highest:g} and repeatable ({len(sentences)} "
        "sentences)",
        "a batch, single sentences and a different order give the same scores",
    ]


def _check_word_scores(model: SentenceModel, sentences: list[str], tolerance: float) -> str:
    """Check that the word scores of each sentence sum to its score.

    If the score is not a sum over words, the model must refuse to compute word scores.

    Parameters
    ----------
    model
        Model to check.
    sentences
        Test sentences.
    tolerance
        Maximum difference between a score and the sum of the word scores.

    Returns
    -------
    str
        Line for the report.

    Raises
    ------
    ValidationError
        If the model fails the check.
    """
    counted_scores, scores = model.score_with_counts(sentences), model.score(sentences)
    # The two methods that score sentences must agree.
    methods = "by score_with_counts", "by score"
    batch_tolerance = max(tolerance, model.batch_tolerance)
    _require_equal(model, sentences, (counted_scores.score, scores), methods, batch_tolerance)
    # Scores that are not sums over words, for example classifier scores, have no word scores.
    if not model.kind.splits_over_words:
        try:
            model.score_words(sentences)
        except InputError:
            return "word scores are refused, since the score is not a sum over words"
        raise ValidationError(
            f"{model.spec}: returns word scores although its score is not a sum over words"
        )
    # One score per word. Words that are not scored have NaN.
    word_scores = model.score_words(sentences)
    word_counts = counted_scores.n_words
    for sentence, values, word_count in zip(sentences, word_scores, word_counts, strict=True):
        n_words = len(model.language.split(sentence))
        if values.shape != (n_words,) or word_count != n_words:
            raise ValidationError(
                f"{model.spec}: returns {len(values)} word scores for the {n_words} words of "
                f"{sentence!r}"
            )
    sums = np.array([np.nansum(values) for values in word_scores])
    methods = "as the sum of its word scores", "by score_with_counts"
    _require_equal(model, sentences, (sums, counted_scores.score), methods, tolerance)
    return "word scores sum to sentence scores, one for each word"


def _check_unknown_words(model: SentenceModel, sentence: str) -> str:
    """Check that a model refuses a sentence with an unknown word and names the word.

    Models that can score every word pass the check.

    Parameters
    ----------
    model
        Model to check.
    sentence
        Sentence in which a nonsense word is inserted.

    Returns
    -------
    str
        Line for the report.

    Raises
    ------
    ValidationError
        If the model fails the check.
    """
    # `model.event` defines the score; its field `unknown` states how unknown words are treated.
    if model.in_vocabulary([_NONSENSE])[0] or model.event.unknown != "error":
        return "every word can be scored (sub-word tokens, or unknown words as unk)"
    # Insert an invented word after the first word. The model must refuse the sentence and name it.
    first_word, *later_words = sentence.split()
    text = " ".join([first_word, _NONSENSE, *later_words])
    try:
        value = model.score([text])[0]
    except ContstimError as error:
        if isinstance(error, UnknownWordError) and _NONSENSE in str(error):
            return "an unknown word is refused by name"
        raise ValidationError(
            f"{model.spec}: refuses an unknown word by {type(error).__name__} ({error}), expected "
            "UnknownWordError with the word"
        ) from error
    raise ValidationError(f"{model.spec}: scores {text!r} as {value}, but event.unknown is 'error'")


def _check_replacements(
    model: SentenceModel, sentence: Sentence, position: int, candidates: WordList, tolerance: float
) -> None:
    """Check `score_replacements` at one position of a sentence.

    The scores of the candidates must equal the scores of the whole sentences, and must not exceed
    the upper bounds. Candidates outside the vocabulary are left out.
    """
    is_known = _in_vocabulary(model, [sentence.surface(position, word) for word in candidates])
    if not is_known.any():
        return
    # Score the sentence with each candidate that the model knows, each sentence as a whole.
    words = WordList(tuple(compress(candidates, is_known)))
    texts = [str(sentence.replace(position, word)) for word in words]
    expected = model.score(texts)
    # The faster method must give the same scores, and upper bounds that no score exceeds.
    replacements = model.score_replacements(sentence, position, words)
    on_demand = replacements.score(np.arange(len(words), dtype=np.int64))
    whole = f"as a whole (replacement at position {position})"
    _require_equal(model, texts, (on_demand, expected), ("on demand", whole), tolerance)
    if replacements.is_exact:
        scores = replacements.estimates, expected
        _require_equal(model, texts, scores, ("at once", whole), tolerance)
    excess = expected - replacements.upper_bounds
    i = int(excess.argmax())
    if not excess[i] <= tolerance:
        raise ValidationError(
            f"{model.spec}: scores {texts[i]!r} as {expected[i]}, above its bound "
            f"{replacements.upper_bounds[i]} (replacement at position {position})"
        )
