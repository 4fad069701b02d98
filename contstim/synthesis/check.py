"""Conformance check of search strategies on toy problems.

The sentences consist of a few invented words, so that all single replacements can be compared and
the best sentence of one problem is known.
"""

from __future__ import annotations

import itertools
from dataclasses import is_dataclass, replace

import numpy as np

from contstim.errors import ValidationError
from contstim.models.prefixes import Prefixes, ScoredPrefixes
from contstim.models.toy import RandomBigramModel
from contstim.synthesis import synthesize
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import MinScore, Problem
from contstim.synthesis.results import SynthesisResult
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.strategy import Strategy
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

_WORDS = WordList(tuple(c + v for c in "bdf" for v in "aeiou"))
_SENTENCES = ("ba de -- fi do, fu.", "da bi fe bo", "bi bi da du fo")
# Maximum difference in nats between two computations of one value.
_TOLERANCE = 1e-6


class _ToyModel(RandomBigramModel):
    """A toy model that also scores prefixes."""

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes:
        return ScoredPrefixes(self, self, (first, later))


def find_improvements(
    result: SynthesisResult, problem: Problem, shared_vocabulary: SharedVocabulary
) -> tuple[list[str], int]:
    """Find all replacements of a single word that improve a synthetic sentence.

    All words at all positions are tried. If the sentence already has the maximum number of changed
    words, one of its changes may be undone together with the replacement.

    Parameters
    ----------
    result
        Result of a search, with the synthetic sentence.
    problem
        Synthesis problem that was solved: models, loss and constraints.
    shared_vocabulary
        Words that all models of the problem know.

    Returns
    -------
    improvements : list of str
        Sentences that satisfy the constraints and have a lower loss than the result.
    n_sentences : int
        Number of sentences that were scored.
    """
    edits, language = problem.edits, shared_vocabulary.vocabulary.language
    natural = Sentence.parse(result.natural, language)
    sentence = Sentence.parse(result.sentence, language)
    natural_scores = dict(zip(result.models, result.natural_scores, strict=True))
    restricted = shared_vocabulary.restricted_words(natural, edits)
    # Replace words in the result itself or, at the maximum number of changes, in the result with
    # one change undone.
    changed = Edits.changed_positions(natural, sentence)
    bases = [sentence]
    if len(changed) == edits.max_changes:
        reversible = sorted(changed.difference(edits.required_positions(natural)))
        bases += [sentence.replace(p, natural.words[p]) for p in reversible]

    improvements, n_sentences = list[str](), 0
    for base, position in itertools.product(bases, shared_vocabulary.word_positions(natural)):
        words = shared_vocabulary.words_at(base, position, restricted.get(position))
        indices = np.flatnonzero(shared_vocabulary.is_unrepeated(base, position, words))
        neighbours = [base.replace(position, words.words[i]) for i in indices]
        texts = [str(s) for s in neighbours if shared_vocabulary.permits(natural, s, edits)]
        if not texts:
            continue
        scores = {name: model.score(texts) for name, model in problem.models_by_name.items()}
        losses = problem.definition.loss(scores, natural_scores)
        is_improvement = losses < result.loss - _TOLERANCE
        for name, minimum in problem.min_scores(natural_scores).items():
            is_improvement &= scores[name] >= minimum
        improvements += itertools.compress(texts, is_improvement)
        n_sentences += len(texts)
    return improvements, n_sentences


def check_strategy(strategy: Strategy) -> list[str]:
    """Check that a search strategy gives valid and reproducible results on toy problems.

    The toy problems have one, two or three models and sentences of invented words.

    Parameters
    ----------
    strategy
        Strategy to check, with its options.

    Returns
    -------
    list of str
        Properties that were checked, one sentence each.

    Raises
    ------
    ValidationError
        If a property fails; the message names the property, the problem and the sentences.

    Examples
    --------
    >>> from contstim.synthesis import parse_strategy
    >>> for line in check_strategy(parse_strategy("edit?candidates=all")):
    ...     print(line)
    ...
    equal searches give equal results, in any order (8 problems)
    all results satisfy the constraints and have the reported losses, none above 0
    all replacements are permitted by the vocabulary and the edits
    each problem was improved from at least one sentence
    no single replacement improves a result; the known optimum is reached
    """
    if not is_dataclass(strategy) or strategy != replace(strategy):
        raise ValidationError(
            f"{strategy!r} is not a dataclass equal to its copy; make it a frozen dataclass whose "
            "fields are its options"
        )
    vocabulary = Vocabulary(_WORDS, _WORDS, frozenset(_WORDS.words[:3]))
    problems = _make_problems()
    if not strategy.supports_edits:
        problems = {name: p for name, p in problems.items() if p.edits == Edits()}
    for name, problem in problems.items():
        shared = SharedVocabulary(vocabulary, tuple(problem.models_by_name.values()))
        results = [_search(strategy, text, problem, shared) for text in _SENTENCES]
        # Search in reverse order, to detect state that one search leaves for the next.
        for result in results[::-1]:
            repeated = _search(strategy, result.natural, problem, shared)
            if repeated != result:
                failure = f"becomes {repeated.sentence!r} a second time"
                raise _failed(strategy, name, result, failure)
        for result in results:
            _check_result(strategy, name, problem, shared, result)
        if not any(result.is_changed for result in results):
            raise _failed(strategy, name, results[0], "and no other sentence was improved either")
    properties = [
        f"equal searches give equal results, in any order ({len(problems)} problems)",
        "all results satisfy the constraints and have the reported losses, none above 0",
        "all replacements are permitted by the vocabulary and the edits",
        "each problem was improved from at least one sentence",
    ]
    if strategy.is_exhaustive:
        # If the words of a sentence are independent under the model, the optimal sentence repeats
        # the least probable word.
        for kind in ("all", "bound", "none"):
            model = _ToyModel(_WORDS.words, 30, exact=kind, end=False)
            model.log_probs[:] = model.log_probs[0]
            shared = SharedVocabulary(Vocabulary(_WORDS, _WORDS, frozenset(_WORDS)), (model,))
            result = _search(strategy, _SENTENCES[1], Problem((model,)), shared)
            optimum = _WORDS.words[int(model.log_probs[0, : len(_WORDS)].argmin())]
            if set(result.sentence.split()) != {optimum}:
                failure = f"does not repeat the least probable word {optimum!r}"
                raise _failed(strategy, "independent words", result, failure)
        properties.append("no single replacement improves a result; the known optimum is reached")
    return properties


