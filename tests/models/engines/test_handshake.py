"""Engines that fail in each known way are refused or survived; a right one gives a model's scores.

Tests `contstim.models.engines`, `contstim.models.engines.completions`,
`contstim.models.engines.handshake` and `contstim.models.engines.model`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_transformers import SENTENCES, refusal
from transformers import AutoModelForCausalLM, AutoTokenizer

from contstim.errors import EngineError, InputError
from contstim.models.check import check_model
from contstim.models.engines import completions
from contstim.models.registry import load_model
from contstim.search import synthesize
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary

Tiny = Callable[[str], Path]
Fault = Callable[["Fake", list[dict[str, Any]]], Any]
BOS = "<|endoftext|>"


class Fake:
    """A server of completions, and what it does wrong to its answers."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.network = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.fault: Fault = lambda fake, choices: choices
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.opening: list[int] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.requests.append(asked)
                fake.headers.append(dict(self.headers))
                answer = fake.fault(
                    fake, [fake.choice(i, t) for i, t in enumerate(asked["prompt"])]
                )
                if isinstance(answer, int):
                    self.send_response(answer)
                    self.send_header("Retry-After", "0")
                    self.end_headers()
                    self.wfile.write(b"no\nroom")
                elif answer is None:
                    self.close_connection = True
                else:
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(json.dumps({"choices": answer}).encode())

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.spec = f"openai:http://127.0.0.1:{self.server.server_port}/v1?model=tiny"

    def choice(self, index: int, text: str) -> dict[str, Any]:
        ids = [*self.opening, *self.tokenizer(text, add_special_tokens=False)["input_ids"]]
        with torch.no_grad():
            logits = self.network(torch.tensor([ids])).logits[0].double()
        logs = logits.log_softmax(dim=1)
        ids.append(int(logs[-1].argmax()))  # one is generated
        tokens = [self.tokenizer.decode([token]) for token in ids]
        values = [None, *(float(logs[k - 1, ids[k]]) for k in range(1, len(ids)))]
        best = [None]
        for k in range(1, len(ids)):
            token = int(logs[k - 1].argmax())
            best.append({self.tokenizer.decode([token]): float(logs[k - 1, token])})
        said = {"tokens": tokens, "token_logprobs": values, "top_logprobs": best}
        return {"index": index, "text": text, "logprobs": said}


@pytest.fixture(scope="module")
def served(tiny: Tiny) -> Iterator[Fake]:
    fake = Fake(tiny("gpt2"))
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


