"""The public conformance check: what every sentence model, bundled or a user's own, must keep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import ContstimError, InputError, UnknownWordError, ValidationError
from contstim.models.base import SentenceModel
from contstim.text import Sentence, WordList, pool

# A word that no vocabulary holds, to see what a model does with one.
_NONSENSE = "qzxqvqzxq"
_PER_LENGTH = 3


def check_model(
    model: SentenceModel,
    sentences: Sequence[str] | None = None,
    words: Sequence[str] = (),
    tolerance: float = 1e-4,
) -> list[str]:
    """Check a model against the contract.

    Parameters
    ----------
    model
        The model to check.
    sentences
        At least three sentences of different lengths that the model can score; if not given,
        those of the bundled pool whose words it knows.
    words
        Known words to try as replacements; taken from the sentences if not given.
    tolerance
        Largest difference in nats between two ways of computing one value.

    Returns
    -------
    list of str
        The properties that were checked, one line each.

    Raises
    ------
    ValidationError
        Naming the first property that fails, with the values.

    Examples
    --------
    >>> import contstim
    >>> report = check_model(contstim.load_model("contstim:bigram"))
    >>> report[1]
    'a batch, single sentences and another order give the same scores'
    """
    listed = _sentences_for(model) if sentences is None else list(sentences)
    language = model.language
    if len({len(language.split(s)) for s in listed}) < 2 or len(listed) < 3:
        raise ValidationError(
            f"{model.spec}: a check needs at least three sentences of different lengths that the "
            f"model can score, got {len(listed)}; give some of your own"
        )
    done = [_check_scores(model, listed)]
    done += [_check_routes(model, listed, tolerance), _check_words(model, listed, tolerance)]
    done.append(_check_unknown(model, listed))
    if not words:
        shown = list(dict.fromkeys(w for s in listed for w in Sentence.parse(s, language).words))
        words = list(compress(shown, _known(model, shown)))[:50]
    candidates = WordList.from_words(words)
    for sentence in listed[:3]:
        _check_replacements(model, Sentence.parse(sentence, language), candidates, tolerance)
    done.append(
        f"replacement scores equal whole scores, bounds hold ({len(candidates)} candidates at "
        "every position of three sentences)"
    )
    return done


def _fail(model: SentenceModel, what: str) -> ValidationError:
    return ValidationError(f"{model.spec}: {what}")


def _furthest(values: FloatArray, others: FloatArray, allowed: float) -> int | None:
    """Return where two ways of computing numbers differ most, if by more than `allowed`.

    NaN, which argmax finds first, differs from everything.
    """
    worst = int(np.abs(values - others).argmax())
    return None if abs(values[worst] - others[worst]) <= allowed else worst


def _sentences_for(model: SentenceModel) -> list[str]:
    """Take some pool sentences of several lengths, all of whose words `model` knows."""
    by_length: dict[int, list[str]] = {}
    for sentence in pool():
        words = model.language.split(sentence)
        same = by_length.setdefault(len(words), [])
        if len(same) < _PER_LENGTH and _known(model, words).all():
            same.append(sentence)
    return [sentence for same in by_length.values() for sentence in same]


def _check_scores(model: SentenceModel, sentences: list[str]) -> str:
    scores = model.score(sentences)
    if scores.dtype != np.float64 or scores.shape != (len(sentences),):
        raise _fail(
            model,
            f"score gives {scores.dtype} of shape {scores.shape}, expected float64 of "
            f"shape ({len(sentences)},)",
        )
    for sentence, value in zip(sentences, scores, strict=True):
        if not np.isfinite(value) or value > model.kind.highest:
            raise _fail(
                model,
                f"scores {sentence!r} as {value}, expected a finite value at most "
                f"{model.kind.highest:g}",
            )
    if not np.array_equal(scores, model.score(sentences)):
        raise _fail(model, "scores the same sentences differently a second time")
    return (
        f"scores are float64, finite, at most {model.kind.highest:g} and repeatable "
        f"({len(sentences)} sentences)"
    )


def _check_routes(model: SentenceModel, sentences: list[str], tolerance: float) -> str:
    together = model.score(sentences)
    allowed = max(tolerance, model.batch_tolerance)
    routes = {
        "in reverse order": model.score(sentences[::-1])[::-1],
        "one by one": np.array([model.score([s])[0] for s in sentences]),
    }
    for name, values in routes.items():
        worst = _furthest(values, together, allowed)
        if worst is not None:
            raise _fail(
                model,
                f"scores {sentences[worst]!r} as {together[worst]} in a batch and "
                f"{values[worst]} {name}",
            )
    return "a batch, single sentences and another order give the same scores"


def _check_words(model: SentenceModel, sentences: list[str], tolerance: float) -> str:
    totals = model.score_with_counts(sentences)
    scores = model.score(sentences)
    worst = _furthest(totals.score, scores, max(tolerance, model.batch_tolerance))
    if worst is not None:
        raise _fail(
            model,
            f"totals gives {sentences[worst]!r} {totals.score[worst]}, score {scores[worst]}",
        )
    if not model.kind.splits_over_words:
        return _check_no_shares(model, sentences)
    rows = zip(sentences, model.score_words(sentences), totals.score, totals.n_words, strict=True)
    for sentence, by_word, score, counted in rows:
        n_words = len(model.language.split(sentence))
        if by_word.shape != (n_words,) or counted != n_words:
            raise _fail(
                model, f"gives {len(by_word)} word scores for the {n_words} words of {sentence!r}"
            )
        if not abs(float(np.nansum(by_word)) - score) <= tolerance:
            raise _fail(
                model,
                f"word scores of {sentence!r} sum to {np.nansum(by_word)}, its score is {score}",
            )
    return "word scores sum to sentence scores, one for each word"


def _check_no_shares(model: SentenceModel, sentences: list[str]) -> str:
    try:
        model.score_words(sentences)
    except InputError:
        return "word scores are refused, for words have no share of the score"
    raise _fail(model, "gives word scores though its words have no share of the score")


def _check_unknown(model: SentenceModel, sentences: list[str]) -> str:
    if model.in_vocabulary([_NONSENSE])[0] or model.event.unknown != "error":
        return "every word can be scored (sub-word units, or unknown words as unk)"
    words = sentences[0].split()
    sentence = " ".join([words[0], _NONSENSE, *words[1:]])
    try:
        value = model.score([sentence])[0]
    except UnknownWordError as error:
        if _NONSENSE not in str(error):
            raise _fail(model, f"refuses an unknown word without naming it: {error}") from error
        return "an unknown word is refused by name"
    except ContstimError as error:
        raise _fail(model, f"refuses an unknown word as {type(error).__name__}: {error}") from error
    raise _fail(
        model, f"scores {sentence!r} as {value} though its event makes unknown words errors"
    )


def _known(model: SentenceModel, words: Sequence[str]) -> BoolArray:
    """Return which of V words the model knows, (V,)."""
    is_known = np.asarray(model.in_vocabulary(words))
    if is_known.dtype != np.bool_ or is_known.shape != (len(words),):
        raise _fail(
            model,
            f"knows gives {is_known.dtype} of shape {is_known.shape}, expected bool of "
            f"shape ({len(words)},)",
        )
    return is_known


def _check_replacements(
    model: SentenceModel, sentence: Sentence, words: WordList, tolerance: float
) -> None:
    for position in range(len(sentence)):
        is_known = _known(model, [sentence.surface(position, word) for word in words])
        if not is_known.any():
            continue
        subset = WordList(tuple(compress(words, is_known)))
        fresh = model.score([str(sentence.replace(position, word)) for word in subset])
        table = model.score_replacements(sentence, position, subset)
        routes = {"on demand": table.score(np.arange(len(subset), dtype=np.int64))}
        if table.is_exact:
            routes["at once"] = table.estimates
        for name, values in routes.items():
            worst = _furthest(values, fresh, tolerance)
            if worst is not None:
                raise _fail(
                    model,
                    f"replacement {subset.words[worst]!r} at position {position} of "
                    f"{str(sentence)!r} scores {values[worst]} {name}, {fresh[worst]} as a whole",
                )
        above = int((fresh - table.upper_bounds).argmax())
        if not fresh[above] - table.upper_bounds[above] <= tolerance:
            raise _fail(
                model,
                f"replacement {subset.words[above]!r} at position {position} of "
                f"{str(sentence)!r} scores {fresh[above]}, above its bound "
                f"{table.upper_bounds[above]}",
            )
