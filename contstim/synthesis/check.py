"""Conformance check of search strategies, bundled or not.

The check uses toy problems over a few words, whose best sentences are known or found by trying all.
"""

from __future__ import annotations

import itertools
from dataclasses import is_dataclass, replace

import numpy as np

from contstim.errors import ValidationError
from contstim.models.base import SentenceModel
from contstim.models.prefixes import Prefixes, ScoredPrefixes
from contstim.models.toy import RandomBigramModel
from contstim.synthesis import synthesize
from contstim.synthesis.candidates import SharedVocabulary
from contstim.synthesis.coordinate_search import Strategy
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import MinScore, Problem
from contstim.synthesis.results import Synthesis
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

_WORDS = [consonant + vowel for consonant in "bdf" for vowel in "aeiou"]
_REPEATABLE = frozenset(_WORDS[:3])
_STARTS = ("ba de -- fi do, fu.", "da bi fe bo", "bi bi da du fo")
# The largest difference in nats between two ways of computing one value.
_TOLERANCE = 1e-6


class _Table(RandomBigramModel):
    """A toy model that scores prefixes, too."""

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes:
        return ScoredPrefixes(self, self, (first, later))


def improvements(
    result: Synthesis, problem: Problem, shared_vocabulary: SharedVocabulary
) -> tuple[list[str], int]:
    """Try every single replacement that the edits of a result allow, each scored as a sentence.

    Where no further word may change, another change may be undone with it.

    Returns
    -------
    tuple
        The sentences that satisfy the constraints and have a lower loss, and the number tried.
    """
    models, natural = (
        problem.models_by_name,
        dict(zip(result.models, result.natural_scores, strict=True)),
    )
    now = dict(zip(result.models, result.scores, strict=True))
    loss = problem.contrast.sentence_loss(now, natural)
    edits, language = problem.edits, shared_vocabulary.vocabulary.language
    start, sentence = (Sentence.parse(s, language) for s in (result.natural, result.sentence))
    lists = shared_vocabulary.listed(start, edits)
    changed = Edits.differences(start, sentence)
    undone = sorted(changed.difference(edits.required(start)))
    back = [sentence.replace(p, start.words[p]) for p in undone]
    better: list[str] = []
    tried = 0
    for base, position in itertools.product([sentence, *back], shared_vocabulary.positions(start)):
        words = shared_vocabulary.words(base, position, lists.get(position))
        allowed = shared_vocabulary.allowed(base, position, words)
        near = [base.replace(position, words.words[i]) for i in np.flatnonzero(allowed)]
        if base is not sentence and len(changed) != edits.max_changes:
            continue
        texts = [str(other) for other in near if shared_vocabulary.may(start, other, edits)]
        if not texts:
            continue
        scores = {name: model.score(texts) for name, model in models.items()}
        improves_there = problem.contrast.loss(scores, natural) < loss - _TOLERANCE
        for name, minimum in problem.min_scores(natural).items():
            improves_there &= scores[name] >= minimum
        better += [text for text, improves in zip(texts, improves_there, strict=True) if improves]
        tried += len(texts)
    return better, tried


def check_strategy(strategy: Strategy) -> list[str]:
    """Check a search strategy on toy problems of one, two and three models.

    Parameters
    ----------
    strategy
        The strategy to check, with its options.

    Returns
    -------
    list of str
        The properties that were checked, one line each.

    Raises
    ------
    ValidationError
        Naming the first property that fails, with the problem and the sentences.

    Examples
    --------
    >>> from contstim.synthesis import parse_strategy
    >>> for line in check_strategy(parse_strategy("edit?candidates=all")):
    ...     print(line)
    ...
    equal searches give equal results, in any order (8 problems)
    constraints hold and losses are right and never above 0 when all models score again
    only words that may stand at a position are used
    every problem was improved from some start
    no single replacement improves a result; the known optimum is reached
    """
    if not is_dataclass(strategy) or strategy != replace(strategy):
        raise ValidationError(
            f"{strategy!r} is not a dataclass equal to its copy; make it a frozen dataclass whose "
            "fields are its options"
        )
    vocabulary = Vocabulary(WordList.from_words(_WORDS), WordList.from_words(_WORDS), _REPEATABLE)
    problems = _problems()
    if not strategy.supports_edits:
        problems = {name: p for name, p in problems.items() if p.edits == Edits()}
    for name, problem in problems.items():
        shared_vocabulary = SharedVocabulary(vocabulary, tuple(problem.models_by_name.values()))
        results = [_search(strategy, start, problem, shared_vocabulary) for start in _STARTS]
        # In another order, so that what one search leaves behind would change the next.
        for start, first in list(zip(_STARTS, results, strict=True))[::-1]:
            again = _search(strategy, start, problem, shared_vocabulary)
            if again != first:
                raise _failed(strategy, name, first, f"becomes {again.sentence!r} a second time")
        for result in results:
            _check_result(strategy, name, problem, shared_vocabulary, result)
        if not any(result.is_changed for result in results):
            raise _failed(strategy, name, results[0], "nor any other start was improved")
    done = [
        f"equal searches give equal results, in any order ({len(problems)} problems)",
        "constraints hold and losses are right and never above 0 when all models score again",
        "only words that may stand at a position are used",
        "every problem was improved from some start",
    ]
    if strategy.is_exhaustive:
        _check_known_optimum(strategy)
        done.append("no single replacement improves a result; the known optimum is reached")
    return done


