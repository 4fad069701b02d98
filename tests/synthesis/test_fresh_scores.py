"""Sampled sentences and those of beam search satisfy all constraints on fresh scores.

Problems of three random models (pairs, sets, floors), edits and seeds are drawn.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_words import LOWER, UPPER, VOCABULARY

from contstim import synthesize
from contstim.models.prefixes import Prefixes, PrefixModel, ScoredPrefixes
from contstim.models.toy import RandomBigramModel
from contstim.synthesis import sample
from contstim.synthesis.beam import Beam
from contstim.synthesis.beam_search import BeamSearch
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import MinScore, Problem
from contstim.synthesis.sample import GuidedSampling
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence, WordList

NATURAL = ["The dog saw the cat.", "Big fish ate the man.", "Dog ran."]
POSITIONS = st.sets(st.integers(0, 1), max_size=1)


class Causal(RandomBigramModel, PrefixModel):
    """A random model that also says what may come next, and that no prompt changes."""

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes:
        """Return an empty beginning."""
        return ScoredPrefixes(self, self, (first, later))

    def with_context(self, text: str) -> PrefixModel:
        """Return the model itself."""
        return self


MODELS = [Causal([*LOWER, *UPPER], seed) for seed in range(4)]
WRITER = MODELS.pop()
SAMPLING = GuidedSampling(
    max_samples=24, batch_size=8, min_end_probability=0.0, min_p=0.0, n_prompts=0
)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Return a problem of a pair or of sets, with or without a bound."""
    one, two, three = draw(st.permutations(MODELS))
    margin = draw(st.sampled_from([0.0, 0.5, 99.0]))
    reject = draw(st.sampled_from([(one,), (one, two)]))
    bounds = ()
    if draw(st.booleans()):
        bounds = (MinScore(two.spec, draw(st.sampled_from([-4.0, -20.0])), draw(st.booleans())),)
    scales = (1.0, 2.0) if len(reject) > 1 else ()
    return Problem(reject, (three,), margin, bounds, scales=scales, bound_models=(two,))


@pytest.mark.parametrize("strategy", [SAMPLING, Beam(width=6)], ids=["sample", "beam"])
def test_fresh_scores_satisfy_all_constraints(strategy: GuidedSampling | Beam) -> None:
    n_changed = 0

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(problems(), st.sampled_from(NATURAL), st.integers(0, 3))
    def check(problem: Problem, natural: str, seed: int) -> None:
        nonlocal n_changed

        def written() -> str:
            return synthesize(
                natural, problem=problem, vocabulary=VOCABULARY, strategy=strategy, seed=seed
            ).sentence

        sentence = written()
        assert written() == sentence
        n_changed += sentence != natural
        before, after = Sentence.parse(natural), Sentence.parse(sentence)
        assert (after.before, after.after) == (before.before, before.after)
        new = Edits.changed_positions(before, after)
        for p in new:
            assert after.words[p] in (UPPER if p == 0 else LOWER)
            if after.words[p].casefold() not in VOCABULARY.repeatable:
                assert [w.casefold() for w in after.words].count(after.words[p].casefold()) == 1
        if not new:
            return
        scores = {name: m.score([natural, sentence]) for name, m in problem.models_by_name.items()}
        for constraint in problem.definition.constraints:
            then, now = scores[constraint.model]
            assert now >= constraint.minimum(then)
        then, now = ({name: own[i] for name, own in scores.items()} for i in (0, 1))
        assert problem.definition.sentence_loss(now, then) < 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "load_cached_model", lambda spec: WRITER)
        check()
    assert n_changed > 5


def test_prefix_scores_equal_scores_of_written_sentences() -> None:
    # Sentences written by one side only, then scored under a model that had no part in it.
    problem = Problem((MODELS[0],), (MODELS[1],))
    proposal = SharedVocabulary(VOCABULARY, tuple(MODELS))
    beam = BeamSearch.from_search(Search(problem, proposal, Sentence.parse(NATURAL[1]), 0))
    drafts = [str(sentence) for sentence in beam.run_pass(6, np.zeros(1))[0]]
    assert drafts
    for model in MODELS:
        begun = model.empty_prefix(*(proposal.words_at(Sentence.parse("a a"), p) for p in (0, 1)))
        for sentence in drafts:
            here, total = begun, 0.0
            for word in Sentence.parse(sentence).words:
                index = np.array([here.next_words.index[word]])
                total += float(here.log_probs(np.zeros(1, int), index)[0])
                here = here.extend(np.zeros(1, int), index)
            total += float(here.end_log_probs(".")[0])
            assert total == pytest.approx(float(model.score([sentence])[0]))
