"""The recurrent sentence model against NumPy and brute force."""

import itertools

import numpy as np
import pytest

from contstim.errors import InputError, ModelFileError, SpecError, UnknownWordError
from contstim.models import recurrent as network_module
from contstim.models.recurrent import NetworkConfig, RecurrentNetwork, TokenVocabulary
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList, pool
from contstim.training.network_files import save_network

WORDS = ("the", "dog", "cat", "saw", "ran", ".", "The", "a", "Dogs.")
SENTENCES = [
    "The dog saw the cat .",
    "ran",
    "a a a a a a a a a a a a",
    "the cat ran .",
    "dog dog",
    "The cat saw a dog the dog saw .",
]
KINDS = [("rnn", True), ("rnn", False), ("lstm", True), ("lstm", False)]


def make_network(cell, tied=True, words=WORDS, seed=0, scale=6.0):
    """Make a network with random weights, large enough that its predictions are far from flat."""
    config = NetworkConfig(cell, embedding=5, hidden=7, tied=tied)
    network = RecurrentNetwork.initialise(config, TokenVocabulary(tuple(words)), seed)
    for name, tensor in network.weights.items():
        tensor.mul_(scale if name == "embedding" else scale / 3)
    rng = np.random.default_rng(seed)
    for name in ("bias", "output_bias"):
        values = rng.normal(size=network.weights[name].shape)
        network.weights[name].copy_(network.weights[name].new_tensor(values))
    return network


@pytest.fixture
def load(tmp_path):
    """Save a network and load it as a model, with options."""

    def load_with(network, query=""):
        path = tmp_path / f"{network.config.cell}.safetensors"
        save_network(path, network, {}, "float32")
        return load_model(f"{network.config.cell}:{path}{query}")

    return load_with


def oracle(network, tokens, end=True):
    """Score one sentence in float64 numpy, straight from the definitions."""
    w = {name: tensor.double().numpy() for name, tensor in network.weights.items()}
    size = network.config.hidden
    ids = [network.vocabulary.words.index(token) + 2 for token in tokens]
    inputs = [len(network.vocabulary.words) + 2, *ids]
    targets = [*ids, 0] if end else ids
    h, c = np.zeros(size), np.zeros(size)
    terms = []
    for before, target in zip(inputs, targets, strict=False):
        z = w["input"] @ w["embedding"][before] + w["recurrent"] @ h + w["bias"]
        if network.config.cell == "rnn":
            h = np.maximum(z, 0)
        else:
            i, f, o = (1 / (1 + np.exp(-z[k * size : (k + 1) * size])) for k in range(3))
            c = f * c + i * np.tanh(z[3 * size :])
            h = o * np.tanh(c)
        if network.config.tied:
            logits = w["embedding"][:-1] @ (w["projection"] @ h) + w["output_bias"]
        else:
            logits = w["output"] @ h + w["output_bias"]
        terms.append(logits[target] - np.log(np.exp(logits - logits.max()).sum()) - logits.max())
    return np.array(terms)


@pytest.mark.parametrize(("cell", "tied"), KINDS)
def test_token_scores_equal_a_numpy_network(load, cell, tied):
    network = make_network(cell, tied)
    for query, end in (("", True), ("?end=none", False)):
        parts = load(network, query).score_tokens(SENTENCES)
        for sentence, part in zip(SENTENCES, parts, strict=True):
            expected = oracle(network, sentence.split(), end)
            np.testing.assert_allclose(part.log_probs, expected, atol=2e-5)
            assert part.tokens == (*sentence.split(), "</s>")[: len(expected)]
            words = [*range(part.n_words), part.n_words - 1]
            assert part.word_indices.tolist() == words[: len(expected)]


