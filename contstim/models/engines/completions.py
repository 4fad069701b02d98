"""Engines that speak the protocol of completions: ``/completions`` with ``echo`` and ``logprobs``.

So do vLLM and SGLang, and several providers. (What generates alone does not: the server of
llama.cpp, Ollama, chat endpoints.)
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from contstim.errors import EngineError
from contstim.models.engines import Echo, ServingEngine

# How often a request is made again, and the seconds before the first time, which double.
_TRIES, _PAUSE = 6, 0.5
# Answers after which it may go better: too many requests, or trouble of the server's own.
_AGAIN = {408, 429, 500, 502, 503, 504}
# The longest that is waited because a server asks for it, seconds.
_LONGEST = 120.0


class Completions(ServingEngine):
    """An engine behind an address.

    Parameters
    ----------
    url
        The address, up to ``/v1``.
    model
        What the engine calls the model.
    key
        The environment variable that holds the key, if one is needed. The key is in no message.
    timeout
        How long an answer is waited for, seconds.
    """

    def __init__(self, url: str, model: str, key: str = "", timeout: float = 600.0) -> None:
        self.url, self.model, self.timeout = url.rstrip("/"), model, timeout
        self.name = f"{model} at {self.url}"
        self._key = ""
        if key and not (secret := os.environ.get(key, "")):
            raise EngineError(
                f"{self.name} needs a key, and the environment variable {key!r} is not set; set it"
            )
        if key:
            self._key = secret

    def echo(self, texts: Sequence[str]) -> list[Echo]:
        """Ask about S texts; where they are too many for its memory, about half of them at a time.

        Raises
        ------
        EngineError
            If it does not answer, or answers what cannot be read.
        """
        body = {"model": self.model, "prompt": list(texts), "max_tokens": 1, "temperature": 0}
        try:
            answer = self._ask({**body, "logprobs": 1, "echo": True})
        except EngineError:
            if len(texts) == 1:
                raise
            half = len(texts) // 2
            return [*self.echo(texts[:half]), *self.echo(texts[half:])]
        try:
            choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
            if len(choices) != len(texts):
                raise EngineError(
                    f"{self.name} gives {len(choices)} answers for {len(texts)} texts; it does not "
                    "keep to the protocol"
                )
            return [self._read(choice, text) for choice, text in zip(choices, texts, strict=True)]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EngineError(
                f"{self.name} answers without log-probabilities of the text "
                f"({type(error).__name__}: {error}); it must know 'echo' and 'logprobs', which the "
                "server of llama.cpp, Ollama and chat endpoints do not"
            ) from None

    def _read(self, choice: Mapping[str, Any], text: str) -> Echo:
        """Read one answer; what was generated beyond the text is left out."""
        listing = choice["logprobs"]
        tokens = [str(token) for token in listing["tokens"]]
        listed = listing.get("top_logprobs") or [None] * len(tokens)
        sizes = {len(tokens), len(listing["token_logprobs"]), len(listed)}
        if len(sizes) > 1:
            raise EngineError(
                f"{self.name} gives {len(tokens)} tokens of {text!r}, "
                f"{len(listing['token_logprobs'])} log-probabilities and {len(listed)} lists; as "
                "many are needed"
            )
        # What it puts before a text by itself, such as the token that begins one, is no part of it.
        for before in range(len(tokens) + 1):
            starts = list(accumulate(map(len, tokens[before:]), initial=0))
            if "".join(tokens[before:]).startswith(text) and len(text) in starts:
                break
        else:
            raise EngineError(
                f"the tokens that {self.name} gives of {text!r} do not spell it (they begin "
                f"{''.join(tokens)[:40]!r}): it does not echo the text, or writes its characters "
                "otherwise"
            )
        n = before + starts.index(len(text))
        best, mass = np.full(n, np.nan), np.full(n, np.nan)
        for place, likely in enumerate(listed[:n]):
            if likely:
                values = np.array([float(value) for value in likely.values()])
                best[place], mass[place] = values.max(), np.exp(values).sum()
        return Echo(
            tuple(tokens[:n]),
            np.array([-1] * before + starts[: n - before], dtype=np.int64),
            np.array([np.nan if v is None else float(v) for v in listing["token_logprobs"][:n]]),
            best,
            mass,
        )

    def _ask(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make a request, again where it may go better."""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data = json.dumps(body).encode()
        for attempt in range(_TRIES):
            wait = _PAUSE * 2**attempt
            try:
                status, asked, answer = self._post(data, headers)
                if status == 200:
                    return dict(json.loads(answer))
                reason = f"status {status}, {' '.join(answer.split())[:200]}"
                if status not in _AGAIN:
                    break
                wait = max(wait, min(float(asked), _LONGEST)) if asked.isdecimal() else wait
            except (OSError, HTTPException, ValueError) as error:
                reason = f"{type(error).__name__}: {error}"
            if attempt < _TRIES - 1:
                time.sleep(wait)
        raise EngineError(f"{self.name} gives no answer ({reason}); see whether it runs")

    def _post(self, data: bytes, headers: Mapping[str, str]) -> tuple[int, str, str]:
        """Return status, how long the engine asks to wait, and text of an answer."""
        address = urlsplit(self.url)
        secure = address.scheme == "https"
        connection = (HTTPSConnection if secure else HTTPConnection)(
            address.netloc, timeout=self.timeout
        )
        try:
            connection.request("POST", f"{address.path}/completions", data, dict(headers))
            reply = connection.getresponse()
            text = reply.read().decode("utf-8", "replace")
            return reply.status, reply.headers.get("Retry-After", ""), text
        finally:
            connection.close()
