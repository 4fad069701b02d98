"""Engines that speak the protocol of completions: ``/completions`` with ``echo`` and ``logprobs``.

So do vLLM and SGLang, and several providers. (What generates alone does not: the server of
llama.cpp, Ollama, chat endpoints.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from contstim.models.engines import Echo
from contstim.models.engines.server import Server


class Completions(Server):
    """Completions that echo the text: ``openai:http://HOST:PORT/v1?model=NAME``."""

    route: ClassVar[str] = "/completions"
    needed: ClassVar[str] = "'echo' and 'logprobs'"
    fresh: ClassVar[str] = "vLLM: --no-enable-prefix-caching, SGLang: --disable-radix-cache"
    room: ClassVar[str] = "vLLM: --gpu-memory-utilization, SGLang: --mem-fraction-static"

    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Ask for the text itself, and one token more, without which some give nothing."""
        body = {"model": self.model, "prompt": list(texts), "max_tokens": 1, "temperature": 0}
        return {**body, "logprobs": 1, "echo": True}

    def read(self, answer: Any, texts: Sequence[str]) -> list[Echo]:
        """Read the choices; raises as `Server.read` says."""
        echoes = []
        for choice, text in zip(self.choices(answer, texts), texts, strict=True):
            listing = choice["logprobs"]
            tokens = [str(token) for token in listing["tokens"]]
            tops = listing.get("top_logprobs") or [None] * len(tokens)
            listed = [None if not top else [float(v) for v in top.values()] for top in tops]
            echoes.append(self.placed(text, tokens, listing["token_logprobs"], listed))
        return echoes
