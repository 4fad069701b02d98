"""Limits on what may change, checked by trying all sentences of a few words."""

import itertools

import numpy as np
import pytest
from toy_words import SIX

from contstim import Accepted, Fall, Problem, Synthesis, Vocabulary, WordList, synthesize
from contstim.errors import InfeasibleError, InputError
from contstim.models.toy import TableModel
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.problem import Edits
from contstim.synthesis.sweeps import Search
from contstim.text import Sentence

VOCABULARY = Vocabulary(WordList.of(SIX), WordList.of(SIX), frozenset(SIX[:2]))
STARTS = ["ab cd ef gh", "kl ij ab ab", "cd kl gh ef"]
EDITS = [
    Edits(most=1),
    Edits(most=2),
    Edits(most=3, fixed=(0,)),
    Edits(most=1, words=((1, ("gh", "kl", "ef")),)),
    Edits(fixed=(1, 2)),
    Edits(most=2, changed=(3,)),
    Edits(changed=(0, 2), words=((2, ("ij", "cd", "gh")),)),
]


def _problem(kinds: str, edits: Edits, margin: float = 0.0) -> Problem:
    reject, accept = (TableModel(SIX, seed, exact=kinds) for seed in (1, 2))
    constraints = (Accepted(accept.spec, margin),)
    return Problem((reject, accept), Fall((reject.spec,)), constraints, edits)


def _reachable(start: str, edits: Edits) -> list[str]:
    """Return every sentence that the edits and the vocabulary allow, by its definition."""
    natural = start.split()
    lists = dict(edits.words)
    found = []
    for words in itertools.product(*({old, *SIX} for old in natural)):
        changed = [p for p, word in enumerate(words) if word != natural[p]]
        if edits.most is not None and len(changed) > edits.most:
            continue
        if set(changed) & set(edits.fixed) or set(edits.changed) - set(changed):
            continue
        if any(words[p] not in lists.get(p, SIX) for p in changed):
            continue
        if any(words[p] not in SIX[:2] and words.count(words[p]) > 1 for p in changed):
            continue
        found.append(" ".join(words))
    return found


def _neighbours(start: str, sentence: str, edits: Edits) -> list[str]:
    """Return what one replacement reaches, or one with another taken back where none is left."""
    words, natural = sentence.split(), start.split()
    changed = sum(map(str.__ne__, words, natural))
    near = []
    for other in _reachable(start, edits):
        new = other.split()
        moved = [p for p, word in enumerate(new) if word != words[p]]
        back = [p for p in moved if new[p] == natural[p]]
        if len(moved) == 1 or (len(moved) == 2 and len(back) == 1 and changed == edits.most):
            near.append(other)
    return near


def _feasible(problem: Problem, start: str, sentences: list[str]) -> dict[str, float]:
    """Return those of some sentences that keep the constraints, with their losses."""
    reject, accept = problem.models
    (constraint,) = problem.constraints
    least = constraint.minimum(accept.score([start])[0], len(start.split()))
    scores, accepted = reject.score(sentences), accept.score(sentences)
    before = reject.score([start])[0]
    return {
        text: score - before
        for text, score, a in zip(sentences, scores, accepted, strict=True)
        if a >= least
    }


@pytest.mark.parametrize("edits", EDITS)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kinds", ["all", "bound", "none"])
@pytest.mark.parametrize("strategy", ["exhaustive", "bounded", "beam"])
def test_edits_hold_and_no_allowed_move_improves(
    edits: Edits, start: str, kinds: str, strategy: str
) -> None:
    problem = _problem(kinds, edits, margin=3.0)
    all_ = _feasible(problem, start, _reachable(start, edits))
    found = synthesize(start, problem=problem, vocabulary=VOCABULARY, strategy=strategy)
    assert found.sentence in all_ or (found.sentence == start and not edits.changed)
    assert found.loss == pytest.approx(all_[found.sentence])
    if strategy == "exhaustive":
        near = _feasible(problem, start, _neighbours(start, found.sentence, edits))
        assert min(near.values(), default=np.inf) >= found.loss - 1e-9
        if edits.most == 1:
            assert found.loss == pytest.approx(min(all_.values()))


