"""What is written from the left keeps every constraint on scores computed afresh.

Problems of three random models (pairs, sets, floors), edits and seeds are drawn.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_words import LOWER, UPPER, VOCABULARY

from contstim import Accepted, Fall, Floor, LeastFall, Problem, synthesize
from contstim.errors import InfeasibleError
from contstim.models.base import SentenceModel
from contstim.models.beginnings import Beginnings, ScoredBeginnings
from contstim.models.toy import TableModel
from contstim.synthesis import fluent
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.fluent import Fluent
from contstim.synthesis.leftward import Leftward, Walk
from contstim.synthesis.problem import Edits
from contstim.synthesis.sweeps import Search
from contstim.text import Sentence, WordList

NATURAL = ["The dog saw the cat.", "Big fish ate the man.", "Dog ran."]
POSITIONS = st.sets(st.integers(0, 1), max_size=1)


class Causal(TableModel):
    """A random model that also says what may come next, and that no prompt changes."""

    def beginnings(self, first: WordList, later: WordList) -> Beginnings:
        """Return an empty beginning."""
        return ScoredBeginnings(self, self, (first, later))

    def after(self, prompt: str) -> SentenceModel:
        """Return the model itself."""
        return self


MODELS = [Causal([*LOWER, *UPPER], seed) for seed in range(4)]
WRITER = MODELS.pop()
FLUENT = Fluent(begun=24, rows=8, ends=0.0, least=0.0, prompt=0)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Return a problem of a pair or of sets, with or without floors and edits."""
    one, two, three = (model.spec for model in draw(st.permutations(MODELS)))
    margin = draw(st.sampled_from([0.0, 0.5, 99.0]))
    rejecting = draw(st.sampled_from([Fall((one,)), LeastFall((one, two), (1.0, 2.0))]))
    accepted = [Accepted(three, margin)]
    if two not in rejecting.models and draw(st.booleans()):
        accepted.append(Accepted(two, 1.0))
    elif draw(st.booleans()):
        per_word, natural = draw(st.booleans()), draw(st.booleans())
        accepted.append(Floor(two, -1.0, natural=natural, per_word=per_word))
    fixed = draw(POSITIONS)
    listed = draw(st.lists(st.sampled_from(LOWER), min_size=2, max_size=4, unique=True))
    words = ((1, tuple(listed)),) if 1 not in fixed and draw(st.booleans()) else ()
    changed = (1,) if 1 not in fixed and draw(st.booleans()) else ()
    most = draw(st.sampled_from([None, max(1, len(changed)), 2]))
    edits = Edits(most, tuple(fixed), changed, words)
    names = {*rejecting.models, *(constraint.model for constraint in accepted)}
    return Problem(tuple(m for m in MODELS if m.spec in names), rejecting, tuple(accepted), edits)


@pytest.mark.parametrize("strategy", [FLUENT, Leftward(width=6)], ids=["fluent", "leftward"])
def test_all_that_is_wanted_is_kept_afresh(strategy: Fluent | Leftward) -> None:
    n_changed = 0

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(problems(), st.sampled_from(NATURAL), st.integers(0, 3))
    def check(problem: Problem, natural: str, seed: int) -> None:
        nonlocal n_changed

        def written() -> str:
            return synthesize(
                natural, problem=problem, vocabulary=VOCABULARY, strategy=strategy, seed=seed
            ).sentence

        try:
            sentence = written()
        except InfeasibleError:  # what must change cannot
            assert problem.edits.changed
            return
        assert written() == sentence
        n_changed += sentence != natural
        before, after = Sentence.parse(natural), Sentence.parse(sentence)
        assert (after.before, after.after) == (before.before, before.after)
        assert problem.edits.kept(before, after)
        lists, new = dict(problem.edits.words), Edits.differences(before, after)
        for p in new:
            usual = UPPER if p == 0 else LOWER
            assert after.words[p] in lists.get(p, usual)
            if after.words[p].casefold() not in VOCABULARY.repeatable:
                assert [w.casefold() for w in after.words].count(after.words[p].casefold()) == 1
        if not new:
            return
        scores = {m.spec: m.score([natural, sentence]) for m in problem.models}
        for constraint in problem.constraints:
            then, now = scores[constraint.model]
            assert now >= constraint.minimum(then, len(before))
        then, now = ({name: own[i] for name, own in scores.items()} for i in (0, 1))
        # What must change has changed before anything is searched, whatever it costs.
        loss = problem.objective.of_one(now, then) - problem.objective.of_one(then, then)
        assert problem.edits.changed or loss < 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fluent, "loaded", lambda spec: WRITER)
        check()
    assert n_changed > 5


def test_scored_later_is_scored_along_the_way() -> None:
    # Sentences written by one side only, then scored under a model that had no part in it.
    problem = Problem.pair(MODELS[0], MODELS[1])
    proposal = WordReplacement(VOCABULARY, tuple(MODELS))
    walk = Walk.of(Search(problem, proposal, Sentence.parse(NATURAL[1]), 0), Leftward())
    assert walk is not None
    drafts = [str(sentence) for sentence in walk.written(6)[0]]
    assert drafts
    for model in MODELS:
        begun = model.beginnings(*(proposal.words(Sentence.parse("a a"), p) for p in (0, 1)))
        for sentence in drafts:
            here, total = begun, 0.0
            for word in Sentence.parse(sentence).words:
                index = np.array([here.words.index[word]])
                total += float(here.log_probs(np.zeros(1, int), index)[0])
                here = here.followed_by(np.zeros(1, int), index)
            total += float(here.ends(".")[0])
            assert total == pytest.approx(float(model.score([sentence])[0]))
