"""Tests of `contstim.synthesis.beam` and `contstim.synthesis.beam_search`."""

from itertools import product

import numpy as np
import pytest

from contstim import Problem, SentenceModel, Vocabulary, WordList, load_model, synthesize
from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.models.recurrent import NetworkConfig, RecurrentNetwork, TokenVocabulary
from contstim.models.toy import RandomBigramModel
from contstim.synthesis.beam import Beam
from contstim.synthesis.beam_search import BeamSearch
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence
from contstim.training.network_files import save_network

LATER = [a + b for a in "bdfgk" for b in ("a", "e", "i", "o", "u", "an")]
FIRST = ["The", "Some", "One"]
VOCABULARY = Vocabulary(WordList.from_words(FIRST), WordList.from_words(LATER))
LISTED = "unlisted"
NATURAL = ["The ba de.", "Some ko fu.", "One gi ban."]
EVERYTHING = 10**6
EQUAL = np.zeros(2)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[SentenceModel, SentenceModel]:
    """Two networks that know all words, with random weights."""
    folder, made = tmp_path_factory.mktemp("networks"), []
    for seed, cell in enumerate(("lstm", "rnn")):
        config = NetworkConfig(cell, embedding=6, hidden=8)
        words = TokenVocabulary((*FIRST, *LATER, LISTED, ",", "."))
        network = RecurrentNetwork.initialise(config, words, seed)
        for tensor in network.weights.values():
            tensor.mul_(4.0)
        save_network(folder / f"{cell}.safetensors", network, {}, "float32")
        made.append(load_model(f"{cell}:{folder / cell}.safetensors?punctuation=split"))
    return made[0], made[1]


def _proposal(models: tuple[SentenceModel, ...]) -> SharedVocabulary:
    return SharedVocabulary(VOCABULARY, models)


def _beam(problem: Problem, natural: str, **options: object) -> BeamSearch:
    proposal = SharedVocabulary(VOCABULARY, tuple(problem.models_by_name.values()))
    search = Search(problem, proposal, Sentence.parse(natural), seed=0)
    return BeamSearch.from_search(search, **options)


@pytest.mark.parametrize("natural", [*NATURAL, "The ba, de fu.", "One gi"])
def test_full_width_beam_equals_brute_force(
    models: tuple[SentenceModel, SentenceModel], natural: str
) -> None:
    n, (first, *marks) = len(natural.split()), Sentence.parse(natural).after
    every = [
        " ".join(word + mark for word, mark in zip(words, (first, *marks), strict=True))
        for words in product(FIRST, *[LATER] * (n - 1))
        if len({*words}) == n
    ]
    reject, accept = (model.score(every) for model in models)
    beam = _beam(Problem(models[:1], models[1:]), natural, diversity_cap=EVERYTHING)
    sentences, log_probs, _ = beam.run_pass(EVERYTHING, EQUAL)
    assert len(sentences) == len(every)
    best = int(np.where(accept >= beam.min_scores[1], reject, np.inf).argmin())
    assert str(sentences[0]) == every[best]
    scores = {every[i]: (reject[i], accept[i]) for i in range(len(every))}
    np.testing.assert_allclose(log_probs.T, [scores[str(s)] for s in sentences], atol=1e-4)