def test_the_limit_of_edits_bites() -> None:
    losses = [
        synthesize(
            STARTS[0], problem=_problem("all", edits), vocabulary=VOCABULARY, strategy="exhaustive"
        ).loss
        for edits in (Edits(most=1), Edits(most=2), Edits())
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[1] > losses[2]


def test_what_must_change_changes_even_where_the_loss_rises() -> None:
    def found(edits: Edits) -> Synthesis:
        problem = _problem("all", edits)
        return synthesize(start, problem=problem, vocabulary=VOCABULARY, strategy="exhaustive")

    rose = 0
    for start in map(" ".join, itertools.permutations(SIX[:5], 4)):
        edits = Edits(most=1, changed=(1,))
        all_ = _feasible(_problem("all", edits), start, _reachable(start, edits))
        if not all_:
            with pytest.raises(InfeasibleError, match="no sentence was found that changes what"):
                found(edits)
            continue
        assert found(edits).loss == pytest.approx(min(all_.values()))
        rose += found(edits).loss > 0
    assert rose > 0


@pytest.mark.parametrize("changed", [(1,), (1, 2), (4, 3), (0, 1), (1, 4)])
def test_what_must_change_agrees_with_its_neighbours(changed: tuple[int, ...]) -> None:
    words = ["a", "an", "dog", "apple", "owl", "sees", "eats", "cat", "insect", "the"]
    models = [TableModel(words, seed, exact="all") for seed in range(8)]
    lists = Vocabulary(WordList.of(words), WordList.of(words), frozenset(words))
    start = Sentence.parse("a dog sees an owl.")
    for accept in models[1:]:
        problem = Problem(
            (models[0], accept),
            Fall((models[0].name,)),
            (Accepted(accept.name, 20.0),),
            Edits(changed=changed, agree=True),
        )
        search = Search(problem, WordReplacement(lists, problem.models), start, seed=0)
        assert not search.sentence.disagreements
        assert Edits.differences(start, search.sentence) >= {*changed}


def test_no_word_that_must_change_may_stand_beside_its_neighbours() -> None:
    edits = Edits(changed=(1,), fixed=(0,), words=((1, ("apple", "owl")),), agree=True)
    words = ["a", "dog", "apple", "owl", "sees"]
    reject, accept = (TableModel(words, seed, exact="all") for seed in (1, 2))
    problem = Problem((reject, accept), Fall((reject.name,)), (Accepted(accept.name, 50.0),), edits)
    lists = Vocabulary(WordList.of(words), WordList.of(words), frozenset())
    with pytest.raises(InfeasibleError) as error:
        synthesize("a dog sees.", problem=problem, vocabulary=lists)
    assert str(error.value) == (
        "position 1 of 'a dog sees.' is to be changed, but no other word may stand there; allow "
        "more words"
    )


def test_words_taken_at_once() -> None:
    problem = _problem("all", Edits(most=2, fixed=(3,)))
    proposal = WordReplacement(VOCABULARY, problem.models)
    start = Sentence.parse(STARTS[0])
    all_ = _feasible(problem, STARTS[0], _reachable(STARTS[0], problem.edits))
    best = min(all_, key=all_.__getitem__)
    search = Search(problem, proposal, start, seed=0)
    for text in ("ij kl gh gh", "gh cd ef gh", "ab cd ef ij", "zz cd ef gh"):
        assert not search.may(Sentence.parse(text))
        assert not search.take(Sentence.parse(text))
    assert search.sentence == start
    assert search.take(Sentence.parse(best))
    assert str(search.sentence) == best
    assert len(search.steps) == 2
    assert search.loss(search.now) - search.loss(search.natural) == pytest.approx(all_[best])
    assert {step.scores for step in search.steps} == {tuple(search.now.values())}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fixed": (-1,)}, "position -1 (fixed) is negative; count from 0"),
        ({"changed": (1, 1)}, "position 1 is given twice as to be changed; once will do"),
        (
            {"fixed": (1,), "changed": (1,)},
            "position 1 is both fixed and to be changed; choose one",
        ),
        (
            {"most": 1, "changed": (0, 2)},
            "at most 1 words may change, but 2 must; allow more",
        ),
        ({"most": 0}, "at most 0 words may change, but 1 must; allow more"),
        (
            {"words": ((1, ()),)},
            "the words for position 1 hold ''; list words without white space or the punctuation "
            "around them",
        ),
    ],
)
def test_edits_that_contradict_themselves(values: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError) as error:
        Edits(**values)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            Edits(fixed=(4,)),
            "position 4 (fixed) is beyond the end of 'ab cd ef gh'; its 4 words have positions 0 "
            "to 3",
        ),
        (
            Edits(fixed=(0, 1, 2, 3)),
            "every word of 'ab cd ef gh' is fixed; let one change",
        ),
        (
            Edits(changed=(1,), words=((1, ("cd",)),)),
            "position 1 of 'ab cd ef gh' is to be changed, but no other word may stand there; "
            "allow more words",
        ),
        (
            Edits(words=((1, ("zz",)),)),
            "none of the 1 words listed for position 1 is known to table:1?exact=all and "
            "table:2?exact=all with the punctuation of 'cd'; list words they know",
        ),
    ],
)
def test_edits_that_a_sentence_cannot_meet(edits: Edits, message: str) -> None:
    with pytest.raises((InputError, InfeasibleError)) as error:
        synthesize(STARTS[0], problem=_problem("all", edits), vocabulary=VOCABULARY)
    assert str(error.value) == message


def test_a_constraint_that_the_natural_sentence_breaks() -> None:
    problem = _problem("all", Edits(), margin=-2.5)
    with pytest.raises(InfeasibleError) as error:
        synthesize(STARTS[0], problem=problem, vocabulary=VOCABULARY)
    assert str(error.value) == (
        "the natural sentence 'ab cd ef gh' breaks table:2?exact=all>=natural+2.5 by 2.5; ask for "
        "less, or leave the sentence out"
    )
