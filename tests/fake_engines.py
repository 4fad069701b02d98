"""A fake server of completions with a tiny network and optional faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BOS = "<|endoftext|>"


class Fake:
    """The server.

    `fault` changes the choices of an answer, or returns a status or the bytes of a body instead;
    None drops the connection.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.network = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.reset()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.asked.append(asked["prompt"])
                fake.paths.append(self.path)
                fake.headers.append(dict(self.headers))
                answer = fake.fault(
                    [fake.choice(i, text) for i, text in enumerate(asked["prompt"])]
                )
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer if isinstance(answer, int) else 200)
                self.send_header("Retry-After", "0")
                self.end_headers()
                if isinstance(answer, int):
                    said = f"no\nroom for {self.headers['Authorization']}".encode()
                elif isinstance(answer, bytes):
                    said = answer
                else:
                    said = json.dumps({"choices": answer[::-1]}).encode()  # in any order
                self.wfile.write(said)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reset(self) -> Fake:
        """Forget requests and faults."""
        self.fault: Callable[[list[dict[str, Any]]], Any] = lambda choices: choices
        self.opening: list[int] = []
        self.asked: list[list[str]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        return self

    @property
    def spec(self) -> str:
        """The spec of its model."""
        return f"openai:http://127.0.0.1:{self.server.server_port}/v1?model=tiny"

    def close(self) -> None:
        """Stop it."""
        self.server.shutdown()
        self.server.server_close()

    def choice(self, index: int, text: str) -> dict[str, Any]:
        """Return the right answer for a text, with one generated token."""
        ids = [*self.opening, *self.tokenizer(text, add_special_tokens=False)["input_ids"]]
        with torch.no_grad():
            logs = self.network(torch.tensor([ids])).logits[0].double().log_softmax(dim=1)
        ids.append(int(logs[-1].argmax()))
        best = [int(row.argmax()) for row in logs]
        decode = self.tokenizer.decode
        return {
            "index": index,
            "text": text,
            "logprobs": {
                "tokens": [decode([token]) for token in ids],
                "token_logprobs": [
                    None,
                    *(float(logs[k - 1, ids[k]]) for k in range(1, len(ids))),
                ],
                "top_logprobs": [
                    None,
                    *({decode([b]): float(row[b])} for b, row in zip(best, logs, strict=True)),
                ],
            },
        }
