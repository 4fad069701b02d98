"""The model family ``openai:http://HOST:PORT/v1?model=NAME``: models on completion servers.

The server must support ``POST /completions`` with ``echo`` and ``logprobs``, as vLLM and SGLang do.
Chat endpoints, Ollama and the server of llama.cpp do not support them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
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

#: Options of the model specification that scores depend on, with their defaults.
SERVER_OPTIONS = {"model": "", "prefix": "", "batch": "32"}
#: Options of the model specification for requests, with their defaults.
REQUEST_OPTIONS = {"key": "", "timeout": "600"}
# Texts for validating the server: two share a prefix, and one is long.
_TEST_TEXTS = (
    "The dog saw a cat.",
    "The dog saw a house in it.",
    "The old man saw the dog, a cat saw the old man, the dog saw the cat, and the cat ran fast as "
    "the woman saw.",
)
# Limits of log-probabilities in nats: rounding error, maximum difference between two results for
# one token, and lower bound.
_ROUNDING_ERROR, _MAX_DIFFERENCE, _MIN_LOG_PROB = 1e-3, 0.5, -1e3
# Maximum size of a response.
_MAX_BYTES = 64 * 2**20
# Maximum number of attempts; pause before the second attempt in seconds, which doubles each time;
# and maximum pause that a server may request.
_MAX_ATTEMPTS, _PAUSE, _MAX_PAUSE = 6, 0.5, 120.0
# HTTP status codes of busy servers, and of requests that may be too large.
_BUSY_CODES, _OVERLOAD_CODES = {408, 429, 503}, {413, 500, 502, 504}

_LogProb = Annotated[float, Field(ge=_MIN_LOG_PROB, le=_ROUNDING_ERROR, allow_inf_nan=False)]
_TopLogProb = Annotated[float, Field(le=_ROUNDING_ERROR, allow_inf_nan=False)]


class _Listing(BaseModel, strict=True):
    """The field ``logprobs`` of a response: the tokens of a text with their log-probabilities.

    ``top_logprobs`` contains the most probable token at each position, if the server states it.
    """

    tokens: list[Annotated[str, Field(min_length=1)]]
    token_logprobs: list[_LogProb | None]
    top_logprobs: list[dict[str, _TopLogProb] | None] | None = None


class _Choice(BaseModel, strict=True):
    """The result for one text of a request; `index` is the index of the text."""

    index: int
    logprobs: _Listing


class _Response(BaseModel, strict=True):
    """The JSON response to a request, which has one `_Choice` per text."""

    choices: list[_Choice]


class ServedModel(EngineModel):
    """A causal model on a completion server.

    The server is validated before the first request (`validate_server`). Every answer is validated
    as well: it must contain one list of tokens per text, which spell the text, with finite
    log-probabilities of at most 0. Every request includes a text with known log-probabilities.

    The model specification can have these options:

    - ``model``: name of the model on the server (required).
    - ``prefix``: text before every sentence.
    - ``batch``: number of texts per request.
    - ``key``: environment variable with an API key. The key appears in no message and no file.
    - ``timeout``: timeout of a request in seconds.

    Parameters
    ----------
    spec
        Model specification, for example ``openai:http://localhost:8000/v1?model=gpt2``.

    Raises
    ------
    SpecError
        If an option is invalid, or the address or the name of the model is missing.
    EngineError
        If the API key is not set, the server does not answer, or an answer is invalid.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options({*SERVER_OPTIONS, *REQUEST_OPTIONS})
        options = tuple(pair for pair in spec.options if pair[0] not in REQUEST_OPTIONS)
        super().__init__(ModelSpec(spec.family, spec.location, options).canonical(SERVER_OPTIONS))
        self.model = spec.get("model", "")
        self.url = spec.location.rstrip("/")
        address = urlsplit(self.url)
        if address.scheme not in ("http", "https") or not address.netloc or not self.model:
            raise SpecError(
                f"{str(spec)!r} lacks a server address or a model name; "
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
        variable = spec.get("key", REQUEST_OPTIONS["key"])
        if variable:
            self._key = os.environ.get(variable, "").strip()
            if not (self._key and self._key.isascii() and self._key.isprintable()):
                raise EngineError(
                    f"{self.name} needs a key, and the environment variable {variable!r} contains "
                    "none; set it"
                )
            self._headers["Authorization"] = f"Bearer {self._key}"
        self._reference: PromptLogprobs | None = None
        self._batch_tolerance = validate_server(self)
        (self._reference,) = self._request([self.prefix + _TEST_TEXTS[0]])
        self.leading_tokens = self._reference.leading_tokens

    @property
    def fingerprint(self) -> str:
        """Digest of the address and the name; the weights are not accessible."""
        return digest(self.name)

    @property
    def batch_tolerance(self) -> float:
        """Maximum difference in nats between two scores of one text during validation."""
        return self._batch_tolerance

    def prompt_logprobs(self, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Request the log-probabilities of S texts, and check a text with known values."""
        if self._reference is None:  # There is no earlier answer to compare with.
            return self._request(texts)
        # Add a test text to each request. If its answer differs from the first answer (the
        # reference), the server now runs another model.
        *answers, reference = self._request([*texts, self.prefix + _TEST_TEXTS[0]])
        if (
            reference.tokens != self._reference.tokens
            or _largest_difference(reference, self._reference) > _MAX_DIFFERENCE
        ):
            raise EngineError(
                f"{self.name} now answers differently for {_TEST_TEXTS[0]!r} than at first; check "
                "that it still serves the same model"
            )
        # Special tokens before the text must always be the same.
        for text, answer in zip(texts, answers, strict=True):
            if answer.leading_tokens != self.leading_tokens:
                raise EngineError(
                    f"{self.name} puts {''.join(answer.leading_tokens)!r} before {text!r}, and put "
                    f"{''.join(self.leading_tokens)!r} before other texts"
                )
        return answers

    def _request(self, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Request the log-probabilities of S texts, and validate the answer.

        The request is repeated after a pause, which doubles each time, if the server cannot be
        reached or is busy.
        """
        body = {"model": self.model, "prompt": list(texts), "max_tokens": 1, "temperature": 0}
        # "echo" asks for the log-probabilities of the prompt's own tokens.
        data = json.dumps({**body, "logprobs": 1, "echo": True}).encode()
        # Repeat failed requests after increasing waiting times, in seconds.
        for attempt in range(_MAX_ATTEMPTS):
            wait = _PAUSE * 2**attempt
            try:
                status, answer, retry_after = self._post(data)
            except (OSError, HTTPException) as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if status == 200:
                    return self._parse_response(answer, texts)
                message = " ".join(answer.decode("utf-8", "replace").split())
                if self._key:  # Never print the user's API key.
                    message = message.replace(self._key, "…")
                reason = f"status {status}, {message[:200]}"
                if status in _OVERLOAD_CODES:
                    reason += "; a smaller batch= may help"
                if status not in _BUSY_CODES:  # Repeating would not help.
                    break
                # The server may state how long to wait.
                if retry_after.isdecimal():
                    wait = max(wait, min(float(retry_after), _MAX_PAUSE))
            if attempt < _MAX_ATTEMPTS - 1:
                time.sleep(wait)
        raise EngineError(f"{self.name} gives no answer ({reason}); check that it is running")

    def _post(self, data: bytes) -> tuple[int, bytes, str]:
        """Send a POST request.

        Parameters
        ----------
        data
            JSON text.

        Returns
        -------
        status, body, retry_after
            HTTP status, content of the answer, and header ``Retry-After`` (empty if missing).
        """
        address = urlsplit(self.url)
        connect = HTTPSConnection if address.scheme == "https" else HTTPConnection
        with closing(connect(address.netloc, timeout=self._timeout)) as connection:
            connection.request("POST", f"{address.path}/completions", data, self._headers)
            with connection.getresponse() as reply:
                # Read one byte more than the limit, to detect longer answers.
                body = reply.read(_MAX_BYTES + 1)
                if len(body) > _MAX_BYTES:
                    raise EngineError(
                        f"{self.name} answers with more than {_MAX_BYTES // 2**20} MiB; a smaller "
                        "batch= may help"
                    )
                return reply.status, body, reply.headers.get("Retry-After", "")

    def _parse_response(self, body: bytes, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Read the log-probabilities of S texts from a response of the server, and check them.

        Parameters
        ----------
        body
            Body of the HTTP response, in JSON format.
        texts
            The S texts whose log-probabilities were requested.

        Returns
        -------
        list of PromptLogprobs
            Tokens of each text and their log-probabilities.

        Raises
        ------
        EngineError
            If the response does not have one result per text, or a result is invalid.
        """
        try:
            # Check the types of all fields.
            choices = _Response.model_validate_json(body).choices
        except ValidationError as error:
            problem: Mapping[str, Any] = error.errors(include_url=False)[0]
            field = ".".join(map(str, problem["loc"]))
            raise EngineError(
                f"{self.name} does not answer with log-probabilities of the text ({field}: "
                f"{problem['msg']}); it must support 'echo' and 'logprobs', which the server of "
                "llama.cpp, Ollama and chat endpoints do not"
            ) from None
        # The results of the texts may be in any order. Each has the index of its text.
        choices.sort(key=lambda choice: choice.index)
        if [choice.index for choice in choices] != list(range(len(texts))):
            raise EngineError(
                f"{self.name} gives {len(choices)} answers for {len(texts)} texts; it does not "
                "follow the protocol"
            )
        return [
            self._align_tokens(choice.logprobs, text)
            for choice, text in zip(choices, texts, strict=True)
        ]

    def _align_tokens(self, listing: _Listing, text: str) -> PromptLogprobs:
        """Find the tokens of a text in the list of tokens that the server returned.

        The server may insert tokens before the text, and it generates one token after the text. All
        tokens in between must spell the text. Their log-probabilities are validated.

        Parameters
        ----------
        listing
            Tokens and log-probabilities from the server.
        text
            Text that was sent to the server.
        """
        tokens, values, tops = listing.tokens, listing.token_logprobs, listing.top_logprobs
        if len(tokens) != len(values) or (tops is not None and len(tops) != len(tokens)):
            raise EngineError(
                f"{self.name} gives {len(tokens)} tokens of {text!r} and {len(values)} "
                f"log-probabilities"
            )
        # Find the number of tokens before the text.
        for n_leading in range(len(tokens) + 1):
            starts = list(accumulate(map(len, tokens[n_leading:]), initial=0))
            if "".join(tokens[n_leading:]).startswith(text) and len(text) in starts:
                break
        else:
            raise EngineError(
                f"the tokens that {self.name} gives of {text!r} do not spell it (they begin "
                f"{''.join(tokens)[:40]!r}): it does not echo the text, or writes its characters "
                "otherwise"
            )
        # The first n tokens are the leading tokens and the tokens of the text.
        n_text = starts.index(len(text))
        n = n_leading + n_text
        if len(set(tokens[:n_leading])) < n_leading or self.prefix in tokens[:n_leading]:
            raise EngineError(
                f"{self.name} puts {''.join(tokens[:n_leading])!r} before the text, with "
                f"repetitions; insert it once, by the server or by prefix={self.prefix!r}"
            )
        log_probs = np.full(n, np.nan)
        for i, value in enumerate(values[1:n], start=1):
            # No token can be more probable than the most probable one.
            best = max((tops[i] or {}).values(), default=0.0) if tops is not None else 0.0
            if value is None or value > best + _ROUNDING_ERROR:
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
        token_starts = np.array([-1] * n_leading + starts[:n_text], dtype=np.int64)
        return PromptLogprobs(tuple(tokens[:n]), token_starts, log_probs)


def validate_server(model: ServedModel) -> float:
    """Validate a server by scoring a few texts, in separate requests and in one joint request.

    Returns
    -------
    float
        Maximum difference between two scores of one text, at least 0.001 nats.

    Raises
    ------
    EngineError
        If different texts have the same values, if a value depends on later tokens, or if it
        depends on the other texts of the request by more than half a nat.
    """
    texts = [model.prefix + text for text in _TEST_TEXTS]
    single_results = [model.prompt_logprobs([text])[0] for text in texts]
    joint_results = model.prompt_logprobs(texts)
    first, second = single_results[:2]
    # Check that the last three values differ between texts.
    last = first.log_probs[-3:]
    if all(np.array_equal(last, result.log_probs[-3:]) for result in single_results[1:]):
        raise EngineError(
            f"{model.name} gives different texts the same values; it does not compute them"
        )
    # The first two texts begin with the same tokens, which must have the same values in a causal
    # model.
    token_pairs = zip(first.tokens, second.tokens, strict=False)
    n_shared = next(i for i, (a, b) in enumerate(token_pairs) if a != b)
    differences = np.abs(first.log_probs[1:n_shared] - second.log_probs[1:n_shared])
    if differences.max(initial=0.0) > _MAX_DIFFERENCE:
        token = first.tokens[1 + int(differences.argmax())]
        raise EngineError(
            f"the value of {token!r} from {model.name} depends on later tokens: values "
            "are shifted by one token, or the model is not causal"
        )
    # Compare requests of one text with a request of all texts.
    batch_tolerance = _ROUNDING_ERROR
    for single, joint in zip(single_results, joint_results, strict=True):
        if single.tokens != joint.tokens or _largest_difference(single, joint) > _MAX_DIFFERENCE:
            raise EngineError(
                f"values of {model.name} depend on the other texts of a request; switch off its "
                "prefix cache (vLLM: --no-enable-prefix-caching, SGLang: "
                "--disable-radix-cache), or write batch=1"
            )
        total = float(np.nansum(np.abs(single.log_probs - joint.log_probs)))
        batch_tolerance = max(batch_tolerance, total)
    return batch_tolerance


def _largest_difference(first: PromptLogprobs, second: PromptLogprobs) -> float:
    """Return the largest difference in nats between two results for the same tokens."""
    return float(np.nanmax(np.abs(first.log_probs - second.log_probs), initial=0.0))
