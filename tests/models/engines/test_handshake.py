"""Engines that fail in each way that is known of them are refused, whatever their protocol.

Tests `contstim.models.engines` and `contstim.models.engines.handshake`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_engines import BOS, PROTOCOLS, Answer, Fake, Fault

from contstim.errors import EngineError
from contstim.models.engines import Echo
from contstim.models.engines.model import EngineEvent
from contstim.models.registry import load_model


def _refusal(spec: str) -> str:
    """Return the message with which an engine is refused."""
    with pytest.raises(EngineError) as error:
        load_model(spec)
    return str(error.value)


def _each(change: Callable[[Answer], None]) -> Fault:
    def fault(answers: list[Answer]) -> list[Answer]:
        for answer in answers:
            change(answer)
        return answers

    return fault


def _zeros(a: Answer) -> None:
    a.values, a.best = [0.0] * len(a.tokens), [None] * len(a.tokens)


def _early(a: Answer) -> None:
    a.values, a.best = [*a.values[1:], -1.0], [None] * len(a.tokens)


def _not_echoed(a: Answer) -> None:
    a.numbers, a.tokens, a.values, a.best = (
        part[-2:] for part in (a.numbers, a.tokens, a.values, a.best)
    )


def _cut(a: Answer) -> None:
    a.values = [None if v is None else v if v > -2 else -9999.0 for v in a.values]


def _nan(a: Answer) -> None:
    a.values[2] = float("nan")


def _positive(a: Answer) -> None:
    a.values = [None if v is None else -v for v in a.values]
    a.best = [None] * len(a.tokens)


def _moved(a: Answer) -> None:
    """Say that the most probable token of every place is improbable."""
    a.best = [None, *((0, "a", -9.0) for _ in a.tokens[1:])]


def _unnormalised(a: Answer) -> None:
    a.best = [None, *((100_000, "a", 0.1) for _ in a.tokens[1:])]


def _by_order(answers: list[Answer]) -> list[Answer]:
    for number, answer in enumerate(answers):
        answer.values = [None if v is None else v - number for v in answer.values]
    return answers


FAULTS = {
    "zeros": (_each(_zeros), "gives different texts the same values (0)"),
    "early": (_each(_early), "values stand a place too early"),
    "not echoed": (_each(_not_echoed), "it does not echo the text"),
    "cut": (_each(_cut), "values of the most probable tokens alone"),
    "nan": (_each(_nan), "it computes NaN"),
    "positive": (_each(_positive), "which is above 0 and no log-probability"),
    "moved": (_each(_moved), "values do not stand in their places"),
    "unnormalised": (_each(_unnormalised), "they are not normalised"),
    "by order": (_by_order, "have it compute every text afresh ("),
    "too many": (lambda answers: answers * 2, "gives 2 answers for 1 texts"),
    "too few": (lambda answers: answers[1:], "gives 0 answers for 1 texts"),
}
# Where a token's own value stands among those listed, no two of them can disagree.
IMPOSSIBLE = {("vllm", "moved")}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_refused(fake: Fake, protocol: str, fault: str) -> None:
    if (protocol, fault) in IMPOSSIBLE:
        return
    fake.reset(protocol)
    fake.fault, words = FAULTS[fault]
    message = _refusal(fake.spec)
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("protocol", "setting"),
    [
        ("openai", "vLLM: --no-enable-prefix-caching, SGLang: --disable-radix-cache"),
        ("vllm", "--no-enable-prefix-caching"),
        ("sglang", "--disable-radix-cache"),
    ],
)
def test_each_engine_has_its_setting(fake: Fake, protocol: str, setting: str) -> None:
    fake.reset(protocol).fault = _by_order
    assert _refusal(fake.spec).endswith(
        f"in which order; have it compute every text afresh ({setting})"
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_begins_a_text_stands_there_once(fake: Fake, protocol: str) -> None:
    fake.reset(protocol).opening = [fake.tokenizer.eos_token_id]
    event = load_model(fake.spec).event
    assert isinstance(event, EngineEvent)
    assert event.opening == (f"<{fake.tokenizer.eos_token_id}>" if protocol == "vllm" else BOS)
    fake.opening *= 2
    assert f"puts '{BOS * 2}' before the text twice" in _refusal(fake.spec)


def test_a_prefix_doubles_nothing(fake: Fake) -> None:
    fake.opening = [fake.tokenizer.eos_token_id]
    message = _refusal(f"{fake.spec}&prefix={BOS}")
    assert f"puts '{BOS}' before the text, and so does prefix='{BOS}'" in message


def test_small_differences_become_the_resolution(fake: Fake) -> None:
    def noisy(answers: list[Answer]) -> list[Answer]:
        for answer in answers:
            shift = 0.01 * len(answers)
            answer.values = [None if v is None else v - shift for v in answer.values]
        return answers

    fake.fault = noisy
    model = load_model(fake.spec)
    # Asked about alone and with two others: 0.02 for each token that is predicted, of the longest.
    longest = max(len(echo.tokens) for echo in model.findings.echoes)
    assert longest > 30
    assert model.resolution == pytest.approx(0.02 * (longest - 1), abs=1e-5)


def test_tokens_that_do_not_spell_a_text_have_no_place_in_it() -> None:
    tokens, values = ["<s>", "a", " b", " c"], [None, -1.0, -2.0, -3.0]
    lists = [None, [-1.0], [-0.5, -2.0], None]
    echo = Echo.spelled("a b", tokens, values, lists)
    assert echo is not None
    assert echo.tokens == ("<s>", "a", " b")
    np.testing.assert_array_equal(echo.starts, [-1, 0, 1])
    np.testing.assert_array_equal(echo.log_probs, [np.nan, -1, -2])
    np.testing.assert_allclose(echo.mass[1:], [np.exp(-1), np.exp(-0.5) + np.exp(-2)])
    assert Echo.spelled("a bb", tokens, values, lists) is None
    assert Echo.spelled("a  b", tokens, values, lists) is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_that_is_another_is_found_by_its_kept_answers(
    fake: Fake, protocol: str, tmp_path: Path
) -> None:
    spec = f"{fake.reset(protocol).spec}&answers={tmp_path}"
    load_model(spec)

    def other(answers: list[Answer]) -> list[Answer]:
        for answer in answers:
            answer.values = [None if v is None else v - 1 for v in answer.values]
        return answers

    fake.fault = other
    assert "from those that it gave when the answers that are kept began" in _refusal(spec)
