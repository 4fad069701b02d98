"""Scores in one order of tokens, against the walk written out and every string of a vocabulary."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tiny_transformers import MASKED, SENTENCES, refusal
from transformers import AutoModelForMaskedLM, AutoTokenizer

from contstim.models.check import check_model
from contstim.models.hf.encoding import Encoded
from contstim.models.hf.masked import MaskedModel
from contstim.models.hf.metrics import plan_for
from contstim.models.hf.unmasking import UNMASKING_RULES, UnmaskingModel
from contstim.models.registry import load_model
from contstim.synthesis import synthesize
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

Tiny = Callable[[str], Path]


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a masked model of so few tokens that all its strings can be enumerated."""
    folder = tmp_path_factory.mktemp("letters")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    transformers.BertTokenizer(vocab={t: i for i, t in enumerate(tokens)}).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
        initializer_range=1.0,
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    return folder


def _strings(n: int) -> list[Encoded]:
    """Return every string of n tokens of the seven, of one-token words."""
    return [
        Encoded(
            ids=np.array([2, *tokens, 3]),
            scored=np.arange(1, n + 1),
            word_of=np.arange(n),
            n_words=n,
            units=tuple(map(str, tokens)),
        )
        for tokens in itertools.product(range(7), repeat=n)
    ]


def _model(folder: Path, options: str) -> MaskedModel:
    model = load_model(f"hf:{folder}?{options}")
    assert isinstance(model, MaskedModel)
    return model


def _total(model: MaskedModel, strings: list[Encoded]) -> np.ndarray:
    values = zip(strings, model.values(strings), strict=True)
    return np.array([model._parts(e, v).log_prob for e, v in values])


@pytest.mark.parametrize("rule", UNMASKING_RULES)
def test_probabilities_of_all_strings_sum_to_one(letters: Path, rule: str) -> None:
    scores = _total(_model(letters, f"metric=duel&rule={rule}"), _strings(4))
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-6)


def test_rules_find_different_orders(letters: Path) -> None:
    strings = _strings(4)
    scores = [
        _total(_model(letters, f"metric=duel&rule={rule}"), strings) for rule in UNMASKING_RULES
    ]
    for one, other in itertools.combinations(scores, 2):
        assert np.abs(one - other).max() > 1e-3


def test_the_lower_bound_is_one(letters: Path) -> None:
    """Of the probability that a random order gives, which sums to one over all strings."""
    n, brute = 4, AutoModelForMaskedLM.from_pretrained(letters).eval()
    strings = _strings(n)
    bounds = _total(_model(letters, "metric=elbo"), strings)
    ids = torch.tensor(np.array([e.ids for e in strings]))
    by_order = []
    for order in itertools.permutations(range(1, n + 1)):
        rows, total = torch.where((torch.arange(n + 2) % (n + 1)) > 0, 4, ids), 0
        for place in order:
            with torch.no_grad():
                logs = brute(rows).logits[:, place].double().log_softmax(dim=1)
            total = total + logs.gather(1, ids[:, [place]])[:, 0]
            rows[:, place] = ids[:, place]
        by_order.append(total.numpy())
    np.testing.assert_allclose(bounds, np.mean(by_order, axis=0), atol=1e-5)
    mixture = np.log(np.mean(np.exp(by_order), axis=0))
    assert np.exp(mixture).sum() == pytest.approx(1, abs=1e-6)
    assert (bounds <= mixture + 1e-6).all()
    assert (bounds < mixture - 0.1).any()


def test_sampled_orders_vary_less_than_sampled_masks() -> None:
    """The lower bound from as many inputs as the published estimator draws (Nie et al., Eq. 6)."""
    text, rng = "I am not sure that she knew.", np.random.default_rng(0)
    model = load_model("contstim:bert?metric=elbo")
    assert isinstance(model, MaskedModel)
    (encoded,) = model.encode([text])
    plan, n = model.plan(encoded), len(encoded.scored)
    keys = zip(map(bytes, plan.masks[plan.row]), plan.slot.tolist(), strict=True)
    by_term = dict(zip(keys, model.values([encoded])[0], strict=True))
    n_inputs = 8 * n - 7  # of eight orders, each of which begins with all hidden
    published = []
    for _ in range(400):
        draws = []
        for _ in range(n_inputs):
            hidden = np.zeros(n, dtype=np.bool_)
            hidden[rng.permutation(n)[: rng.integers(1, n + 1)]] = True
            places = np.flatnonzero(hidden).tolist()
            draws.append(n / len(places) * sum(by_term[bytes(hidden), p] for p in places))
        published.append(np.mean(draws))
    ours = []
    for seed in range(100):
        options = replace(model.options, exact=1, orders=8, seed=seed)
        plan = plan_for(encoded.layout, options)
        assert len(plan.masks) <= n_inputs
        terms = zip(map(bytes, plan.masks[plan.row]), plan.slot.tolist(), strict=True)
        ours.append(plan.by_slot(np.array([by_term[term] for term in terms])).sum())
    assert np.var(ours) <= np.var(published) / 10
    truth = model.score([text])[0]
    for values in (ours, published):
        assert abs(np.mean(values) - truth) <= 4 * np.std(values) / np.sqrt(len(values))


