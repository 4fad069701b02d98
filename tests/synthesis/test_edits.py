"""Limits on edits, compared with all sentences of a small vocabulary.

Tests `contstim.synthesis.edits` and `contstim.synthesis.required_edits`.
"""

import itertools

import numpy as np
import pytest
from toy_words import SIX

from contstim import Problem, SynthesisResult, Vocabulary, WordList, synthesize
from contstim.errors import InfeasibleError, InputError
from contstim.models.toy import RandomBigramModel
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.edits import Edits
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence

VOCABULARY = Vocabulary(WordList.from_words(SIX), WordList.from_words(SIX), frozenset(SIX[:2]))
STARTS = ["ab cd ef gh", "kl ij ab ab", "cd kl gh ef"]
EDITS = [
    Edits(max_changes=1),
    Edits(max_changes=2),
    Edits(max_changes=3, fixed=(0,)),
    Edits(max_changes=1, words=((1, ("gh", "kl", "ef")),)),
    Edits(fixed=(1, 2)),
    Edits(max_changes=2, changed=(3,)),
    Edits(changed=(0, 2), words=((2, ("ij", "cd", "gh")),)),
]


def _problem(kinds: str, edits: Edits, margin: float = 0.0) -> Problem:
    reject, accept = (RandomBigramModel(SIX, seed, exact=kinds) for seed in (1, 2))
    return Problem((reject,), (accept,), margin, edits=edits)


def _reachable(start: str, edits: Edits) -> list[str]:
    """Return every sentence that the edits and the vocabulary allow, by its definition."""
    natural = start.split()
    lists = dict(edits.words)
    found = []
    for words in itertools.product(*({old, *SIX} for old in natural)):
        changed = [p for p, word in enumerate(words) if word != natural[p]]
        if edits.max_changes is not None and len(changed) > edits.max_changes:
            continue
        if set(changed) & set(edits.fixed) or set(edits.changed) - set(changed):
            continue
        if any(words[p] not in lists.get(p, SIX) for p in {*changed, *lists}):
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
        if len(moved) == 1 or (len(moved) == 2 and len(back) == 1 and changed == edits.max_changes):
            near.append(other)
    return near


def _feasible(problem: Problem, start: str, sentences: list[str]) -> dict[str, float]:
    """Return those of some sentences that keep the constraints, with their losses."""
    (reject,), (accept,) = problem.reject, problem.accept
    (constraint,) = problem.definition.constraints
    least = constraint.minimum(accept.score([start])[0])
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
@pytest.mark.parametrize("strategy", ["edit?candidates=all", "edit"])
def test_result_satisfies_edits_and_is_a_local_optimum(
    edits: Edits, start: str, kinds: str, strategy: str
) -> None:
    problem = _problem(kinds, edits, margin=3.0)
    all_ = _feasible(problem, start, _reachable(start, edits))
    found = synthesize(start, problem=problem, vocabulary=VOCABULARY, strategy=strategy)
    assert found.sentence in all_ or (found.sentence == start and not edits.changed)
    assert found.loss == pytest.approx(all_[found.sentence])
    if strategy == "edit?candidates=all":
        near = _feasible(problem, start, _neighbours(start, found.sentence, edits))
        assert min(near.values(), default=np.inf) >= found.loss - 1e-9
        if edits.max_changes == 1:
            assert found.loss == pytest.approx(min(all_.values()))


