"""Spans written anew, checked by trying all sentences of a few words."""

import itertools
from collections.abc import Collection

import numpy as np
import pytest
from toy_words import FREE, SIX

from contstim import Accepted, Fall, Floor, LeastFall, Problem, Vocabulary, WordList, synthesize
from contstim.arrays import FloatArray
from contstim.errors import InfeasibleError, InputError
from contstim.models.beginnings import Beginnings, ScoredBeginnings
from contstim.models.toy import TableModel
from contstim.synthesis import infill
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.check import check_strategy
from contstim.synthesis.infill import Infill
from contstim.synthesis.problem import Edits
from contstim.synthesis.sweeps import Search
from contstim.text import Sentence

VOCABULARY = Vocabulary(WordList.of(SIX), WordList.of(SIX), frozenset(SIX[:2]))
STARTS = ["ab cd ef gh", "kl ij, ab ab.", "cd -- gh ef"]
EVERY = 10_000


class Causal(TableModel):
    """A random model that also says what may come next."""

    def beginnings(self, first: WordList, later: WordList) -> Beginnings:
        """Return an empty beginning."""
        return ScoredBeginnings(self, self, (first, later))


class Masked(TableModel):
    """A random model that also completes sentences, with what it was asked."""

    def completions(
        self, sentence: Sentence, position: int, words: WordList, hidden: Collection[int] = ()
    ) -> FloatArray:
        """Return a number for each word, and keep what was hidden."""
        self.asked.append((position, tuple(hidden)))
        return np.arange(len(words)) / -10

    asked: list[tuple[int, tuple[int, ...]]]


