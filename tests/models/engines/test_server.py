"""What servers are asked, how often, and what is done when they fail.

Tests `contstim.models.engines.server`, `contstim.models.engines.completions`,
`contstim.models.engines.vllm` and `contstim.models.engines.sglang`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_engines import BOS, PROTOCOLS, Fake
from tiny_transformers import SENTENCES, refusal

from contstim.errors import BudgetError, EngineError
from contstim.models.base import SentenceModel
from contstim.models.engines import server
from contstim.models.engines.model import EngineModel
from contstim.models.registry import load_model

# None of them is one that engines are tried on, whose answers are there.
TEXTS = ["The cat saw a dog.", *SENTENCES[1:]]
Tiny = Callable[[str], Path]


def _model(spec: str) -> EngineModel:
    model = load_model(spec)
    assert isinstance(model, EngineModel)
    return model


def _here(tiny: Tiny) -> SentenceModel:
    return load_model(f"hf:{tiny('gpt2')}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_right_engine_gives_the_scores_of_its_model(
    fake: Fake, tiny: Tiny, protocol: str
) -> None:
    model = _model(f"{fake.reset(protocol).spec}&prefix={BOS}")
    assert {request["path"] for request in fake.requests} == {fake.protocol.route}
    if protocol == "sglang":  # which says nothing of the text unless asked to
        assert fake.requests[0]["logprob_start_len"] == 0
    assert model.resolution == 1e-3
    np.testing.assert_allclose(model.score(TEXTS), _here(tiny).score(TEXTS), atol=1e-3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_an_engine_puts_before_a_text_is_a_prefix(
    fake: Fake, tiny: Tiny, protocol: str
) -> None:
    fake.reset(protocol).opening = [fake.tokenizer.eos_token_id]
    scores = load_model(fake.spec).score(TEXTS)
    np.testing.assert_allclose(scores, _here(tiny).score(TEXTS), atol=1e-3)


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("openai", "must know 'echo' and 'logprobs', which the server of llama.cpp"),
        ("vllm", "must know 'prompt_logprobs' and 'return_token_ids' (vLLM from 0.10.2 on)"),
        ("sglang", "must know 'return_logprob' and 'logprob_start_len'"),
    ],
)
def test_answers_without_log_probabilities(fake: Fake, protocol: str, words: str) -> None:
    fake.reset(protocol)
    choices = {"choices": [{"index": 0, "text": "hm"}]}
    fake.garble = lambda value: [{"text": "hm"}] if isinstance(value, list) else choices
    with pytest.raises(EngineError) as error:
        load_model(fake.spec)
    assert words in str(error.value)


def test_lists_of_other_lengths(fake: Fake) -> None:
    def garble(value: Any) -> Any:
        del value["choices"][0]["logprobs"]["token_logprobs"][-1]
        return value

    fake.garble = garble
    with pytest.raises(EngineError, match="log-probabilities and"):
        load_model(fake.spec)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (401, "gives no answer (status 401, no room); see whether it runs"),
        (503, "gives no answer (status 503, no room); see whether it runs"),
        (500, "and has room for the log-probabilities of a text beside its weights (vLLM: "),
        (None, "gives no answer (RemoteDisconnected: "),
    ],
)
def test_no_answer(fake: Fake, trouble: int | None, words: str) -> None:
    fake.fault = lambda answers: trouble
    with pytest.raises(EngineError) as error:
        load_model(fake.spec)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert len(fake.requests) == (1 if trouble == 401 else 6)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("trouble", [429, 503, None])
def test_a_request_is_made_again(
    fake: Fake, tiny: Tiny, protocol: str, trouble: int | None
) -> None:
    model = _model(f"{fake.reset(protocol).spec}&prefix={BOS}")
    spent = model.engine.spent
    assert spent is not None
    before, tries = spent.requests, iter([trouble, trouble, trouble])
    fake.fault = lambda answers: next(tries, answers)
    if trouble is None:  # fewer texts are asked about where a connection is lost twice
        tries = iter([trouble])
    np.testing.assert_allclose(model.score(TEXTS), _here(tiny).score(TEXTS), atol=1e-3)
    # What was turned away costs nothing; what was lost may have.
    assert spent.requests - before == (2 if trouble is None else 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("trouble", [500, 413, None])
def test_texts_too_many_for_its_memory_are_halved_for_good(
    fake: Fake, tiny: Tiny, protocol: str, trouble: int | None
) -> None:
    model = load_model(f"{fake.reset(protocol).spec}&prefix={BOS}")
    fake.requests.clear()
    fake.fault = lambda answers: answers if len(answers) < 3 else trouble
    here = _here(tiny)
    np.testing.assert_allclose(model.score(TEXTS), here.score(TEXTS), atol=1e-3)
    assert [len(texts) for texts in fake.asked] == [4, 4, 2, 2]
    model.score([sentence.replace("o", "a") for sentence in TEXTS])
    assert [len(texts) for texts in fake.asked][4:] == [2, 2]


def test_an_engine_that_is_gone_is_not_waited_for_twice(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, slept = _model(fake.spec), list[float]()
    monkeypatch.setattr(server.time, "sleep", slept.append)
    monkeypatch.setattr(model.engine, "url", "http://127.0.0.1:1")
    for tries in (5, 5):
        with pytest.raises(EngineError, match="ConnectionRefusedError"):
            model.score(TEXTS)
        assert len(slept) == tries
    assert slept == [0.5, 1, 2, 4, 8]


def test_a_key_is_in_no_message_and_no_file(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineError) as error:
        load_model(f"{fake.spec}&key=MY_KEY")
    assert "the environment variable 'MY_KEY' is not set" in str(error.value)
    monkeypatch.setenv("MY_KEY", "secret-secret")
    model = load_model(f"{fake.spec}&key=MY_KEY&answers={tmp_path}")
    model.score(TEXTS)
    assert fake.headers[0]["Authorization"] == "Bearer secret-secret"
    written = "".join(path.read_text("utf-8") for path in tmp_path.rglob("*.json"))
    assert "The dog saw" in written
    assert "secret" not in f"{model.spec} {model.event} {model!r} {written}"
    fake.fault = lambda answers: 401
    with pytest.raises(EngineError) as error:
        model.score(["Another one."])
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("option", "answered"), [("requests=14", 2), ("tokens=231", 1)])
def test_a_budget_is_kept(fake: Fake, option: str, answered: int) -> None:
    model = _model(f"{fake.spec}&batch=1&{option}")
    assert len(fake.requests) == 12
    with pytest.raises(BudgetError) as error:
        model.score(TEXTS)
    assert len(fake.requests) == 12 + answered
    assert f"and {option} is all it may; what it answered counts" in str(error.value)
    # What it answered is there without a request; the rest is not.
    assert np.isfinite(model.score(sorted(TEXTS)[:answered])).all()
    assert len(fake.requests) == 12 + answered


def test_what_is_spent_is_said_before_and_as_it_goes(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = _model(f"{fake.spec}&batch=1")
    assert model.engine.spent is not None
    before = str(model.engine.spent)
    monkeypatch.setattr(server, "_BETWEEN_LINES", 0.0)
    model.score(TEXTS)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"{model.engine.name}: 4 texts in 4 requests, about ")
    assert lines[0].endswith(f"; {before} so far")
    about = int(lines[0].split("about ")[1].split()[0])
    tokens = sum(len(fake.answer(text).tokens) - 1 for text in TEXTS)
    assert abs(about - tokens) < 0.5 * tokens
    assert lines[-1] == f"{model.engine.name}: {model.engine.spent} so far"


@pytest.mark.parametrize("family", ["openai", "vllm"])
def test_specs_that_say_too_little(family: str) -> None:
    assert refusal(f"{family}:localhost?model=x") == (
        f"'{family}:localhost?model=x' does not say where the engine is and what it calls the "
        f"model; write {family}:http://HOST:PORT/v1?model=NAME"
    )
    assert refusal("sglang:localhost").endswith("write sglang:http://HOST:PORT")
    for option in ("batch", "requests", "tokens"):
        spec = f"{family}:http://localhost:1/v1?{option}=0&model=x"
        if option != "batch":
            spec = f"{family}:http://localhost:1/v1?model=x&{option}=0"
        assert refusal(spec) == f"{option}='0' in {spec!r}: give a whole number from 1 on"
    assert "unknown option 'layers'" in refusal(f"{family}:http://localhost:1/v1?layers=1")


def test_choices_come_in_any_order(fake: Fake) -> None:
    model = load_model(fake.spec)
    alone = [model.score([sentence])[0] for sentence in TEXTS]
    again = load_model(f"{fake.spec}&batch=31")
    np.testing.assert_allclose(again.score(TEXTS), alone, atol=1e-6)