@pytest.mark.parametrize("name", MASKED)
def test_the_walk_written_out(tiny: Tiny, name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny(name))
    network = AutoModelForMaskedLM.from_pretrained(tiny(name)).eval()
    early = {
        "l2r": lambda p: 0.0,
        "confidence": lambda p: p.max(),
        "margin": lambda p: np.diff(np.sort(p)[-2:])[0],
        "entropy": lambda p: (p * np.log(p)).sum(),
    }
    for rule in UNMASKING_RULES:
        model = load_model(f"hf:{tiny(name)}?metric=duel&rule={rule}")
        for sentence, parts in zip(SENTENCES[:2], model.parts(SENTENCES[:2]), strict=True):
            ids = np.array(tokenizer(sentence)["input_ids"])
            rows, left = ids.copy(), list(range(1, len(ids) - 1))
            rows[left] = tokenizer.mask_token_id
            expected = np.zeros(len(ids))
            while left:
                with torch.no_grad():
                    logits = network(torch.tensor(rows[None])).logits[0].double()
                p = logits.softmax(dim=1).numpy()
                values = [early[rule](p[place]) for place in left]
                place = left.pop(int(np.argmax(np.array(values) >= max(values) - 1e-5)))
                expected[place] = np.log(p[place, ids[place]])
                rows[place] = ids[place]
            np.testing.assert_allclose(parts.log_probs, expected[1:-1], atol=1e-4)


def test_from_left_to_right_it_is_the_metric_of_that_kind(tiny: Tiny) -> None:
    walked = load_model(f"hf:{tiny('bert')}?metric=duel&rule=l2r")
    planned = load_model(f"hf:{tiny('bert')}?metric=pll-sentence-l2r")
    np.testing.assert_allclose(walked.score(SENTENCES), planned.score(SENTENCES), atol=1e-4)


@pytest.mark.parametrize("rule", UNMASKING_RULES)
def test_the_contract_holds(tiny: Tiny, rule: str) -> None:
    model = load_model(f"hf:{tiny('roberta')}?metric=duel&rule={rule}")
    assert isinstance(model, UnmaskingModel)
    assert model.event.orders == f"one, by {rule}"
    assert len(check_model(model, SENTENCES, words=["dog", "saw", "us", "dogs"])) == 5
    assert load_model(model.spec).event == model.event


def test_candidates_are_estimated_from_their_completions(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('bert')}?metric=duel")
    sentence, words = Sentence.parse("the old dog saw us"), WordList.of(["dog", "cat", "unhappy"])
    table = model.replacements(sentence, 2, words)
    texts = [str(sentence.replace(2, word)) for word in words]
    np.testing.assert_allclose(table.score(np.arange(3)), model.score(texts), atol=1e-4)
    assert (table.upper == 0).all()
    completion = model.completions(sentence, 2, words)
    np.testing.assert_allclose(table.estimate - table.estimate[0], completion - completion[0])
    assert np.asarray(table.hints.cost).tolist() == [5, 5, 4 + table.hints.n_tokens[2]]


def test_options_that_do_not_go_together(tiny: Tiny) -> None:
    spec = f"hf:{tiny('bert')}?metric=duel"
    assert refusal(f"{spec}&restricted=yes") == (
        f"restricted=yes in '{spec}&restricted=yes': which place comes next must not depend on the "
        "tokens that are hidden; leave the option out"
    )
    assert refusal(f"{spec}&rule=margins") == (
        f"rule='margins' in '{spec}&rule=margins': did you mean 'margin'?"
    )
    pll = f"hf:{tiny('bert')}?metric=pll&rule=l2r"
    assert refusal(pll) == f"rule='l2r' in {pll!r} goes with metric=duel; leave it out"


def test_the_usual_search_finds_its_sentences(tiny: Tiny) -> None:
    reject, accept = (_model(tiny("bert"), f"metric={metric}") for metric in ("duel", "pll"))
    natural = "The dog saw a man."
    words = Vocabulary.from_words(["The", "A", "dog", "cat", "man", "saw", "ran"])
    done = synthesize(natural, reject=reject, accept=accept, vocabulary=words, seed=1)
    before, after = reject.score([natural, done.sentence])
    assert after < before
    assert np.diff(accept.score([natural, done.sentence]))[0] >= 0
