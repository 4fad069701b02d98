"""Causal models behind a server of completions: ``openai:http://HOST:PORT/v1?model=NAME``.

The server must answer ``POST /completions`` with ``echo`` and ``logprobs``, as vLLM and SGLang do.
Chat endpoints, Ollama and the server of llama.cpp do not.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import accumulate
from typing import Annotated, Any
from urllib.parse import urlsplit

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from contstim.errors import EngineError, SpecError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.engines import EngineModel, PromptLogprobs, integer_option

#: Options of specs and their defaults; those that scores depend on, and the others.
SERVER_OPTIONS = {"model": "", "prefix": "", "batch": "32"}
REQUEST_OPTIONS = {"key": "", "timeout": "600"}
# Texts that the server is validated on: two share a prefix, and one is long.
_TRIAL_TEXTS = (
    "The dog saw a cat.",
    "The dog saw a house in it.",
    "The old man saw the dog, a cat saw the old man, the dog saw the cat, and the cat ran fast as "
    "the woman saw.",
)
# Nats: rounding; the largest difference between two values of one token; the smallest value.
_CLOSE, _MAX_DIFFERENCE, _MINIMUM = 1e-3, 0.5, -1e3
_MAX_BYTES = 64 * 2**20  # of one answer
_TRIES, _PAUSE, _MAX_WAIT = 6, 0.5, 120.0  # requests; seconds before the second, doubling
_BUSY, _TOO_MUCH = {408, 429, 503}, {413, 500, 502, 504}

_LogProb = Annotated[float, Field(ge=_MINIMUM, le=_CLOSE, allow_inf_nan=False)]
_TopLogProb = Annotated[float, Field(le=_CLOSE, allow_inf_nan=False)]


class _Listing(BaseModel, strict=True):
    tokens: list[Annotated[str, Field(min_length=1)]]
    token_logprobs: list[_LogProb | None]
    top_logprobs: list[dict[str, _TopLogProb] | None] | None = None


class _Choice(BaseModel, strict=True):
    index: int
    logprobs: _Listing


class _Answer(BaseModel, strict=True):
    choices: list[_Choice]


class ServedModel(EngineModel):
    """A causal model of a server.

    Options of the spec: ``model``, the server's name of the model; ``prefix``, a text before every
    sentence; ``batch``, the number of texts of a request; ``key``, the environment variable that
    contains an API key; ``timeout`` in seconds. The key is in no message and no file.

    The server is validated before its first score is used (`validate_server`), and so is every
    answer: one list of tokens per text, which spell the text, each with a finite log-probability
    of at most 0. With every request the server also scores a text of known values.

    Parameters
    ----------
    spec
        The spec.

    Raises
    ------
    SpecError
        For a bad option, or a spec without address or model name.
    EngineError
        If the key is not set, the server does not answer, or an answer is not valid.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options({*SERVER_OPTIONS, *REQUEST_OPTIONS})
        shown = tuple(pair for pair in spec.options if pair[0] not in REQUEST_OPTIONS)
        super().__init__(ModelSpec(spec.family, spec.location, shown).canonical(SERVER_OPTIONS))
        self.model = spec.get("model", "")
        self.url = spec.location.rstrip("/")
        address = urlsplit(self.url)
        if address.scheme not in ("http", "https") or not address.netloc or not self.model:
            raise SpecError(
                f"{str(spec)!r} does not say where the server is and what it calls the model; "
                f"write {spec.family}:http://HOST:PORT/v1?model=NAME"
            )
        if "@" in address.netloc:
            raise SpecError(
                f"the address of {spec.family}:…@{address.hostname} contains a password; write "
                "key=VARIABLE with the environment variable that contains the key"
            )
        self.name = f"{self.model} at {self.url}"
        self.prefix = spec.get("prefix", SERVER_OPTIONS["prefix"])
        self.batch = integer_option(spec, "batch", SERVER_OPTIONS["batch"])
        self._timeout = integer_option(spec, "timeout", REQUEST_OPTIONS["timeout"])
        self._headers = {"Content-Type": "application/json"}
        self._key = ""
        if variable := spec.get("key", REQUEST_OPTIONS["key"]):
            self._key = os.environ.get(variable, "").strip()
            if not (self._key and self._key.isascii() and self._key.isprintable()):
                raise EngineError(
                    f"{self.name} needs a key, and the environment variable {variable!r} contains "
                    "none; set it"
                )
            self._headers["Authorization"] = f"Bearer {self._key}"
        self._known: PromptLogprobs | None = None
        self._resolution = validate_server(self)
        (self._known,) = self._request([self.prefix + _TRIAL_TEXTS[0]])
        self.opening = self._known.opening

    @property
    def fingerprint(self) -> str:
        """SHA-256 of address and name; the weights are not known."""
        return digest(self.name)

    @property
    def batch_tolerance(self) -> float:
        """The largest difference between two scores of one text when the server was validated."""
        return self._resolution

    def prompt_logprobs(self, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Ask the server about S texts, and about one whose values are known."""
        if self._known is None:
            return self._request(texts)
        *answers, again = self._request([*texts, self.prefix + _TRIAL_TEXTS[0]])
        if again.tokens != self._known.tokens or _difference(again, self._known) > _MAX_DIFFERENCE:
            raise EngineError(
                f"{self.name} now gives another answer for {_TRIAL_TEXTS[0]!r} than at first; see "
                "whether it serves the same model still"
            )
        for text, answer in zip(texts, answers, strict=True):
            if answer.opening != self.opening:
                raise EngineError(
                    f"{self.name} puts {''.join(answer.opening)!r} before {text!r}, and put "
                    f"{''.join(self.opening)!r} before other texts"
                )
        return answers

    def _request(self, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Send one request, again where the server is busy, and validate the answer."""
        body = {"model": self.model, "prompt": list(texts), "max_tokens": 1, "temperature": 0}
        data = json.dumps({**body, "logprobs": 1, "echo": True}).encode()
        for attempt in range(_TRIES):
            wait = _PAUSE * 2**attempt
            try:
                status, answer, asked_wait = self._post(data)
            except (OSError, HTTPException) as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if status == 200:
                    return self._validated(answer, texts)
                message = " ".join(answer.decode("utf-8", "replace").split())
                if self._key:
                    message = message.replace(self._key, "…")
                reason = f"status {status}, {message[:200]}"
                if status in _TOO_MUCH:
                    reason += "; a smaller batch= may help"
                if status not in _BUSY:
                    break
                if asked_wait.isdecimal():
                    wait = max(wait, min(float(asked_wait), _MAX_WAIT))
            if attempt < _TRIES - 1:
                time.sleep(wait)
        raise EngineError(f"{self.name} gives no answer ({reason}); see whether it runs")

    def _post(self, data: bytes) -> tuple[int, bytes, str]:
        """Return the status, the body and the header Retry-After of an answer."""
        address = urlsplit(self.url)
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        connection = kind(address.netloc, timeout=self._timeout)
        try:
            connection.request("POST", f"{address.path}/completions", data, self._headers)
            with connection.getresponse() as reply:
                body = reply.read(_MAX_BYTES + 1)
                if len(body) > _MAX_BYTES:
                    raise EngineError(
                        f"{self.name} answers with more than {_MAX_BYTES // 2**20} MiB; a smaller "
                        "batch= may help"
                    )
                return reply.status, body, reply.headers.get("Retry-After", "")
        finally:
            connection.close()

    def _validated(self, body: bytes, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Return the log-probabilities in an answer. Raises `EngineError` if it is not valid."""
        try:
            choices = _Answer.model_validate_json(body).choices
        except ValidationError as error:
            first: Mapping[str, Any] = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise EngineError(
                f"{self.name} does not answer with log-probabilities of the text ({place}: "
                f"{first['msg']}); it must know 'echo' and 'logprobs', which the server of "
                "llama.cpp, Ollama and chat endpoints do not"
            ) from None
        choices.sort(key=lambda choice: choice.index)
        if [choice.index for choice in choices] != list(range(len(texts))):
            raise EngineError(
                f"{self.name} gives {len(choices)} answers for {len(texts)} texts; it does not "
                "follow the protocol"
            )
        return [
            self._placed(choice.logprobs, text) for choice, text in zip(choices, texts, strict=True)
        ]

    def _placed(self, listing: _Listing, text: str) -> PromptLogprobs:
        """Find the tokens that spell a text, between an opening and a generated token."""
        tokens, values, tops = listing.tokens, listing.token_logprobs, listing.top_logprobs
        if len(tokens) != len(values) or (tops is not None and len(tops) != len(tokens)):
            raise EngineError(
                f"{self.name} gives {len(tokens)} tokens of {text!r} and {len(values)} "
                f"log-probabilities"
            )
        for n_opening in range(len(tokens) + 1):
            starts = list(accumulate(map(len, tokens[n_opening:]), initial=0))
            if "".join(tokens[n_opening:]).startswith(text) and len(text) in starts:
                break
        else:
            raise EngineError(
                f"the tokens that {self.name} gives of {text!r} do not spell it (they begin "
                f"{''.join(tokens)[:40]!r}): it does not echo the text, or writes its characters "
                "otherwise"
            )
        n_text = starts.index(len(text))
        n = n_opening + n_text
        if len(set(tokens[:n_opening])) < n_opening or self.prefix in tokens[:n_opening]:
            raise EngineError(
                f"{self.name} puts {''.join(tokens[:n_opening])!r} before the text, where the same "
                f"token is to be once; have the server or prefix={self.prefix!r} put it there"
            )
        log_probs = np.full(n, np.nan)
        for i, value in enumerate(values[1:n], start=1):
            best = max((tops[i] or {}).values(), default=0.0) if tops is not None else 0.0
            if value is None or value > best + _CLOSE:
                raise EngineError(
                    f"{self.name} gives {tokens[i]!r} in {text!r} the log-probability {value}, and "
                    f"its most probable token {best:.3g}; its values cannot be used"
                )
            log_probs[i] = value
        if n > 2 and not log_probs[1:].any():
            raise EngineError(
                f"{self.name} gives every token of {text!r} the log-probability 0; it does not "
                "compute them"
            )
        where = np.array([-1] * n_opening + starts[:n_text], dtype=np.int64)
        return PromptLogprobs(tuple(tokens[:n]), where, log_probs)


def validate_server(model: ServedModel) -> float:
    """Compare a server's values of a few texts, alone and together.

    Returns
    -------
    float
        The largest difference between two scores of one text, at least 0.001 nats.

    Raises
    ------
    EngineError
        If texts have the same values, if a value depends on later tokens, or if it differs with
        the other texts of a request by more than half a nat.
    """
    texts = [model.prefix + text for text in _TRIAL_TEXTS]
    alone = [model.prompt_logprobs([text])[0] for text in texts]
    together = model.prompt_logprobs(texts)
    if all(np.array_equal(alone[0].log_probs[-3:], other.log_probs[-3:]) for other in alone[1:]):
        raise EngineError(
            f"{model.name} gives different texts the same values; it does not compute them"
        )
    first, second = alone[:2]
    n_shared = next(i for i, (a, b) in enumerate(_pairs(first, second)) if a != b)
    before = np.abs(first.log_probs[1:n_shared] - second.log_probs[1:n_shared])
    if before.max(initial=0.0) > _MAX_DIFFERENCE:
        raise EngineError(
            f"the value that {model.name} gives {first.tokens[1 + int(before.argmax())]!r} depends "
            "on the tokens after it: values stand a token too early, or the model is not causal"
        )
    batch_tolerance = _CLOSE
    for single, joint in zip(alone, together, strict=True):
        if single.tokens != joint.tokens or _difference(single, joint) > _MAX_DIFFERENCE:
            raise EngineError(
                f"values of {model.name} change with the other texts of a request; switch off its "
                "cache of prefixes (vLLM: --no-enable-prefix-caching, SGLang: "
                "--disable-radix-cache), or write batch=1"
            )
        total = float(np.nansum(np.abs(single.log_probs - joint.log_probs)))
        batch_tolerance = max(batch_tolerance, total)
    return batch_tolerance


def _pairs(first: PromptLogprobs, second: PromptLogprobs) -> zip[tuple[str, str]]:
    return zip(first.tokens, second.tokens, strict=False)


def _difference(first: PromptLogprobs, second: PromptLogprobs) -> float:
    """Return the largest difference between two values of one token, nats."""
    return float(np.nanmax(np.abs(first.log_probs - second.log_probs), initial=0.0))
