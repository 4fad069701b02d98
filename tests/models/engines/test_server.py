"""Models behind a server: equal scores, and errors for malformed responses.

Tests `contstim.models.engines` and `contstim.models.engines.server`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_engines import BOS, Fake
from tiny_transformers import SENTENCES, refusal

from contstim.cli import main
from contstim.errors import EngineError, InputError
from contstim.models.check import check_model
from contstim.models.engines import server
from contstim.models.registry import load_model
from contstim.synthesis import synthesize
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary

Tiny = Callable[[str], Path]
TEXTS = ["The cat saw a dog.", *SENTENCES[1:]]


@pytest.fixture(scope="module")
def served(tiny: Tiny) -> Iterator[Fake]:
    fake = Fake(tiny("gpt2"))
    yield fake
    fake.close()


@pytest.fixture
def fake(served: Fake, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setattr(server.time, "sleep", lambda seconds: None)
    return served.reset()


def test_server_scores_equal_the_local_model(fake: Fake, tiny: Tiny) -> None:
    here = load_model(f"hf:{tiny('gpt2')}")
    model = load_model(f"{fake.spec}&prefix={BOS}")
    assert set(fake.paths) == {"/v1/completions"}
    assert model.batch_tolerance == 1e-3
    np.testing.assert_allclose(model.score(TEXTS), here.score(TEXTS), atol=1e-3)
    for one, other in zip(model.score_words(TEXTS), here.score_words(TEXTS), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)
    check_model(model, TEXTS, words=["dog", "saw", "us"])
    assert load_model(model.spec).event == model.event


def test_start_token_inserted_by_the_server_is_the_prefix(fake: Fake, tiny: Tiny) -> None:
    fake.opening = [fake.tokenizer.eos_token_id]
    model = load_model(fake.spec)
    assert model.event.start == BOS
    expected = load_model(f"hf:{tiny('gpt2')}").score(TEXTS)
    np.testing.assert_allclose(model.score(TEXTS), expected, atol=1e-3)
    for options in (f"&prefix={BOS}", ""):
        fake.opening = [fake.tokenizer.eos_token_id] * (1 if options else 2)
        with pytest.raises(EngineError, match="with repetitions; insert it once"):
            load_model(fake.spec + options)


def test_first_word_is_unscored_without_prefix(fake: Fake, tiny: Tiny) -> None:
    here = load_model(f"hf:{tiny('gpt2')}?prefix=none")
    model = load_model(fake.spec)
    assert model.event.start == "none"
    np.testing.assert_allclose(model.score(TEXTS), here.score(TEXTS), atol=1e-3)
    assert np.isnan(model.score_words(TEXTS)[0][0])
    with pytest.raises(InputError, match=r"'Dog\.' has one word, and .* nothing to predict it"):
        model.score(["Dog."])


def test_each_text_is_sent_once(fake: Fake) -> None:
    model = load_model(f"{fake.spec}&batch=2")
    fake.asked.clear()
    sentences = ["The dog ran.", "A cat ran.", "The dog saw us.", "A cat saw us."]
    scores = model.score([*sentences, *sentences])
    known = "The dog saw a cat."
    assert fake.asked == [
        ["A cat ran.", "A cat saw us.", known],
        ["The dog ran.", "The dog saw us.", known],
    ]
    np.testing.assert_array_equal(scores[:4], scores[4:])


def test_synthesize_with_a_server_model(fake: Fake, tiny: Tiny) -> None:
    words = WordList.from_words(["dog", "cat", "old", "saw", "ran", "the", "man", "us", "bark"])
    here = load_model(f"hf:{tiny('gpt2')}?prefix=none")
    model = load_model(f"{fake.spec}&prefix={BOS}")
    found = synthesize(
        "the dog saw us", reject=model, accept=here, vocabulary=Vocabulary(words, words)
    )
    before, after = here.score(["the dog saw us", found.sentence])
    assert after >= before
    assert found.loss < 0


def _values(change: Callable[[list[Any]], None], *, tops: bool = True) -> Callable[[Any], Any]:
    """Return a fault that changes the log-probabilities of every text."""

    def fault(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for choice in choices:
            change(choice["logprobs"]["token_logprobs"])
            if not tops:
                choice["logprobs"]["top_logprobs"] = None
        return choices

    return fault


def _set(value: object) -> Callable[[list[Any]], None]:
    return lambda values: values.__setitem__(2, value)


def _zeros(values: list[Any]) -> None:
    values[1:] = [0.0] * (len(values) - 1)


def _other_model(values: list[Any]) -> None:
    values[1:] = [value - 1.0 for value in values[1:]]


def _listing(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    def fault(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for choice in choices:
            change(choice["logprobs"])
        return choices

    return fault


def _by_place(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for number, choice in enumerate(choices):
        values = choice["logprobs"]["token_logprobs"]
        values[1:] = [value - number for value in values[1:]]
    return choices


def _empty_tokens(listing: dict[str, Any]) -> None:
    for key, value in (("tokens", ""), ("token_logprobs", -1.0), ("top_logprobs", None)):
        listing[key].insert(2, value)


#: What a server may answer, and words of the message.
MALFORMED_RESPONSES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "zeros": (_values(_zeros, tops=False), "the log-probability 0; it does not compute them"),
    "zeros beside the best": (_values(_zeros), "its values cannot be used"),
    "-Infinity": (_values(_set(float("-inf"))), "does not answer with log-probabilities"),
    "NaN": (_values(_set(float("nan"))), "does not answer with log-probabilities"),
    "-1e300": (_values(_set(-1e300)), "greater than or equal to -1000"),
    "positive": (_values(_set(0.5)), "less than or equal to"),
    "false": (_values(_set(False)), "should be a valid number"),
    "a text": (_values(_set("-1.0")), "should be a valid number"),
    "none": (_values(_set(None)), "its values cannot be used"),
    "empty tokens": (_listing(_empty_tokens), "should have at least 1 character"),
    "one value too few": (_values(lambda values: values.pop()), "log-probabilities"),
    "another text": (_listing(lambda m: m["tokens"].__setitem__(1, " dogz")), "do not spell it"),
    "generated alone": (
        _listing(lambda m: [m.update({k: v[-1:]}) for k, v in list(m.items())]),
        "do not spell it",
    ),
    "a number of 400 digits": (
        lambda choices: b'{"choices": [{"index": ' + b"9" * 400 + b"}]}",
        "does not answer with log-probabilities",
    ),
    "nested without end": (
        lambda choices: b'{"choices": ' + b"[" * 100_000,
        "does not answer with log-probabilities",
    ),
    "no JSON": (lambda choices: b"hello", "does not answer with log-probabilities"),
    "too few": (lambda choices: choices[1:], "answers for"),
    "too many": (lambda choices: [*choices, {**choices[0], "index": 99}], "answers for"),
    "one text twice": (lambda choices: [choices[0]] * len(choices), "answers for"),
    "too long": (lambda choices: b" " * 2_000_000, "more than 1 MiB"),
}


@pytest.mark.parametrize("name", MALFORMED_RESPONSES)
@pytest.mark.parametrize("later", [False, True])
def test_malformed_server_responses_raise_errors(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, name: str, later: bool
) -> None:
    monkeypatch.setattr(server, "_MAX_BYTES", 2**20)
    fault, words = MALFORMED_RESPONSES[name]
    if later:  # after right answers
        model = load_model(fake.spec)
        model.score(TEXTS)
        fake.fault = fault
        with pytest.raises(EngineError) as error:
            model.score(TEXTS)
    else:
        fake.fault = fault
        with pytest.raises(EngineError) as error:
            load_model(fake.spec)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_changed_server_model_is_detected(fake: Fake, tmp_path: Path) -> None:
    model = load_model(fake.spec)
    fake.fault = _values(_other_model)
    with pytest.raises(EngineError, match="check that it still serves the same model"):
        model.score(TEXTS)
    fake.reset()
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    out = tmp_path / "scores.csv"
    requests = iter(range(100))
    fake.fault = lambda c: c if next(requests) < 6 else _values(_other_model)(c)
    argv = ["score", "--model", f"{fake.spec}&batch=1", str(tmp_path / "texts.txt")]
    assert main([*argv, "--out", str(out)]) == 2
    assert not out.exists()


def test_servers_with_inconsistent_scores_are_rejected(fake: Fake) -> None:
    def early(values: list[Any]) -> None:
        values[1:] = [*values[2:], -1.0]

    for fault, words in (
        (_by_place, "values of tiny at .* depend on the other texts of a request"),
        (_values(early, tops=False), "values are shifted by one token"),
        (_values(lambda v: v.__setitem__(slice(1, None), [-2.0] * (len(v) - 1))), "cannot be used"),
        (
            _values(lambda v: v.__setitem__(slice(1, None), [-2.0] * (len(v) - 1)), tops=False),
            "gives different texts the same values",
        ),
    ):
        fake.reset().fault = fault
        with pytest.raises(EngineError, match=words):
            load_model(fake.spec)


def test_batch_tolerance_is_estimated_from_differences(fake: Fake) -> None:
    def noisy(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return _values(
            lambda v: v.__setitem__(slice(1, None), [x - 0.01 * len(choices) for x in v[1:]])
        )(choices)

    fake.fault = noisy
    model = load_model(fake.spec)
    longest = len(fake.tokenizer(server._TEST_TEXTS[2])["input_ids"])
    assert model.batch_tolerance == pytest.approx(0.02 * (longest - 1), abs=1e-5)


@pytest.mark.parametrize(
    ("trouble", "n_requests", "words"),
    [
        (401, 1, "gives no answer (status 401, no room for Bearer …)"),
        (503, 6, "gives no answer (status 503, no room"),
        (500, 1, "a smaller batch= may help"),
        (None, 6, "gives no answer (RemoteDisconnected: "),
    ],
)
def test_failed_requests_are_reported(
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    trouble: int | None,
    n_requests: int,
    words: str,
) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    fake.fault = lambda choices: trouble
    with pytest.raises(EngineError) as error:
        load_model(f"{fake.spec}&key=MY_KEY")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert len(fake.asked) == n_requests


def test_requests_to_a_busy_server_are_retried(fake: Fake) -> None:
    model = load_model(fake.spec)
    expected = model.score(TEXTS)
    troubles = iter([429, 503, None])
    fake.fault = lambda choices: next(troubles, choices)
    np.testing.assert_array_equal(model.score(TEXTS), expected)


@pytest.mark.parametrize("key", ["", "sec\nret", "sécret"])
def test_invalid_api_keys_are_rejected(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(EngineError) as error:
        load_model(f"{fake.spec}&key=MY_KEY")
    assert "the environment variable 'MY_KEY' contains none" in str(error.value)
    assert not key or key not in str(error.value)


def test_api_key_is_sent_and_not_displayed(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret-secret")
    model = load_model(f"{fake.spec}&key=MY_KEY&timeout=3")
    assert fake.headers[0]["Authorization"] == "Bearer secret-secret"
    assert model.spec == fake.spec
    assert "secret" not in f"{model.spec} {model.event} {model!r} {model.name}"


def test_invalid_server_specs_are_rejected() -> None:
    assert refusal("openai:localhost?model=x") == (
        "'openai:localhost?model=x' lacks a server address or a model name; "
        "write openai:http://HOST:PORT/v1?model=NAME"
    )
    assert "write openai:http" in refusal("openai:http://localhost:1/v1")
    spec = "openai:http://localhost:1/v1?batch=0&model=x"
    assert refusal(spec) == f"batch='0' in {spec!r}: give a whole number >= 1"
    assert "unknown option 'layers'" in refusal("openai:http://localhost:1/v1?layers=1&model=x")
    message = refusal("openai:http://me:pass@localhost:1/v1?model=x")
    assert "contains a password" in message
    assert "pass@" not in message
