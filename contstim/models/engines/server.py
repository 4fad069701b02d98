"""Engines behind an address: requests, what they cost, and what is done when one fails."""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, ClassVar
from urllib.parse import urlsplit

from contstim.errors import BudgetError, EngineError, SpecError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.engines import Cost, Echo, ServingEngine, whole_option
from contstim.progress import note

#: Options of a spec that names a server.
SERVER_OPTIONS: dict[str, str | None] = {
    "model": None,
    "prefix": "",
    "batch": "32",
    "key": "",
    "timeout": "600",
    "requests": "",
    "tokens": "",
    "answers": "",
}
# How often a request is made again, and the seconds before the first time, which double.
_TRIES, _PAUSE = 6, 0.5
# Tries of a request of several texts that the server fails at: fewer may be what it needs.
_TRIES_OF_MANY = 2
# Answers after which it may go better: the server is busy, or fails at what it is asked.
_BUSY, _TROUBLE = {408, 429, 503}, {413, 500, 502, 504}
# The longest that is waited because a server asks for it, seconds.
_LONGEST = 120.0
# Seconds between two lines on what has been spent.
_BETWEEN_LINES = 60.0


class _TooMuchError(EngineError):
    """The server fails at what it is asked; less of it may do."""


class Server(ServingEngine):
    """An engine behind an address, whose protocol is what a subclass knows.

    The key is in no message and no file.

    Parameters
    ----------
    spec
        ``FAMILY:ADDRESS?model=NAME``, with the options of `SERVER_OPTIONS`.

    Raises
    ------
    SpecError
        For a bad value, or a spec without address or, where it is needed, name.
    EngineError
        If the environment variable that is to hold the key is not set.
    """

    options: ClassVar[Mapping[str, str | None]] = SERVER_OPTIONS
    unseen: ClassVar[tuple[str, ...]] = ("key", "timeout", "requests", "tokens", "answers")
    #: What the address of a request ends in, an example of a spec, and what the server must know.
    route: ClassVar[str]
    example: ClassVar[str] = "http://HOST:PORT/v1?model=NAME"
    needed: ClassVar[str]

    def __init__(self, spec: ModelSpec) -> None:
        self.model = spec.get("model", "")
        nameless = "model=" in self.example and not self.model
        if not spec.location.startswith(("http://", "https://")) or nameless:
            raise SpecError(
                f"{str(spec)!r} does not say where the engine is and what it calls the model; "
                f"write {spec.family}:{self.example}"
            )
        self.url = spec.location.rstrip("/")
        self.name = f"{self.model} at {self.url}" if self.model else self.url
        self.prefix = spec.get("prefix", "")
        self.batch = whole_option(spec, "batch", "32")
        self.timeout = whole_option(spec, "timeout", "600")
        self.spent: Cost = Cost()
        self.most = {
            key: whole_option(spec, key, "") for key in ("requests", "tokens") if spec.get(key, "")
        }
        self._key = ""
        variable = spec.get("key", "")
        if variable and not (secret := os.environ.get(variable, "")):
            raise EngineError(
                f"{self.name} needs a key, and the environment variable {variable!r} is not set; "
                "set it"
            )
        if variable:
            self._key = secret
        self._line, self._tries = time.monotonic(), _TRIES

    @property
    def fingerprint(self) -> str:
        """SHA-256 of address and name: of its weights a server says nothing."""
        return digest(self.name)

    @abstractmethod
    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Return the JSON value that asks about S texts."""

    @abstractmethod
    def read(self, answer: Any, texts: Sequence[str]) -> list[Echo]:
        """Read an answer.

        Raises
        ------
        EngineError
            If it does not hold what is wanted.
        KeyError, TypeError, ValueError, AttributeError, IndexError
            If it is of another form.
        """

    def echo(self, texts: Sequence[str]) -> list[Echo]:
        """Ask about S texts; where they are too many for its memory, about fewer from then on.

        Raises
        ------
        BudgetError
            If no more may be asked.
        EngineError
            If it does not answer, or answers what cannot be read.
        """
        if len(texts) > self.batch:
            parts = (texts[i : i + self.batch] for i in range(0, len(texts), self.batch))
            return [echo for part in parts for echo in self.echo(part)]
        try:
            answer = self._ask(self.body(texts), len(texts))
        except _TooMuchError:
            if len(texts) == 1:
                raise
            self.batch = len(texts) // 2
            return self.echo(texts)
        try:
            echoes = self.read(answer, texts)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, EngineError):
                raise
            raise EngineError(
                f"{self.name} answers without log-probabilities of the text "
                f"({type(error).__name__}: {error}); it must know {self.needed}, which the "
                "server of llama.cpp, Ollama and chat endpoints do not"
            ) from None
        self.spent.tokens += sum(len(echo.tokens) for echo in echoes)
        if time.monotonic() - self._line > _BETWEEN_LINES:
            self._line = time.monotonic()
            note(f"{self.name}: {self.spent} so far", within=True)
        return echoes

    def choices(self, answer: Mapping[str, Any], texts: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the choices of an answer, one a text, in the order of what was asked."""
        listed = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
        self.check_number(listed, texts)
        return listed

    def check_number(self, answers: Sequence[Any], texts: Sequence[str]) -> None:
        """Refuse another number of answers than of texts."""
        if len(answers) != len(texts):
            raise EngineError(
                f"{self.name} gives {len(answers)} answers for {len(texts)} texts; it does not "
                "keep to the protocol"
            )

    def placed(
        self,
        text: str,
        tokens: Sequence[str],
        values: Sequence[float | None],
        listed: Sequence[Sequence[float] | None],
    ) -> Echo:
        """Put tokens, log-probabilities and lists of as many places of a text together.

        Raises
        ------
        EngineError
            If there are not as many of each, or the tokens do not spell the text.
        """
        if {len(tokens), len(values), len(listed)} != {len(tokens)}:
            raise EngineError(
                f"{self.name} gives {len(tokens)} tokens of {text!r}, {len(values)} "
                f"log-probabilities and {len(listed)} lists; as many are needed"
            )
        echo = Echo.spelled(text, tokens, values, listed)
        if echo is None:
            raise EngineError(
                f"the tokens that {self.name} gives of {text!r} do not spell it (they begin "
                f"{''.join(tokens)[:40]!r}): it does not echo the text, or writes its characters "
                "otherwise"
            )
        return echo

    def _ask(self, body: Mapping[str, Any], n_texts: int) -> Any:
        """Make a request, again where it may go better."""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data, trouble, attempt = json.dumps(body).encode(), False, 0
        while True:
            self._check_budget()
            wait = _PAUSE * 2**attempt
            try:
                status, asked, answer = self._post(data, headers)
                self.spent.requests += status not in _BUSY
                if status == 200:
                    self._tries = _TRIES
                    return json.loads(answer)
                reason = f"status {status}, {' '.join(answer.split())[:200]}"
                trouble = status in _TROUBLE
                if not trouble and status not in _BUSY:
                    break
                wait = max(wait, min(float(asked), _LONGEST)) if asked.isdecimal() else wait
            except ConnectionRefusedError as error:
                reason, trouble = f"{type(error).__name__}: {error}", False
            except (OSError, HTTPException, ValueError) as error:
                # What was lost on the way may have been paid for.
                self.spent.requests += 1
                reason, trouble = f"{type(error).__name__}: {error}", True
            attempt += 1
            few = trouble and n_texts > 1
            if attempt >= (min(self._tries, _TRIES_OF_MANY) if few else self._tries):
                break
            time.sleep(wait)
        if trouble:
            raise _TooMuchError(
                f"{self.name} gives no answer ({reason}); see whether it runs, and has room for "
                f"the log-probabilities of a text beside its weights ({self.room})"
            )
        self._tries = 1  # whoever asks it again need not wait as long
        raise EngineError(f"{self.name} gives no answer ({reason}); see whether it runs")

    def _check_budget(self) -> None:
        for what, most in self.most.items():
            if getattr(self.spent, what) >= most:
                raise BudgetError(
                    f"{self.name} has had {self.spent}, and {what}={most} is all it may; what it "
                    "answered counts, and the same again with more goes on"
                )

    def _post(self, data: bytes, headers: Mapping[str, str]) -> tuple[int, str, str]:
        """Return status, how long the engine asks to wait, and text of an answer."""
        address = urlsplit(self.url)
        secure = address.scheme == "https"
        connection = (HTTPSConnection if secure else HTTPConnection)(
            address.netloc, timeout=self.timeout
        )
        try:
            connection.request("POST", f"{address.path}{self.route}", data, dict(headers))
            reply = connection.getresponse()
            text = reply.read().decode("utf-8", "replace")
            return reply.status, reply.headers.get("Retry-After", ""), text
        finally:
            connection.close()
