import numpy as np
import pytest
from tables import TableModel

from contstim.errors import InputError, UnknownNameError, UnknownWordError
from contstim.synthesis.search import Synthesis, synthesize
from contstim.synthesis.strategies import Bounded
from contstim.text import Sentence, WordList
from contstim.vocabulary import Vocabulary

LOWER = ["the", "dog", "saw", "cat", "ran", "home", "red", "big", "man", "of", "ate", "fish"]
UPPER = ["The", "Dog", "Big", "Red"]
VOCABULARY = Vocabulary(WordList.of(UPPER), WordList.of(LOWER), frozenset({"the", "of"}))
NATURAL = "The dog saw the big cat."
STRATEGIES = ["exhaustive", "first-improvement", "bounded"]


def _models(seed: int, exact: tuple[str, str] = ("all", "all")) -> tuple[TableModel, TableModel]:
    words = [*LOWER, *UPPER]
    return (
        TableModel(words, 2 * seed, exact=exact[0]),
        TableModel(words, 2 * seed + 1, exact=exact[1]),
    )


def _improvements(result: Synthesis, reject: TableModel, accept: TableModel) -> list[str]:
    """All single replacements, written out, that keep the constraint and lower the loss."""
    sentence = Sentence.parse(result.sentence)
    better = []
    for position in range(len(sentence)):
        others = [w.lower() for i, w in enumerate(sentence.words) if i != position]
        for word in UPPER if position == 0 else LOWER:
            if word.lower() in others and word.lower() not in {"the", "of"}:
                continue
            text = str(sentence.replace(position, word))
            if (
                accept.score([text])[0] >= accept.score([result.natural])[0]
                and reject.score([text])[0] < result.reject_log_prob - 1e-9
            ):
                better.append(text)
    return better


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "exact", [("all", "all"), ("bound", "all"), ("all", "bound"), ("none", "none")]
)
@pytest.mark.parametrize("seed", range(3))
def test_the_result_keeps_the_constraint_when_scored_afresh(
    strategy: str, exact: tuple[str, str], seed: int
) -> None:
    reject, accept = _models(seed, exact)
    result = synthesize(
        NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy=strategy, seed=seed
    )
    assert accept.score([result.sentence])[0] >= accept.score([NATURAL])[0]
    assert reject.score([result.sentence])[0] == result.reject_log_prob
    assert result.loss == result.reject_log_prob - reject.score([NATURAL])[0]
    assert result.loss < 0
    words = [w.lower() for w in Sentence.parse(result.sentence).words]
    repeated = {w for w in words if words.count(w) > 1}
    assert repeated <= {"the", "of"}


@pytest.mark.parametrize("strategy", ["exhaustive", "first-improvement"])
@pytest.mark.parametrize(
    "exact", [("all", "all"), ("bound", "all"), ("all", "bound"), ("bound", "bound")]
)
@pytest.mark.parametrize("seed", range(4))
def test_no_single_replacement_improves_the_result(
    strategy: str, exact: tuple[str, str], seed: int
) -> None:
    reject, accept = _models(seed, exact)
    result = synthesize(
        NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy=strategy, seed=seed
    )
    assert _improvements(result, reject, accept) == []


def test_exhaustive_always_takes_the_best_word_at_a_position() -> None:
    reject, accept = _models(7)
    result = synthesize(NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY)
    first = result.steps[0]
    sentence = Sentence.parse(NATURAL)
    others = [w.lower() for i, w in enumerate(sentence.words) if i != first.position]
    candidates = [
        str(sentence.replace(first.position, word))
        for word in (UPPER if first.position == 0 else LOWER)
        if word.lower() not in others or word.lower() in {"the", "of"}
    ]
    feasible = [t for t in candidates if accept.score([t])[0] >= accept.score([NATURAL])[0]]
    assert first.reject_log_prob == min(reject.score([t])[0] for t in feasible)