def test_min_scores_equal_those_of_the_problem(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    beam = _beam(Problem(models[:1], models[1:], 2.0), NATURAL[0])
    natural = float(models[1].score([NATURAL[0]])[0])
    assert beam.min_scores[0] == -np.inf
    assert beam.min_scores[1] == pytest.approx(natural - 2.0 + models[1].batch_tolerance)


def test_result_satisfies_constraints_and_improves_on_the_beam(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    for natural in NATURAL:
        found = synthesize(
            natural, reject=models[0], accept=models[1], vocabulary=VOCABULARY, strategy=Beam()
        )
        reject, accept = (model.score([found.sentence, natural]) for model in models)
        assert accept[0] >= accept[1]
        assert found.loss == pytest.approx(reject[0] - reject[1], abs=1e-4)
        # Of so few words a beam with all of them finds the best sentence.
        sentences = _beam(Problem(models[:1], models[1:]), natural).run_pass(EVERYTHING, EQUAL)[0]
        best = synthesize(
            natural,
            reject=models[0],
            accept=models[1],
            vocabulary=VOCABULARY,
            strategy=Beam(
                width=EVERYTHING, diversity_cap=EVERYTHING, vocabulary_fraction=1.0, n_restarts=1
            ),
        )
        assert len(sentences) > 1
        assert best.loss <= found.loss + 1e-4 < 1e-3


def test_seed_determines_the_result(models: tuple[SentenceModel, SentenceModel]) -> None:
    longer = "The ba de fu gi ko do."
    beam = _beam(Problem(models[:1], models[1:]), longer)

    def written(seed: int) -> list[str]:
        part = beam.restrict_words(0.5, np.random.default_rng(seed), beam.natural)
        return [str(sentence) for sentence in part.run_pass(6, EQUAL)[0]]

    assert written(3) == written(3)
    assert written(3) != written(4)


def test_unknown_min_scores_widen_the_beam(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    bigram = load_model("contstim:bigram")
    vocabulary = Vocabulary.from_words(["The", "A", "dog", "cat", "sat", "ran"])
    proposal, natural = SharedVocabulary(vocabulary, (bigram,)), Sentence.parse("The cat sat.")
    problem = Problem((bigram,), (load_model("contstim:trigram"),))
    easy = BeamSearch.from_search(Search(problem, proposal, natural, 0))
    hard = _beam(Problem(models[:1], models[1:]), NATURAL[0])
    assert [(beam.width, beam.diversity_cap) for beam in (easy, hard)] == [(256, 64), (256, 64)]
    assert _beam(Problem(models[:1], models[1:]), NATURAL[0], width=3).diversity_cap == 1


def test_natural_and_repeatable_words_are_always_available(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    vocabulary = Vocabulary(
        WordList.from_words(FIRST), WordList.from_words(LATER), frozenset({"fan"})
    )
    search = Search(
        Problem(models[:1], models[1:]),
        SharedVocabulary(vocabulary, models),
        Sentence.parse(NATURAL[1]),
        0,
    )
    beam = BeamSearch.from_search(search)
    best = Sentence.parse("Some go fu.")
    for seed in range(5):
        part = beam.restrict_words(0.1, np.random.default_rng(seed), best).vocabulary_masks
        assert part is not None
        later = {word for word, there in zip(LATER, part[1], strict=True) if there}
        assert part[0][FIRST.index("Some")]
        assert {"ko", "fu", "fan", "go"} <= later
        assert 20 <= len(later) <= 24


def test_diversity_cap_limits_shared_first_and_last_words(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    beam = _beam(Problem(models[:1], models[1:]), "The ba de fu gi.", diversity_cap=2)
    words = [sentence.words for sentence in beam.run_pass(12, EQUAL)[0]]
    assert len(words) > 2
    for part in (slice(3), slice(-1, None)):
        parts = [w[part] for w in words]
        assert max(map(parts.count, parts)) <= 2


def test_excluded_words_are_not_written(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    proposal = _proposal(models)
    few = proposal.exclude({"ba", "fu", "some"})
    problem, natural = Problem(models[:1], models[1:]), Sentence.parse(NATURAL[2])
    searches = [Search(problem, own, natural, 0) for own in (proposal, few)]
    beams = [BeamSearch.from_search(search, diversity_cap=EVERYTHING) for search in searches]
    whole, barred = beams
    assert barred.empty_prefixes[0] is whole.empty_prefixes[0]
    written = [sentence.words for sentence in barred.run_pass(EVERYTHING, EQUAL)[0]]
    assert len(written) == 2 * 28 * 27
    assert not {word for words in written for word in words} & {"ba", "fu", "Some"}


def test_models_that_propose_words_score_whole_prefixes(
    models: tuple[SentenceModel, SentenceModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = RandomBigramModel([*FIRST, *LATER], seed=1)
    assert table.empty_prefix(VOCABULARY.first, VOCABULARY.elsewhere) is None
    asked, score = list[list[str]](), RandomBigramModel.score

    def counting(self: RandomBigramModel, texts: list[str]) -> FloatArray:
        asked.append(texts)
        return score(self, texts)

    monkeypatch.setattr(
        RandomBigramModel, "guide_prefix", lambda self, *lists: models[1].empty_prefix(*lists)
    )
    for natural in NATURAL:
        beam = _beam(Problem((models[0],), (table,)), natural, diversity_cap=EVERYTHING)
        assert list(beam.sentence_scorers) == [1]
        asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(RandomBigramModel, "score", counting)
            sentences, log_probs, _ = beam.run_pass(EVERYTHING, EQUAL)
        n_judged = [len(texts) for texts in asked]
        assert beam.counter.n_scores == {models[0].name: 0, table.name: sum(n_judged)}
        assert len(n_judged) == len(natural.split())
        every = [str(sentence) for sentence in sentences]
        accept = table.score(every)
        np.testing.assert_allclose(log_probs[1], accept)
        reject = np.where(accept >= beam.min_scores[1], models[0].score(every), np.inf)
        assert every[0] == every[int(reject.argmin())]


def test_models_without_prefix_scores_are_rejected(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    table = RandomBigramModel([*FIRST, *LATER], 1)
    for reject, accept in ((models[0], table), (table, models[0])):
        with pytest.raises(InputError) as error:
            synthesize(
                NATURAL[0], reject=reject, accept=accept, vocabulary=VOCABULARY, strategy="beam"
            )
        assert str(error.value) == (
            f"the strategy 'beam' needs models that score prefixes, and {table.name!r} does not; "
            "use the strategy 'edit'"
        )


def test_local_search_starts_from_the_written_sentences(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    sides = {"reject": models[0], "accept": models[1], "vocabulary": VOCABULARY}
    natural = "The ba de fu gi ko."
    options = {"n_restarts": 1, "width": 2, "diversity_cap": 1, "vocabulary_fraction": 0.8}
    written, climbed = (
        synthesize(natural, strategy=Beam(refine=refine, **options), **sides)
        for refine in ("no", "yes")
    )
    # What was written is one step away from the natural sentence, and not climbed from.
    assert len({step.n_scores for step in written.steps}) == 1
    assert written.steps == climbed.steps[: len(written.steps)]
    assert climbed.loss < written.loss < 0
    assert (written.finished, climbed.finished) == (True, True)


def test_no_feasible_sentence_gives_no_result(
    models: tuple[SentenceModel, SentenceModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    multipliers: list[float] = []

    def nothing(
        beam: BeamSearch, width: int, log_lambda: FloatArray
    ) -> tuple[list[Sentence], FloatArray, FloatArray]:
        multipliers.append(float(log_lambda[1]))
        return [], np.zeros((2, 0)), np.full(2, -np.inf)

    monkeypatch.setattr(BeamSearch, "run_pass", nothing)
    found = synthesize(
        NATURAL[0], reject=models[0], accept=models[1], vocabulary=VOCABULARY, strategy="beam"
    )
    assert (found.is_improved, found.sentence, found.strategy) == (False, NATURAL[0], "beam")
    # After four narrow passes, three times as many restarts were made, lambda always larger.
    assert len(multipliers) == 4 + 3 * Beam().n_restarts
    assert multipliers == sorted({*multipliers})


@pytest.mark.parametrize("order", [1, -1])
def test_large_lambda_satisfies_the_constraint(order: int) -> None:
    # Under a large lambda the sentence of lowest Lagrangian satisfies the constraint, not under a
    # small one.
    pair = tuple(load_model(f"contstim:{name}") for name in ("bigram", "trigram"))[::order]
    vocabulary = Vocabulary.from_words(["The", "A", "dog", "cat", "sat", "ran", "spite", "hover"])
    search = Search(
        Problem(pair[:1], pair[1:]),
        SharedVocabulary(vocabulary, pair),
        Sentence.parse("The dog sat."),
        0,
    )
    beam = BeamSearch.from_search(search)
    small, large = (beam.run_pass(EVERYTHING, np.full(2, value))[2][1] for value in (-4.0, 4.0))
    assert small < 0 <= large