def _problems() -> dict[str, Problem]:
    """Return the toy problems by name: scores at once, with bounds, and wholly unknown."""
    problems: dict[str, Problem] = {}
    pairs = ("all", "all"), ("bound", "all"), ("all", "none"), ("bound", "bound")
    for seed, kinds in enumerate(pairs):
        reject, accept = (_Table(_WORDS, 2 * seed + k, exact=e) for k, e in enumerate(kinds))
        problems[f"a pair of models ({kinds[0]}, {kinds[1]})"] = Problem((reject,), (accept,))
    first, second, third = (_Table(_WORDS, seed, exact="bound") for seed in (20, 21, 22))
    both = (first, second)
    problems["two rejecting models"] = Problem(both, (third,), 1.0, scales=(1.0, 1.0))
    problems["two accepting models"] = Problem((first,), (second, third), 1.0)
    problems["two rejecting models, a bound and at most two changes"] = Problem(
        both,
        (third,),
        1.0,
        (MinScore(second.name, -4.0, natural=True),),
        Edits(max_changes=2, fixed=(0,), words=((1, tuple(_WORDS[:8])),)),
        (1.0, 2.0),
    )
    problems["one model"] = Problem((first,))
    return problems


def _search(
    strategy: Strategy, start: str, problem: Problem, shared_vocabulary: SharedVocabulary
) -> Synthesis:
    return synthesize(
        start, problem=problem, shared_vocabulary=shared_vocabulary, strategy=strategy, seed=1
    )


def _failed(strategy: Strategy, name: str, found: Synthesis, what: str) -> ValidationError:
    return ValidationError(
        f"{strategy!r}: {name}: {found.sentence!r}, written from {found.natural!r}, {what}"
    )


def _check_result(
    strategy: Strategy,
    name: str,
    problem: Problem,
    shared_vocabulary: SharedVocabulary,
    result: Synthesis,
) -> None:
    scores = {
        m: float(model.score([result.sentence])[0]) for m, model in problem.models_by_name.items()
    }
    natural = {
        m: float(model.score([result.natural])[0]) for m, model in problem.models_by_name.items()
    }
    for model, minimum in problem.min_scores(natural).items():
        if result.is_changed and not scores[model] >= minimum:
            what = f"has score {scores[model]} under {model}, below {minimum}"
            raise _failed(strategy, name, result, what)
    loss = problem.contrast.sentence_loss(scores, natural)
    if not abs(loss - result.loss) <= _TOLERANCE or result.loss > 0:
        raise _failed(strategy, name, result, f"has loss {loss}, said to be {result.loss}")
    start, sentence = Sentence.parse(result.natural), Sentence.parse(result.sentence)
    if not shared_vocabulary.may(start, sentence, problem.edits):
        raise _failed(strategy, name, result, "has words that may not stand there, or too many")
    if strategy.is_exhaustive:
        better, _ = improvements(result, problem, shared_vocabulary)
        if better:
            raise _failed(strategy, name, result, f"is complete, but {better[0]!r} is better")


def _check_known_optimum(strategy: Strategy) -> None:
    """Check that independent words are each replaced by the least probable one."""
    model: SentenceModel
    for kind in ("all", "bound", "none"):
        model = table = _Table(_WORDS, 30, exact=kind, end=False)
        table.log_probs[:] = table.log_probs[0]
        problem = Problem((model,))
        free = Vocabulary(
            WordList.from_words(_WORDS), WordList.from_words(_WORDS), frozenset(_WORDS)
        )
        result = _search(strategy, _STARTS[1], problem, SharedVocabulary(free, (model,)))
        word = _WORDS[int(table.log_probs[0, : len(_WORDS)].argmin())]
        if set(result.sentence.split()) != {word}:
            raise _failed(strategy, "independent words", result, f"is not {word!r} throughout")