def test_the_exhaustive_result_does_not_depend_on_what_is_known_at_once() -> None:
    results = {
        synthesize(
            NATURAL,
            reject=_models(3, exact)[0],
            accept=_models(3, exact)[1],
            vocabulary=VOCABULARY,
            seed=1,
        ).reject_log_prob
        for exact in [("all", "all")]
    }
    for exact in [("bound", "all"), ("all", "bound"), ("none", "none")]:
        # The spec names the kind of table, and chance depends on the spec: give both one name.
        reject, accept = _models(3, exact)
        plain_reject, plain_accept = _models(3)
        reject._spec = plain_reject._spec
        accept._spec = plain_accept._spec
        found = synthesize(NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, seed=1)
        results.add(found.reject_log_prob)
    assert len(results) == 1


def test_history_leads_from_the_natural_sentence_to_the_result() -> None:
    reject, accept = _models(5)
    result = synthesize(NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, seed=3)
    sentence = Sentence.parse(NATURAL)
    falling = [result.natural_reject_log_prob]
    for step in result.steps:
        assert sentence.words[step.position] == step.old
        sentence = sentence.replace(step.position, step.new)
        assert reject.score([str(sentence)])[0] == step.reject_log_prob
        assert accept.score([str(sentence)])[0] == step.accept_log_prob
        falling.append(step.reject_log_prob)
    assert str(sentence) == result.sentence
    assert np.all(np.diff(falling) < 0)


def test_the_same_seed_gives_the_same_sentence_and_another_attempt_another_order() -> None:
    reject, accept = _models(2)

    def run(seed: int, attempt: int) -> Synthesis:
        return synthesize(
            NATURAL,
            reject=reject,
            accept=accept,
            vocabulary=VOCABULARY,
            seed=seed,
            attempt=attempt,
        )

    assert run(4, 0) == run(4, 0)
    orders = {tuple(s.position for s in run(4, attempt).steps) for attempt in range(5)}
    assert len(orders) > 1


def test_a_budget_bounds_the_exact_scores_asked_for() -> None:
    reject, accept = _models(1, ("bound", "bound"))
    small = synthesize(
        NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy=Bounded(2)
    )
    large = synthesize(
        NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy="exhaustive"
    )
    visits = 6 * (1 + len(small.steps))
    assert small.n_scores[1] <= 2 * visits
    assert sum(small.n_scores) < sum(large.n_scores)


def test_dashes_stay_and_punctuation_is_kept() -> None:
    reject, accept = _models(6)
    result = synthesize(
        "The dog -- ran, saw the cat!", reject=reject, accept=accept, vocabulary=VOCABULARY
    )
    words = result.sentence.split()
    assert words[2] == "--"
    assert words[3].endswith(",")
    assert words[-1].endswith("!")


def test_bad_input() -> None:
    reject, accept = _models(0)
    with pytest.raises(InputError) as error:
        synthesize("Dog.", reject=reject, accept=accept, vocabulary=VOCABULARY)
    assert str(error.value) == (
        "a sentence to start from needs at least two words, got 'Dog.'; leave it out"
    )
    with pytest.raises(UnknownWordError, match="does not know 'zebra' in 'The zebra ran.'"):
        synthesize("The zebra ran.", reject=reject, accept=accept, vocabulary=VOCABULARY)
    with pytest.raises(UnknownNameError) as name:
        synthesize(
            NATURAL, reject=reject, accept=accept, vocabulary=VOCABULARY, strategy="exhaustiv"
        )
    assert str(name.value) == "unknown strategy 'exhaustiv'; did you mean 'exhaustive'?"
    foreign = Vocabulary(WordList.of(["El"]), WordList.of(["perro"]), frozenset())
    with pytest.raises(InputError, match="none of the 1 words allowed .* is known to table:0"):
        synthesize(NATURAL, reject=reject, accept=accept, vocabulary=foreign)
