"""Tests of `contstim.synthesis.leftward`."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from contstim import Problem, SentenceModel, Vocabulary, WordList, load_model, synthesize
from contstim.arrays import FloatArray
from contstim.models.recurrent import (
    NetworkConfig,
    RecurrentNetwork,
    TokenVocabulary,
    save_network,
)
from contstim.models.toy import TableModel
from contstim.synthesis.bounded import Bounded
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.leftward import Leftward, Walk
from contstim.synthesis.problem import Edits
from contstim.synthesis.sweeps import Search
from contstim.synthesis.targets import problem_of
from contstim.text import Sentence

LATER = [a + b for a in "bdfgk" for b in ("a", "e", "i", "o", "u", "an")]
FIRST = ["The", "Some", "One"]
VOCABULARY = Vocabulary(WordList.of(FIRST), WordList.of(LATER))
LISTED = "unlisted"
NATURAL = ["The ba de.", "Some ko fu.", "One gi ban."]
EVERYTHING = 10**6


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[SentenceModel, SentenceModel]:
    """Two networks that know all words, with random weights."""
    folder, made = tmp_path_factory.mktemp("networks"), []
    for seed, cell in enumerate(("lstm", "rnn")):
        config = NetworkConfig(cell, embedding=6, hidden=8)
        words = TokenVocabulary((*FIRST, *LATER, LISTED, ",", "."))
        network = RecurrentNetwork.initial(config, words, seed)
        for tensor in network.weights.values():
            tensor.mul_(4.0)
        save_network(folder / f"{cell}.safetensors", network, {}, "float32")
        made.append(load_model(f"{cell}:{folder / cell}.safetensors?punctuation=split"))
    return made[0], made[1]


def _proposal(models: tuple[SentenceModel, ...]) -> WordReplacement:
    return WordReplacement(VOCABULARY, models)


def _walk(problem: Problem, natural: str, **options: object) -> Walk:
    proposal = WordReplacement(VOCABULARY, tuple(problem.by_name.values()))
    walk = Walk.of(Search(problem, proposal, Sentence.parse(natural), seed=0), Leftward(**options))
    assert walk is not None
    return walk


@pytest.mark.parametrize("natural", [*NATURAL, "The ba, de fu.", "One gi"])
def test_a_beam_of_full_width_finds_what_brute_force_finds(
    models: tuple[SentenceModel, SentenceModel], natural: str
) -> None:
    n, (first, *marks) = len(natural.split()), Sentence.parse(natural).after
    every = [
        " ".join(word + mark for word, mark in zip(words, (first, *marks), strict=True))
        for words in product(FIRST, *[LATER] * (n - 1))
        if len({*words}) == n
    ]
    reject, accept = (model.score(every) for model in models)
    walk = _walk(Problem.pair(*models), natural, most_alike=EVERYTHING)
    sentences, log_probs = walk.written(EVERYTHING)
    assert len(sentences) == len(every)
    best = int(np.where(accept >= walk.least[1], reject, np.inf).argmin())
    assert str(sentences[0]) == every[best]
    scores = {every[i]: (reject[i], accept[i]) for i in range(len(every))}
    np.testing.assert_allclose(log_probs.T, [scores[str(s)] for s in sentences], atol=1e-4)


def test_the_score_to_keep_is_that_of_the_problem(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    walk = _walk(problem_of(models[:1], models[1:], margin=2.0), NATURAL[0])
    natural = float(models[1].score([NATURAL[0]])[0])
    assert walk.least[0] == -np.inf
    assert walk.least[1] == pytest.approx(natural - 2.0 + models[1].resolution)


def test_what_is_written_keeps_the_constraints_and_is_no_worse_than_the_walk(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    for natural in NATURAL:
        found = synthesize(
            natural, reject=models[0], accept=models[1], vocabulary=VOCABULARY, strategy=Leftward()
        )
        reject, accept = (model.score([found.sentence, natural]) for model in models)
        assert accept[0] >= accept[1]
        assert found.loss == pytest.approx(reject[0] - reject[1], abs=1e-4)
        # Of so few words a walk with all of them finds the best sentence.
        sentences, _ = _walk(Problem.pair(*models), natural).written(EVERYTHING)
        best = synthesize(
            natural,
            reject=models[0],
            accept=models[1],
            vocabulary=VOCABULARY,
            strategy=Leftward(width=EVERYTHING, most_alike=EVERYTHING, part=1.0, walks=1),
        )
        assert len(sentences) > 1
        assert best.loss <= found.loss + 1e-4 < 1e-3


def test_the_same_seed_writes_the_same(models: tuple[SentenceModel, SentenceModel]) -> None:
    longer = "The ba de fu gi ko do."
    walk = _walk(Problem.pair(*models), longer)

    def written(seed: int) -> list[str]:
        part = walk.with_part(0.5, np.random.default_rng(seed))
        return [str(sentence) for sentence in part.written(6)[0]]

    assert written(3) == written(3)
    assert written(3) != written(4)


def test_more_beginnings_are_kept_where_the_score_to_keep_is_not_known_at_once(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    bigram = load_model("contstim:bigram")
    vocabulary = Vocabulary.from_words(["The", "A", "dog", "cat", "sat", "ran"])
    proposal, natural = WordReplacement(vocabulary, (bigram,)), Sentence.parse("The cat sat.")
    problem = Problem.pair(bigram, load_model("contstim:trigram"))
    easy = Walk.of(Search(problem, proposal, natural, 0), Leftward())
    assert easy is not None
    hard = _walk(Problem.pair(*models), NATURAL[0])
    assert [(walk.width, walk.alike) for walk in (easy, hard)] == [(64, 16), (256, 64)]
    assert _walk(Problem.pair(*models), NATURAL[0], width=3).alike == 1


def test_words_of_the_natural_sentence_and_repeatable_ones_are_always_written_with(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    vocabulary = Vocabulary(WordList.of(FIRST), WordList.of(LATER), frozenset({"fan"}))
    search = Search(
        Problem.pair(*models), WordReplacement(vocabulary, models), Sentence.parse(NATURAL[1]), 0
    )
    walk = Walk.of(search, Leftward())
    assert walk is not None
    for seed in range(5):
        part = walk.with_part(0.1, np.random.default_rng(seed)).part
        assert part is not None
        later = {word for word, there in zip(LATER, part[1], strict=True) if there}
        assert part[0][FIRST.index("Some")]
        assert {"ko", "fu", "fan"} <= later
        assert 20 <= len(later) <= 23


def test_few_beginnings_end_in_one_word_or_begin_with_the_same_three(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    walk = _walk(Problem.pair(*models), "The ba de fu gi.", most_alike=2)
    words = [sentence.words for sentence in walk.written(12)[0]]
    assert len(words) > 2
    for part in (slice(3), slice(-1, None)):
        parts = [w[part] for w in words]
        assert max(map(parts.count, parts)) <= 2


def test_barred_words_are_not_written_and_models_look_up_no_other_lists(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    proposal = _proposal(models)
    few = proposal.without({"ba", "fu", "some"})
    problem, natural = Problem.pair(*models), Sentence.parse(NATURAL[2])
    by = Leftward(most_alike=EVERYTHING)
    walks = [Walk.of(Search(problem, own, natural, 0), by) for own in (proposal, few)]
    whole, barred = (walk for walk in walks if walk is not None)
    assert barred.begun[0] is whole.begun[0]
    written = [sentence.words for sentence in barred.written(EVERYTHING)[0]]
    assert len(written) == 2 * 28 * 27
    assert not {word for words in written for word in words} & {"ba", "fu", "Some"}


def test_words_that_are_listed_or_stay_are_written_though_the_vocabulary_has_them_not(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    problem = Problem.pair(*models)
    edits = Edits(None, (2,), (), ((1, (LISTED, "ko", "unheardof")),))
    walk = _walk(replace(problem, edits=edits), f"The ba {LISTED} fu.", part=0.1)
    sentences = walk.with_part(0.1, np.random.default_rng(0)).written(EVERYTHING)[0]
    # "unlisted" stays at one place, and so may not come at the other.
    assert {sentence.words[1:3] for sentence in sentences} == {("ko", LISTED)}
    edits = Edits(None, (), (), ((1, (LISTED, "ko", "unheardof")),))
    sentences = _walk(replace(problem, edits=edits), "The ba de fu.").written(EVERYTHING)[0]
    assert {sentence.words[1] for sentence in sentences} == {LISTED, "ko"}


def test_guides_propose_and_scores_decide(
    models: tuple[SentenceModel, SentenceModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableModel([*FIRST, *LATER], seed=1)
    assert table.beginnings(VOCABULARY.first, VOCABULARY.elsewhere) is None
    asked, score = list[list[str]](), TableModel.score

    def counting(self: TableModel, texts: list[str]) -> FloatArray:
        asked.append(texts)
        return score(self, texts)

    options = {"guide": models[1].spec, "most_alike": EVERYTHING}
    assert Leftward(**options).models == (models[1].spec,)
    for natural in NATURAL:
        walk = _walk(Problem.pair(models[0], table), natural, **options)
        assert list(walk.judges) == [1]
        asked.clear()
        monkeypatch.setattr(TableModel, "score", counting)
        sentences, log_probs = walk.written(EVERYTHING)
        # What the natural sentence's beginnings score is asked for first, and does not count.
        n_judged = [len(texts) for texts in asked[1:]]
        assert walk.spent.n_scores == {models[0].name: 0, table.name: sum(n_judged)}
        assert len(n_judged) == len(natural.split())
        monkeypatch.undo()
        every = [str(sentence) for sentence in sentences]
        accept = table.score(every)
        np.testing.assert_allclose(log_probs[1], accept)
        reject = np.where(accept >= walk.least[1], models[0].score(every), np.inf)
        assert every[0] == every[int(reject.argmin())]


def test_a_model_that_can_guide_itself_does_so_where_no_guide_is_named(
    models: tuple[SentenceModel, SentenceModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableModel([*FIRST, *LATER], seed=1)
    problem = Problem.pair(models[0], table)
    named = _walk(problem, NATURAL[0], guide=models[1].spec).written(4)
    monkeypatch.setattr(TableModel, "guide", lambda self, *lists: models[1].guide(*lists))
    how = Search(problem, _proposal((models[0], table)), Sentence.parse(NATURAL[0]), seed=0)
    assert Walk.of(how, Leftward()) is None
    monkeypatch.setattr(TableModel, "guides_itself", True)
    walk = _walk(problem, NATURAL[0])
    assert walk.judges == {1: table}
    by_itself = walk.written(4)
    assert list(map(str, by_itself[0])) == list(map(str, named[0]))
    np.testing.assert_array_equal(by_itself[1], named[1])


@pytest.mark.parametrize(("n_tables", "edits"), [(2, Edits()), (1, Edits()), (0, Edits(2))])
def test_where_nothing_can_be_written_it_is_the_climb_alone(
    models: tuple[SentenceModel, SentenceModel], n_tables: int, edits: Edits
) -> None:
    tables = TableModel([*FIRST, *LATER], 1), TableModel([*FIRST, *LATER], 2)
    # Tables propose nothing; and where few words may change, nothing is written anew.
    pair = (*models[n_tables:], *tables[:n_tables])
    problem = replace(Problem.pair(*pair), edits=edits)
    for natural in NATURAL:
        both = [
            synthesize(natural, problem=problem, vocabulary=VOCABULARY, strategy=strategy)
            for strategy in ("leftward", "bounded")
        ]
        assert both[0].sentence == both[1].sentence


def test_an_exhaustive_climb_finds_what_it_did(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    sides = {"reject": models[0], "accept": models[1], "vocabulary": VOCABULARY}
    climbed = synthesize(NATURAL[0], strategy=Bounded(None), **sides)
    assert climbed.loss == synthesize(NATURAL[0], strategy="exhaustive", **sides).loss


def test_a_climb_starts_from_what_was_written(models: tuple[SentenceModel, SentenceModel]) -> None:
    sides = {"reject": models[0], "accept": models[1], "vocabulary": VOCABULARY}
    natural = "The ba de fu gi ko."
    options = {"walks": 1, "width": 2, "most_alike": 1, "part": 0.8}
    written, climbed = (
        synthesize(natural, strategy=Leftward(climb=climb, **options), **sides)
        for climb in ("no", "yes")
    )
    # What was written is one step away from the natural sentence, and not climbed from.
    assert len({step.n_scores for step in written.steps}) == 1
    assert written.steps == climbed.steps[: len(written.steps)]
    assert climbed.loss < written.loss < 0
    assert (written.finished, climbed.finished) == (False, True)
    assert Leftward(None, climb="yes").complete
    assert not Leftward(None).complete


def test_where_nothing_written_keeps_the_scores_it_is_the_climb(
    models: tuple[SentenceModel, SentenceModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = {"reject": models[0], "accept": models[1], "vocabulary": VOCABULARY}
    reserves: list[float] = []

    def nothing(walk: Walk, width: int) -> tuple[list[Sentence], np.ndarray]:
        reserves.append(walk.reserve)
        return [], np.zeros((2, 0))

    monkeypatch.setattr(Walk, "written", nothing)
    for natural in NATURAL:
        both = [synthesize(natural, strategy=by, **sides) for by in ("leftward", "bounded")]
        assert both[0].sentence == both[1].sentence
        assert both[0].finished == both[1].finished
        # It was tried three times as often, with more and more in reserve.
        assert len(reserves) == 3 * Leftward().walks
        assert reserves == sorted({*reserves})
        reserves.clear()


def test_a_walk_after_one_that_kept_too_little_keeps_more_for_the_end(
    models: tuple[SentenceModel, SentenceModel],
) -> None:
    walk = _walk(Problem.pair(*models), NATURAL[0])
    kept, missed = walk.least[:, None] + [0.0], walk.least[:, None] - [1.0]
    kept[0], missed[0] = -50.0, -50.0
    some = [walk.after(np.concatenate(parts, axis=1)) for parts in ([kept] * 2, [missed] * 2)]
    less, more = (after.reserve for after in some)
    assert less < walk.reserve < more
    assert walk.after(np.zeros((2, 0))).reserve == more
    assert walk.after(np.concatenate([kept, missed, missed, missed], axis=1)).reserve == more
    # Every part of the way is to keep more where more is left for the end.
    paces = [after._paces()[1] for after in some]
    assert (paces[1] > paces[0]).all()
