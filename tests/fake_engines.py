"""A server of a tiny network that speaks the protocol of an engine, and what it does wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BOS = "<|endoftext|>"


@dataclass
class Answer:
    """What a right engine says of a text, the token that it generates included.

    Of each place: number and text of the token, its log-probability, and number, text and
    log-probability of the most probable one; None where there is none.
    """

    numbers: list[int]
    tokens: list[str]
    values: list[float | None]
    best: list[tuple[int, str, float] | None]


#: Changes right answers; a number in their place is a status, None a dropped connection.
Fault = Callable[[list[Answer]], "list[Answer] | int | None"]


def _completions(answers: list[Answer]) -> Any:
    choices = []
    for index, a in enumerate(answers):
        tops = [None if top is None else {top[1]: top[2]} for top in a.best]
        listing = {"tokens": a.tokens, "token_logprobs": a.values, "top_logprobs": tops}
        choices.append({"index": index, "text": "", "logprobs": listing})
    return {"choices": choices[::-1]}  # in whatever order


def _vllm(answers: list[Answer]) -> Any:
    choices = []
    for index, a in enumerate(answers):
        entries: list[Any] = []
        for number, token, value, best in zip(a.numbers, a.tokens, a.values, a.best, strict=True):
            entry = {str(number): {"logprob": value, "rank": 1, "decoded_token": token}}
            if best is not None:
                likely = {"logprob": best[2], "rank": 1, "decoded_token": best[1]}
                entry.setdefault(str(best[0]), likely)
            entries.append(None if value is None else entry)
        # What is generated has no place among the text's.
        choices.append(
            {"index": index, "prompt_token_ids": a.numbers[:-1], "prompt_logprobs": entries[:-1]}
        )
    return {"choices": choices}


def _sglang(answers: list[Answer]) -> Any:
    listed = []
    for a in answers:
        tops = [None if top is None else [[top[2], top[0], top[1]]] for top in a.best[:-1]]
        places = list(map(list, zip(a.values, a.numbers, a.tokens, strict=True)))[:-1]
        about = {"input_token_logprobs": places, "input_top_logprobs": tops}
        listed.append({"text": "", "meta_info": about})
    return listed


@dataclass
class Protocol:
    """The form of an engine's answers, where it is asked, and where the texts stand."""

    form: Callable[[list[Answer]], Any]
    family: str
    route: str
    address: str
    key: str


PROTOCOLS = {
    "openai": Protocol(_completions, "openai", "/v1/completions", "/v1?model=tiny", "prompt"),
    "vllm": Protocol(_vllm, "vllm", "/v1/completions", "/v1?model=tiny", "prompt"),
    "sglang": Protocol(_sglang, "sglang", "/generate", "?model=tiny", "text"),
}


@dataclass
class Fake:
    """The server; with it, what it was asked."""

    folder: Path
    protocol: Protocol = field(default_factory=lambda: PROTOCOLS["openai"])
    fault: Fault = lambda answers: answers
    #: Changes what is sent.
    garble: Callable[[Any], Any] = lambda value: value
    opening: list[int] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(self.folder)
        self.network = AutoModelForCausalLM.from_pretrained(self.folder).eval()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.requests.append({**asked, "path": self.path})
                fake.headers.append(dict(self.headers))
                answers = fake.fault([fake.answer(text) for text in asked[fake.protocol.key]])
                if isinstance(answers, int):
                    self.send_response(answers)
                    self.send_header("Retry-After", "0")
                    self.end_headers()
                    self.wfile.write(b"no\nroom")
                elif answers is None:
                    self.close_connection = True
                else:
                    self.send_response(200)
                    self.end_headers()
                    sent = json.dumps(fake.garble(fake.protocol.form(answers)))
                    self.wfile.write(sent.encode())

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def reset(self, protocol: str = "openai") -> Fake:
        """Have it answer rightly again, in a protocol, and forget what it was asked."""
        self.protocol, self.opening = PROTOCOLS[protocol], []
        self.fault, self.garble = lambda answers: answers, lambda value: value
        self.requests.clear()
        self.headers.clear()
        return self

    @property
    def spec(self) -> str:
        """The spec of the model that it serves."""
        protocol = self.protocol
        address = f"http://127.0.0.1:{self.server.server_port}"
        return f"{protocol.family}:{address}{protocol.address}"

    @property
    def asked(self) -> list[list[str]]:
        """The texts of each request."""
        return [request[self.protocol.key] for request in self.requests]

    def close(self) -> None:
        """Stop it."""
        self.server.shutdown()
        self.server.server_close()

    def answer(self, text: str) -> Answer:
        """Return what is right to say of a text."""
        ids = [*self.opening, *self.tokenizer(text, add_special_tokens=False)["input_ids"]]
        with torch.no_grad():
            logits = self.network(torch.tensor([ids])).logits[0].double()
        logs = logits.log_softmax(dim=1)
        ids.append(int(logs[-1].argmax()))  # one is generated
        tokens = [self.tokenizer.decode([token]) for token in ids]
        values = [None, *(float(logs[k - 1, ids[k]]) for k in range(1, len(ids)))]
        best: list[tuple[int, str, float] | None] = [None]
        for k in range(1, len(ids)):
            token = int(logs[k - 1].argmax())
            best.append((token, self.tokenizer.decode([token]), float(logs[k - 1, token])))
        return Answer(ids, tokens, values, best)