def _make_problems() -> dict[str, Problem]:
    """Create toy problems for testing search strategies.

    The problems combine three kinds of toy models. The kinds differ in the information that a
    search has about the words for a position before it scores a sentence with each word:

    - ``all``: the exact scores of the sentences with all words;
    - ``bound``: an upper bound of the score for each word;
    - ``none``: nothing.

    Returns
    -------
    dict
        Mapping from the description of a problem to the problem.
    """
    problems: dict[str, Problem] = {}
    # Kinds of the model that should find the sentence improbable and of the model that should find
    # it probable. A model of the kind "all" scores all words for a position at once, "bound" only
    # gives upper bounds of these scores, and "none" neither.
    pairs = ("all", "all"), ("bound", "all"), ("all", "none"), ("bound", "bound")
    for number, (reject_kind, accept_kind) in enumerate(pairs):
        reject = _ToyModel(_WORDS.words, 2 * number, exact=reject_kind)
        accept = _ToyModel(_WORDS.words, 2 * number + 1, exact=accept_kind)
        description = f"a pair of models ({reject_kind}, {accept_kind})"
        problems[description] = Problem((reject,), (accept,))
    # Further problems have several rejecting models, several accepting models, or only one model.
    first, second, third = (_ToyModel(_WORDS.words, seed, exact="bound") for seed in (20, 21, 22))
    rejecting = (first, second)
    problems["two rejecting models"] = Problem(rejecting, (third,), margin=1.0, scales=(1.0, 1.0))
    problems["two accepting models"] = Problem((first,), (second, third), margin=1.0)
    problems["two rejecting models, a bound and at most two changes"] = Problem(
        rejecting,
        (third,),
        margin=1.0,
        bounds=(MinScore(second.name, -4.0, natural=True),),
        edits=Edits(max_changes=2, fixed=(0,), words=((1, _WORDS.words[:8]),)),
        scales=(1.0, 2.0),
    )
    problems["one model"] = Problem((first,))
    return problems


def _search(
    strategy: Strategy, text: str, problem: Problem, shared: SharedVocabulary
) -> SynthesisResult:
    return synthesize(text, problem=problem, shared_vocabulary=shared, strategy=strategy, seed=1)


def _failed(strategy: Strategy, name: str, result: SynthesisResult, reason: str) -> ValidationError:
    return ValidationError(
        f"{strategy!r} fails on {name}: {result.sentence!r}, made from {result.natural!r}, {reason}"
    )


def _check_result(
    strategy: Strategy,
    name: str,
    problem: Problem,
    words: SharedVocabulary,
    result: SynthesisResult,
) -> None:
    """Check one synthetic sentence that a search strategy has found for a toy problem.

    Parameters
    ----------
    strategy
        Strategy that found the sentence.
    name
        Description of the toy problem, for the error message.
    problem
        Toy problem.
    words
        Words that all models of the problem know.
    result
        Result with the synthetic sentence, its scores and its loss.

    Raises
    ------
    ValidationError
        If the result violates a constraint, reports a wrong or positive loss, contains a word that
        is not permitted, or can still be improved although the search is exhaustive.
    """
    natural_scores, scores = dict[str, float](), dict[str, float]()
    # Score both sentences again, and check the constraints and the reported loss.
    for model_name, model in problem.models_by_name.items():
        natural_scores[model_name] = float(model.score([result.natural])[0])
        scores[model_name] = float(model.score([result.sentence])[0])
    for model_name, minimum in problem.min_scores(natural_scores).items():
        if result.is_changed and not scores[model_name] >= minimum:
            failure = f"has score {scores[model_name]} under {model_name}, below {minimum}"
            raise _failed(strategy, name, result, failure)
    loss = problem.definition.sentence_loss(scores, natural_scores)
    if not abs(loss - result.loss) <= _TOLERANCE or result.loss > 0:
        failure = f"has loss {loss}, but the result reports {result.loss}"
        raise _failed(strategy, name, result, failure)
    # Check the replaced words.
    natural, sentence = Sentence.parse(result.natural), Sentence.parse(result.sentence)
    if not words.permits(natural, sentence, problem.edits):
        failure = "has replacements that the vocabulary or the edits do not permit"
        raise _failed(strategy, name, result, failure)
    # No single word can improve the result of an exhaustive search.
    if strategy.is_exhaustive:
        improvements, _ = find_improvements(result, problem, words)
        if improvements:
            failure = f"is not optimal although the search is exhaustive: {improvements[0]!r}"
            raise _failed(strategy, name, result, f"{failure} is better")