@pytest.fixture
def fake(served: Fake, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setattr(completions, "_PAUSE", 0.01)
    served.fault, served.opening = lambda fake, choices: choices, []
    served.requests.clear()
    served.headers.clear()
    return served


def test_a_right_engine_gives_the_scores_of_its_model(fake: Fake, tiny: Tiny) -> None:
    here = load_model(f"hf:{tiny('gpt2')}")
    model = load_model(f"{fake.spec}&prefix={BOS}")
    assert model.resolution == 1e-3
    np.testing.assert_allclose(model.score(SENTENCES), here.score(SENTENCES), atol=1e-3)
    for one, other in zip(model.score_words(SENTENCES), here.score_words(SENTENCES), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)
    check_model(model, SENTENCES, words=["dog", "saw", "us"])
    assert load_model(model.spec).event == model.event


def test_without_a_prefix_the_first_word_is_a_condition(fake: Fake, tiny: Tiny) -> None:
    here = load_model(f"hf:{tiny('gpt2')}?prefix=none")
    model = load_model(fake.spec)
    assert model.event.start == "none"
    np.testing.assert_allclose(model.score(SENTENCES), here.score(SENTENCES), atol=1e-3)
    assert np.isnan(model.score_words(SENTENCES)[0][0])
    with pytest.raises(InputError) as error:
        model.score(["Dog."])
    assert str(error.value) == (
        f"'Dog.' has one word, and {model.spec} has nothing to predict it from; give a prefix"
    )


def test_what_an_engine_puts_before_a_text_is_a_prefix(fake: Fake, tiny: Tiny) -> None:
    fake.opening = [fake.tokenizer.eos_token_id]
    model = load_model(fake.spec)
    assert model.event.opening == BOS
    here = load_model(f"hf:{tiny('gpt2')}")
    np.testing.assert_allclose(model.score(SENTENCES), here.score(SENTENCES), atol=1e-3)


def _all(change: Callable[[dict[str, Any]], None]) -> Fault:
    def fault(fake: Fake, choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for choice in choices:
            change(choice["logprobs"])
        return choices

    return fault


def _zeros(said: dict[str, Any]) -> None:
    said["token_logprobs"] = [0.0] * len(said["tokens"])
    said["top_logprobs"] = None


def _early(said: dict[str, Any]) -> None:
    said["token_logprobs"] = [*said["token_logprobs"][1:], -1.0]
    said["top_logprobs"] = None


def _not_echoed(said: dict[str, Any]) -> None:
    for key in said:
        said[key] = said[key][-1:]


def _cut(said: dict[str, Any]) -> None:
    said["token_logprobs"] = [
        None if v is None else v if v > -2 else -9999.0 for v in said["token_logprobs"]
    ]


def _short(said: dict[str, Any]) -> None:
    said["token_logprobs"] = said["token_logprobs"][:-1]


def _nan(said: dict[str, Any]) -> None:
    said["token_logprobs"][2] = float("nan")


def _positive(said: dict[str, Any]) -> None:
    said["token_logprobs"] = [None, *(-v for v in said["token_logprobs"][1:])]


def _moved(said: dict[str, Any]) -> None:
    """Say that the most probable token of every place is improbable."""
    said["top_logprobs"] = [None, *({"a": -9.0} for _ in said["tokens"][1:])]


def _unnormalised(said: dict[str, Any]) -> None:
    said["top_logprobs"] = [{"a": -0.1, "b": -0.2}] * len(said["tokens"])


def _by_order(fake: Fake, choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for number, choice in enumerate(choices):
        values = choice["logprobs"]["token_logprobs"]
        choice["logprobs"]["token_logprobs"] = [None, *(v - number for v in values[1:])]
    return choices


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (_all(_zeros), "gives different texts the same values (0)"),
        (_all(_early), "values stand a place too early"),
        (_all(_not_echoed), "it does not echo the text"),
        (_all(_cut), "values of the most probable tokens alone"),
        (_all(_short), "log-probabilities and"),
        (_all(_nan), "it computes NaN"),
        (_all(_positive), "which is above 0 and no log-probability"),
        (_all(_moved), "values do not stand in their places"),
        (_all(_unnormalised), "they are not normalised"),
        (_by_order, "(vLLM: --no-enable-prefix-caching)"),
        (lambda fake, choices: choices[:-1] or [{}], "without log-probabilities of the text"),
        (lambda fake, choices: choices * 2, "gives 2 answers for 1 texts"),
        (lambda fake, choices: [{"index": 0, "text": "hm"}], "must know 'echo' and 'logprobs'"),
        (lambda fake, choices: 401, "gives no answer (status 401, no room); see whether it runs"),
        (lambda fake, choices: 503, "gives no answer (status 503, no room); see whether it runs"),
        (lambda fake, choices: None, "gives no answer (RemoteDisconnected: "),
    ],
)
def test_faults_are_refused(
    fake: Fake, fault: Fault, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completions.time, "sleep", lambda seconds: None)
    fake.fault = fault
    with pytest.raises(EngineError) as error:
        load_model(fake.spec)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_what_begins_a_text_stands_there_once(fake: Fake) -> None:
    fake.opening = [fake.tokenizer.eos_token_id]
    with pytest.raises(EngineError) as error:
        load_model(f"{fake.spec}&prefix={BOS}")
    assert f"puts '{BOS}' before the text, and so does prefix='{BOS}'" in str(error.value)
    fake.opening *= 2
    with pytest.raises(EngineError) as error:
        load_model(fake.spec)
    assert "before the text twice" in str(error.value)


def test_small_differences_become_the_resolution(fake: Fake) -> None:
    def noisy(fake: Fake, choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for choice in choices:
            values = choice["logprobs"]["token_logprobs"]
            shift = 0.01 * len(choices)
            choice["logprobs"]["token_logprobs"] = [None, *(v - shift for v in values[1:])]
        return choices

    fake.fault = noisy
    assert load_model(fake.spec).resolution == pytest.approx(0.02, abs=1e-6)


@pytest.mark.parametrize("trouble", [429, 500, None])
def test_a_request_is_made_again(
    fake: Fake, tiny: Tiny, trouble: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completions.time, "sleep", lambda seconds: None)
    model = load_model(f"{fake.spec}&prefix={BOS}")
    tries = iter([trouble, trouble])
    fake.fault = lambda fake, choices: next(tries, choices)
    here = load_model(f"hf:{tiny('gpt2')}").score(SENTENCES)
    np.testing.assert_allclose(model.score(SENTENCES), here, atol=1e-3)


def test_texts_too_many_for_its_memory_are_halved(
    fake: Fake, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completions.time, "sleep", lambda seconds: None)
    model = load_model(f"{fake.spec}&prefix={BOS}")
    fake.fault = lambda fake, choices: choices if len(choices) < 3 else 500
    here = load_model(f"hf:{tiny('gpt2')}").score(SENTENCES)
    np.testing.assert_allclose(model.score(SENTENCES), here, atol=1e-3)


def test_a_text_is_asked_about_once(fake: Fake) -> None:
    model = load_model(f"{fake.spec}&batch=2")
    fake.requests.clear()
    model.score([*SENTENCES, *SENTENCES])
    assert [request["prompt"] for request in fake.requests] == [SENTENCES[:2], SENTENCES[2:]]


def test_a_key_is_in_no_message(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError) as error:
        load_model(f"{fake.spec}&key=MY_KEY")
    assert "the environment variable 'MY_KEY' is not set" in str(error.value)
    monkeypatch.setenv("MY_KEY", "secret-secret")
    model = load_model(f"{fake.spec}&key=MY_KEY")
    assert fake.headers[0]["Authorization"] == "Bearer secret-secret"
    assert "secret" not in f"{model.spec} {model.event} {model!r}"
    fake.fault = lambda fake, choices: 401
    with pytest.raises(EngineError) as error:
        model.score(SENTENCES)
    assert "secret" not in str(error.value)


def test_an_engine_in_a_search(fake: Fake, tiny: Tiny) -> None:
    engine, here = (
        load_model(f"{fake.spec}&prefix={BOS}"),
        load_model(f"hf:{tiny('gpt2')}?prefix=none"),
    )
    words = WordList.of(["dog", "cat", "old", "saw", "ran", "fast", "the"])
    for reject, accept in ((engine, here), (here, engine)):
        found = synthesize(
            "the dog saw us", reject=reject, accept=accept, vocabulary=Vocabulary(words, words)
        )
        before, after = accept.score(["the dog saw us", found.sentence])
        assert after >= before - accept.resolution
        assert found.loss <= 0


def test_specs_that_say_too_little() -> None:
    assert refusal("openai:localhost?model=x") == (
        "'openai:localhost?model=x' does not say where the engine is and what it calls the model; "
        "write openai:http://HOST:PORT/v1?model=NAME"
    )
    spec = "openai:http://localhost:1/v1?batch=0&model=x"
    assert refusal(spec) == f"batch='0' in {spec!r}: give a whole number from 1 on"
