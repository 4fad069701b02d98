"""SGLang's server, by its own ``/generate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from contstim.models.engines import Echo
from contstim.models.engines.server import Server


class SglangServer(Server):
    """The model that an SGLang server has: ``sglang:http://HOST:PORT``.

    Log-probabilities are asked for from the first token on: left alone, the server gives those of
    generated tokens only.
    """

    route: ClassVar[str] = "/generate"
    example: ClassVar[str] = "http://HOST:PORT"
    needed: ClassVar[str] = "'return_logprob' and 'logprob_start_len'"
    fresh: ClassVar[str] = "--disable-radix-cache"
    room: ClassVar[str] = "a smaller --mem-fraction-static"

    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Ask for the text's tokens and their log-probabilities."""
        return {
            "text": list(texts),
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": 0,
            "top_logprobs_num": 1,
            "return_text_in_logprobs": True,
        }

    def read(self, answer: Any, texts: Sequence[str]) -> list[Echo]:
        """Read the answers; raises as `Server.read` says."""
        self.check_number(answer, texts)
        echoes = []
        for one_text, text in zip(answer, texts, strict=True):
            about = one_text["meta_info"]
            values, _, tokens = zip(*about["input_token_logprobs"], strict=True)
            tops = about.get("input_top_logprobs") or [None] * len(tokens)
            listed = [None if not top else [float(entry[0]) for entry in top] for top in tops]
            echoes.append(self.placed(text, list(map(str, tokens)), values, listed))
        return echoes