@pytest.mark.parametrize("shift", [-200.0, 200.0])
def test_extreme_logits_do_not_overflow(load, shift):
    network = make_network("lstm")
    expected = load(network).score(SENTENCES)
    # The same amount on every logit changes no probability.
    network.weights["output_bias"] += shift
    np.testing.assert_allclose(load(network).score(SENTENCES), expected, atol=1e-3)


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_scores_do_not_depend_on_batch_or_order(load, cell, monkeypatch):
    model = load(make_network(cell))
    scores = model.score(SENTENCES)
    assert scores.dtype == np.float64
    single = np.array([model.score([sentence])[0] for sentence in SENTENCES])
    np.testing.assert_allclose(scores, single, atol=1e-5)
    np.testing.assert_allclose(model.score(SENTENCES[::-1])[::-1], scores, atol=1e-5)
    words = model.score_words(SENTENCES)
    assert [len(values) for values in words] == [len(s.split()) for s in SENTENCES]
    np.testing.assert_allclose([values.sum() for values in words], scores, atol=1e-12)
    # Budgets so small that a batch holds one or two sentences and a pass a few logits.
    monkeypatch.setattr(network_module, "_TOKENS_PER_BATCH", 9)
    monkeypatch.setattr(network_module, "_POSITION_BLOCK", 3)
    monkeypatch.setattr(network_module, "_VOCABULARY_BLOCK", 4)
    np.testing.assert_allclose(load(make_network(cell)).score(SENTENCES), scores, atol=1e-5)


def next_log_probs(model, prefix):
    """Return the tokens that may follow a prefix, and their log-probabilities."""
    network = model._network
    ids = model._tokenizer.encode(prefix).ids if prefix else []
    inputs = np.array([network.vocabulary.start, *ids], dtype=np.int64)
    hidden = network.run_states(inputs, network.initial_state())[-1][0][0]
    tokens = ("</s>", "<unk>", *network.vocabulary.words)
    return tokens, network.next_log_probs(hidden)[0].double().numpy()


@pytest.mark.parametrize(("cell", "tied"), KINDS)
def test_next_token_probabilities_sum_to_one(load, cell, tied):
    model = load(make_network(cell, tied))
    rng = np.random.default_rng(1)
    for length in (0, 1, 2, 5, 9):
        prefix = " ".join(rng.choice(WORDS, length))
        tokens, log_probs = next_log_probs(model, prefix)
        assert tokens == ("</s>", "<unk>", *WORDS)
        assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-6)
        parts = model.score_tokens([f"{prefix} cat"])[0].log_probs
        assert log_probs[tokens.index("cat")] == pytest.approx(parts[length], abs=1e-5)


@pytest.mark.parametrize(("cell", "tied"), KINDS)
def test_probabilities_of_a_toy_language_sum_to_one(load, cell, tied):
    # A string goes on or ends: P(length >= L) = P(length = L) + P(length >= L + 1).
    network = make_network(cell, tied, words=("x", "y"))
    ended = load(network, "?unknown=unk")
    unended = load(network, "?unknown=unk&end=none")

    def total(model, length):
        strings = itertools.product(("x", "y", "something-unknown"), repeat=length)
        return np.exp(model.score([" ".join(s) for s in strings])).sum()

    empty = np.exp(next_log_probs(ended, "")[1][0])
    assert total(unended, 1) + empty == pytest.approx(1, abs=1e-6)
    for length in (1, 2, 3, 4):
        right = total(ended, length) + total(unended, length + 1)
        assert total(unended, length) == pytest.approx(right, rel=1e-5)


@pytest.mark.parametrize(("cell", "n_gates"), [("rnn", 1), ("lstm", 4)])
@pytest.mark.parametrize(("tied", "output"), [(True, 5), (False, 7)])
def test_number_of_multiply_adds(cell, n_gates, tied, output):
    network = make_network(cell, tied)
    projected = 5 * 7 if tied else 0
    n_outputs = network.vocabulary.n_outputs
    expected = n_gates * 7 * (5 + 7) + projected + output * n_outputs
    assert network.n_multiply_adds == expected


@pytest.mark.parametrize("query", ["", "?end=none", "?punctuation=split", "?punctuation=drop"])
@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_replacement_scores_equal_scores_of_whole_sentences(load, cell, query):
    model = load(make_network(cell), query)
    candidates = WordList.from_words(["dog", "cat", "saw", "a", "the", "ran"])
    for text in ("The dog saw a cat", "the cat ran the dog saw"):
        sentence = Sentence.parse(text + "." if "punctuation" in query else text)
        for position in (0, 2, 4, 2, len(sentence) - 1):
            afresh = model.score([str(sentence.replace(position, w)) for w in candidates])
            found = model.score_replacements(sentence, position, candidates)
            assert not found.is_exact
            exact = found.score(np.arange(len(candidates)))
            np.testing.assert_allclose(exact, afresh, atol=1e-4)
            np.testing.assert_allclose(found.score(np.array([3, 1])), afresh[[3, 1]], atol=1e-4)
            assert (found.upper_bounds >= exact).all()
            assert found.upper_bounds.shape == found.estimates.shape == (len(candidates),)
            n_units = len(model.score_tokens([str(sentence)])[0].tokens)
            after = n_units - len(
                model.score_tokens([" ".join(sentence.words[: position + 1])])[0].tokens
            )
            if "?" not in query:
                # The end is a unit of both.
                assert found.cost.n_inputs * n_units == pytest.approx(after + 1)
            now = candidates.index.get(sentence.words[position])
            if now is not None:
                assert found.estimates[now] == pytest.approx(afresh[now], abs=1e-4)
        assert found.score(np.zeros(0, dtype=np.int64)).shape == (0,)