@pytest.fixture(autouse=True)
def proposer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model propose that needs no loading."""
    words = [*SIX, *(consonant + vowel for consonant in "bdf" for vowel in "aeiou")]
    model = Causal(words, 99)
    monkeypatch.setattr(infill, "loaded", lambda spec: model)


def _problem(kinds: str = "all", edits: Edits | None = None, seed: int = 1) -> Problem:
    models = [Causal(SIX, seed + k, exact=kinds) for k in range(3)]
    one, two, three = (model.spec for model in models)
    floors = (Accepted(two, 1.0), Floor(three, -0.5, natural=True, per_word=True))
    return Problem(tuple(models), Fall((one,)), floors, edits or Edits())


def _better(problem: Problem, start: str, sentence: str, span: int) -> list[str]:
    """Return what improves a sentence by writing up to `span` neighbouring words anew."""
    proposal = WordReplacement(VOCABULARY, problem.models)
    natural, now = Sentence.parse(start), Sentence.parse(sentence)
    near = []
    for words in itertools.product(*({word, *SIX} for word in now.words)):
        other = Sentence(tuple(words), now.before, now.after)
        changed = Edits.differences(now, other)
        within = changed and max(changed) - min(changed) < span
        if within and proposal.may(natural, other, problem.edits):
            near.append(str(other))
    every = [start, sentence, *near]
    scores = {name: model.score(every) for name, model in problem.by_name.items()}
    before = {name: values[0] for name, values in scores.items()}
    losses = problem.objective.loss(scores, before)
    kept = losses < losses[1] - 1e-6
    for name, least in problem.minima(before, len(natural)).items():
        kept &= scores[name] >= least + 1e-6
    return [text for text, one in zip(every, kept, strict=True) if one]


@pytest.mark.parametrize("kinds", ["all", "none"])
@pytest.mark.parametrize("span", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_result_is_not_improved_by_any_other_span(
    monkeypatch: pytest.MonkeyPatch, kinds: str, span: int, seed: int
) -> None:
    monkeypatch.setattr(infill, "_KEPT", EVERY)
    problem = _problem(kinds, seed=10 * seed)
    strategy = Infill(None, span=span, fillings=EVERY, visits=EVERY)
    for start in STARTS:
        found = synthesize(start, problem=problem, vocabulary=VOCABULARY, strategy=strategy)
        assert found.finished
        assert _better(problem, start, found.sentence, span) == []


@pytest.mark.parametrize(("kinds", "counted"), [("all", False), ("none", True)])
def test_scores_that_are_known_at_once_do_not_count(kinds: str, counted: bool) -> None:
    for start in STARTS:
        found = synthesize(
            start, problem=_problem(kinds), vocabulary=VOCABULARY, strategy=Infill(span=2)
        )
        assert found.steps
        assert all((n > 0) == counted for n in (*found.n_scores, *found.steps[-1].n_scores))


@pytest.mark.parametrize("inputs", [1, 20, 100])
def test_a_limit_on_inputs_holds_for_spans_too(inputs: int) -> None:
    problem, start = _problem("none"), Sentence.parse(STARTS[0])
    search = Search(problem, WordReplacement(VOCABULARY, problem.models), start, seed=0)
    assert not Infill(inputs=inputs, span=2).run(search)
    # A score of a table costs an input.
    assert sum(search.spent.n_scores.values()) <= search.spent.cost <= inputs
    assert inputs == 1 or search.spent.cost > inputs / 2


def test_spans_reach_what_single_words_do_not() -> None:
    losses = {
        span: [
            synthesize(
                start,
                problem=_problem(seed=seed),
                vocabulary=VOCABULARY,
                strategy=Infill(None, span=span, fillings=EVERY),
            ).loss
            for start in STARTS
            for seed in range(8)
        ]
        for span in (1, 3)
    }
    assert np.mean(losses[3]) < np.mean(losses[1]) - 0.5


@pytest.mark.parametrize(
    "edits",
    [
        Edits(most=1),
        Edits(most=2),
        Edits(most=3, fixed=(0,)),
        Edits(most=2, words=((0, ("gh", "kl", "ef")),)),
        Edits(fixed=(2,)),
        Edits(most=2, changed=(3,)),
        Edits(changed=(0, 2), words=((2, ("ij", "cd", "gh")),)),
    ],
    ids=str,
)
@pytest.mark.parametrize("kinds", ["all", "bound", "none"])
def test_constraints_and_edits_are_kept_on_scores_computed_anew(kinds: str, edits: Edits) -> None:
    changed = 0
    for seed, start in itertools.product(range(4), STARTS):
        problem = _problem(kinds, edits, seed)
        proposal = WordReplacement(VOCABULARY, problem.models)
        strategy = Infill(span=3, fillings=8)
        try:
            found = synthesize(start, problem=problem, proposal=proposal, strategy=strategy)
        except InfeasibleError:
            continue
        fresh = {m.spec: Causal(SIX, seed + k) for k, m in enumerate(problem.models)}
        scores = {name: m.score([start, found.sentence]) for name, m in fresh.items()}
        natural = {name: values[0] for name, values in scores.items()}
        for name, least in problem.minima(natural, 4).items():
            assert scores[name][1] >= least - 1e-9
        # What must change changes first, and the loss falls from there.
        assert edits.changed or found.loss <= 0
        assert found.loss == pytest.approx(np.subtract(*scores[problem.names[0]][::-1]), abs=1e-6)
        assert proposal.may(Sentence.parse(start), Sentence.parse(found.sentence), edits)
        changed += found.sentence != start
    assert changed


def test_the_same_seed_gives_the_same_sentence_and_visits_are_limited() -> None:
    problem = _problem()
    for start in STARTS:
        one, two = (
            synthesize(start, problem=problem, vocabulary=VOCABULARY, strategy=Infill(), seed=3)
            for _ in range(2)
        )
        assert one == two
    short = synthesize(STARTS[0], problem=problem, vocabulary=VOCABULARY, strategy=Infill(visits=1))
    assert not short.finished


def test_it_passes_the_checks_of_strategies() -> None:
    check_strategy(Infill())


def test_several_losses_and_one_without_weights() -> None:
    class Own(LeastFall):
        """A loss whose parts are not told."""

        @property
        def parts(self) -> None:  # type: ignore[override] # a loss of another form has None
            """None."""
            return

    models = [Causal(SIX, k) for k in range(2)]
    specs = tuple(model.spec for model in models)
    found = synthesize(
        STARTS[0],
        problem=Problem(tuple(models), Own(specs, (1.0, 1.0))),
        vocabulary=FREE,
        strategy=Infill(),
    )
    assert found.loss < 0


def test_masked_models_propose_with_the_rest_of_the_span_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    masked = Masked(SIX, 5)
    masked.asked = []
    monkeypatch.setattr(infill, "loaded", lambda spec: masked)
    found = synthesize(STARTS[0], problem=_problem(), vocabulary=VOCABULARY, strategy=Infill())
    assert found.loss < 0
    assert {(0, ()), (0, (1,)), (0, (1, 2)), (1, (2, 3)), (3, ())} <= {*masked.asked}


def test_a_model_that_proposes_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infill, "loaded", lambda spec: TableModel(SIX, 5))
    with pytest.raises(InputError, match="proposes no words with both sides in sight"):
        synthesize(STARTS[0], problem=_problem(), vocabulary=VOCABULARY, strategy=Infill())