def test_loss_increases_with_tighter_max_changes() -> None:
    losses = [
        synthesize(
            STARTS[0],
            problem=_problem("all", edits),
            vocabulary=VOCABULARY,
            strategy="edit?candidates=all",
        ).loss
        for edits in (Edits(max_changes=1), Edits(max_changes=2), Edits())
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[1] > losses[2]


def test_required_changes_are_made_at_a_higher_loss() -> None:
    def found(edits: Edits) -> SynthesisResult:
        problem = _problem("all", edits)
        return synthesize(
            start, problem=problem, vocabulary=VOCABULARY, strategy="edit?candidates=all"
        )

    rose = 0
    for start in map(" ".join, itertools.permutations(SIX[:5], 4)):
        edits = Edits(max_changes=1, changed=(1,))
        all_ = _feasible(_problem("all", edits), start, _reachable(start, edits))
        if not all_:
            with pytest.raises(
                InfeasibleError, match="no sentence was found that makes the required"
            ):
                found(edits)
            continue
        assert found(edits).loss == pytest.approx(min(all_.values()))
        rose += found(edits).loss > 0
    assert rose > 0


@pytest.mark.parametrize("changed", [(1,), (1, 2), (4, 3), (0, 1), (1, 4)])
def test_required_changes_satisfy_agreement(changed: tuple[int, ...]) -> None:
    words = ["a", "an", "dog", "apple", "owl", "sees", "eats", "cat", "insect", "the"]
    models = [RandomBigramModel(words, seed, exact="all") for seed in range(8)]
    lists = Vocabulary(WordList.from_words(words), WordList.from_words(words), frozenset(words))
    start = Sentence.parse("a dog sees an owl.")
    for accept in models[1:]:
        edits = Edits(changed=changed, adjacent_agreement=True)
        problem = Problem((models[0],), (accept,), 20.0, edits=edits)
        search = Search(problem, SharedVocabulary(lists, (models[0], accept)), start, seed=0)
        assert not search.sentence.agreement_errors
        assert Edits.changed_positions(start, search.sentence) >= {*changed}


def test_unsatisfiable_agreement_of_a_change_is_reported() -> None:
    edits = Edits(changed=(1,), fixed=(0,), words=((1, ("apple", "owl")),), adjacent_agreement=True)
    words = ["a", "dog", "apple", "owl", "sees"]
    reject, accept = (RandomBigramModel(words, seed, exact="all") for seed in (1, 2))
    problem = Problem((reject,), (accept,), 50.0, edits=edits)
    lists = Vocabulary(WordList.from_words(words), WordList.from_words(words), frozenset())
    with pytest.raises(InfeasibleError) as error:
        synthesize("a dog sees.", problem=problem, vocabulary=lists)
    assert str(error.value) == (
        "position 1 of 'a dog sees.' must change, but no other word is allowed there; allow "
        "more words"
    )


def test_several_words_are_replaced_together() -> None:
    problem = _problem("all", Edits(max_changes=2, fixed=(3,)))
    proposal = SharedVocabulary(VOCABULARY, tuple(problem.models_by_name.values()))
    start = Sentence.parse(STARTS[0])
    all_ = _feasible(problem, STARTS[0], _reachable(STARTS[0], problem.edits))
    best = min(all_, key=all_.__getitem__)
    search = Search(problem, proposal, start, seed=0)
    for text in ("ij kl gh gh", "gh cd ef gh", "ab cd ef ij", "zz cd ef gh"):
        assert not search.permits(Sentence.parse(text))
        assert not search.accept(Sentence.parse(text))
    assert search.sentence == start
    assert search.accept(Sentence.parse(best))
    assert str(search.sentence) == best
    assert len(search.steps) == 2
    assert search.loss(search.current_scores) - search.loss(search.natural_scores) == pytest.approx(
        all_[best]
    )
    assert {step.scores for step in search.steps} == {tuple(search.current_scores.values())}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fixed": (-1,)}, "position -1 (fixed) is negative; count from 0"),
        ({"changed": (1, 1)}, "position 1 occurs twice (to be changed); give it once"),
        (
            {"fixed": (1,), "changed": (1,)},
            "position 1 is both fixed and to be changed; choose one",
        ),
        (
            {"max_changes": 1, "changed": (0, 2)},
            "max_changes is 1, but 2 words must change; allow more changes",
        ),
        ({"max_changes": 0}, "max_changes is 0, but 1 words must change; allow more changes"),
        (
            {"words": ((1, ()),)},
            "the words for position 1 include ''; list words without white space and "
            "surrounding punctuation",
        ),
    ],
)
def test_contradictory_edits_are_rejected(values: dict[str, tuple[int, ...]], message: str) -> None:
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
            "the edits allow no word of 'ab cd ef gh' to change; relax them, or leave the "
            "sentence out",
        ),
        (
            Edits(changed=(1,), words=((1, ("cd",)),)),
            "position 1 of 'ab cd ef gh' must change, but no other word is allowed there; "
            "allow more words",
        ),
        (
            Edits(words=((1, ("zz",)),)),
            "none of the 1 words listed for position 1 is known to table:1?exact=all and "
            "table:2?exact=all with the punctuation of 'cd'; list words they know",
        ),
    ],
)
def test_edits_infeasible_for_a_sentence_are_rejected(edits: Edits, message: str) -> None:
    with pytest.raises((InputError, InfeasibleError)) as error:
        synthesize(STARTS[0], problem=_problem("all", edits), vocabulary=VOCABULARY)
    assert str(error.value) == message


def test_natural_words_outside_the_list_are_replaced() -> None:
    changed = 0
    for start, word in itertools.product(STARTS, SIX):
        if word in start.split():
            continue
        edits = Edits(words=((1, (word,)),))
        all_ = _feasible(_problem("all", edits, 30.0), start, _reachable(start, edits))
        if not all_:
            continue
        found = synthesize(start, problem=_problem("all", edits, 30.0), vocabulary=VOCABULARY)
        assert found.sentence.split()[1] == word
        assert found.sentence in all_
        changed += 1
    assert changed > 2
    problem = _problem("all", Edits(max_changes=1, words=((0, ("gh",)), (1, ("kl",)))))
    with pytest.raises(InfeasibleError, match="at most 1 words of 'ab cd ef gh' may change, but 2"):
        synthesize(STARTS[0], problem=problem, vocabulary=VOCABULARY)


@pytest.mark.parametrize(
    "text",
    [
        "max=3,fixed=0+2,changed=1,agreement,same-tokens,same-class",
        "words=1:dog+cat,words=0:The",
        "",
    ],
)
def test_edits_round_trip_as_text(text: str) -> None:
    assert str(Edits.parse(text)) == text
    assert Edits.parse(str(Edits.parse(text))) == Edits.parse(text)


@pytest.mark.parametrize(
    "text", ["max", "max=-1", "fixed=a", "words=dog", "samples", "fixed=1,fixed=2", "same-class=1"]
)
def test_invalid_edit_texts_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match=r"is not a limit on edits; write|set fixed twice"):
        Edits.parse(text)


def test_invisible_direction_marks_are_refused() -> None:
    with pytest.raises(InputError, match=r"include 'c\\u200fat', which contains an invisible"):
        Edits(words=((1, ("c\u200fat",)),))


def test_same_kind_limits_replacements_to_a_word_class() -> None:
    words = Vocabulary(
        WordList.from_words(SIX),
        WordList.from_words(SIX),
        frozenset(),
        tags=dict.fromkeys(SIX[:4], ("NN",)),
    )
    reject, accept = (RandomBigramModel(SIX, seed, exact="all") for seed in (1, 2))
    problem = Problem((reject,), (accept,), 30.0, edits=Edits(same_kind="tag"))
    found = synthesize("ab cd ij", problem=problem, vocabulary=words)
    assert found.is_changed
    # The last word has no tag and stays; the others are replaced by words that have one.
    assert found.sentence.split()[2] == "ij"
    assert {*found.sentence.split()[:2]} <= {*SIX[:4]}