def test_unknown_original_word_can_be_replaced(load):
    model = load(make_network("lstm"))
    candidates = WordList.from_words(["dog", "cat"])
    sentence = Sentence.parse("the unicorn ran .")
    exact = model.score_replacements(sentence, 1, candidates).score(np.arange(2))
    np.testing.assert_allclose(exact, model.score(["the dog ran .", "the cat ran ."]), atol=1e-4)
    with pytest.raises(UnknownWordError, match="does not know the candidate 'unicorn'"):
        model.score_replacements(sentence, 1, WordList.from_words(["unicorn"]))


def test_unknown_word_is_an_error_unless_unk_is_set(load):
    network = make_network("lstm")
    model = load(network)
    with pytest.raises(UnknownWordError) as caught:
        model.score(["the dog ran .", "the unicorn ran ."])
    assert str(caught.value) == (
        f"{model.spec} does not know 'unicorn' in 'the unicorn ran .'; leave the sentence out, "
        "use a model trained with the word, or set unknown=unk"
    )
    known = model.in_vocabulary(["dog", "unicorn", "<unk>", "</s>", "<s>"])
    assert known.tolist() == [True] + [False] * 4
    lenient = load(network, "?unknown=unk")
    assert lenient.event.unknown == "unk"
    tokens, log_probs = next_log_probs(lenient, "the")
    term = lenient.score_tokens(["the unicorn ran ."])[0].log_probs[1]
    assert term == pytest.approx(log_probs[tokens.index("<unk>")], abs=1e-5)


def test_event_describes_units_start_and_end(load):
    network = make_network("rnn")
    event = load(network).event
    assert (event.units, event.start, event.end) == ("words", "<s>", "</s>")
    event = load(network, "?end=none&punctuation=split&case=lower").event
    assert (event.end, event.punctuation, event.case) == ("none", "split", "lower")
    split = load(network, "?punctuation=split")
    assert split.score_tokens(["The cat ran."])[0].tokens == ("The", "cat", "ran", ".", "</s>")
    assert split.score(["The cat ran."])[0] == pytest.approx(
        load(network).score(["The cat ran ."])[0], abs=1e-6
    )


def test_scores_vary_within_the_batch_tolerance():
    model = load_model("contstim:lstm")
    sentences = pool()[:40]
    alone = np.array([model.score([sentence])[0] for sentence in sentences])
    assert np.abs(model.score(sentences) - alone).max() <= model.batch_tolerance == 1e-4


def test_canonical_spec_loads_an_equal_model(load):
    model = load(make_network("lstm"), "?unknown=unk&case=keep&device=cpu")
    assert model.spec.endswith("lstm.safetensors?unknown=unk")
    again = load_model(model.spec)
    assert again.event == model.event
    assert again.fingerprint == model.fingerprint
    assert again.score(SENTENCES).tolist() == model.score(SENTENCES).tolist()


def test_invalid_options_and_inputs_are_rejected(load):
    network = make_network("lstm")
    model = load(network)
    path = model.spec.removeprefix("lstm:")
    with pytest.raises(SpecError, match="unknown option 'metric'"):
        load(network, "?metric=pll")
    with pytest.raises(SpecError, match=r"device='gpu' in .* is not available"):
        load(network, "?device=gpu")
    with pytest.raises(SpecError, match="contains a network of kind 'lstm'; write lstm:"):
        load_model(f"rnn:{path}")
    with pytest.raises(ModelFileError, match="there is no model file"):
        load_model(f"lstm:{path}.no")
    with pytest.raises(InputError, match="sentence 2 is empty"):
        model.score(["the dog", " "])
    assert model.score([]).shape == (0,)
    assert model.score_tokens([]) == []
