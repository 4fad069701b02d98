"""vLLM's server: completions whose ``prompt_logprobs`` name tokens by their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from contstim.models.engines import Echo
from contstim.models.engines.server import Server


class VllmServer(Server):
    """A model that vLLM serves: ``vllm:http://HOST:PORT/v1?model=NAME``.

    Beside each token of the text stands the most probable one, whatever the server's limit on
    listed log-probabilities, and tokens that are written alike are told apart.
    """

    route: ClassVar[str] = "/completions"
    needed: ClassVar[str] = "'prompt_logprobs' and 'return_token_ids' (vLLM from 0.10.2 on)"
    fresh: ClassVar[str] = "--no-enable-prefix-caching"
    room: ClassVar[str] = "a smaller --gpu-memory-utilization"

    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Ask for the text's tokens and their log-probabilities."""
        body = {"model": self.model, "prompt": list(texts), "max_tokens": 1, "temperature": 0}
        return {**body, "prompt_logprobs": 1, "return_token_ids": True}

    def read(self, answer: Any, texts: Sequence[str]) -> list[Echo]:
        """Read the choices; raises as `Server.read` says."""
        choices = zip(self.choices(answer, texts), texts, strict=True)
        return [self._read(choice, text) for choice, text in choices]

    def _read(self, choice: Mapping[str, Any], text: str) -> Echo:
        numbers, listing = choice["prompt_token_ids"], choice["prompt_logprobs"]
        values: list[float | None] = [None] * len(numbers)
        listed: list[list[float] | None] = [None] * len(listing)
        written: dict[int, str] = {}
        for place, (number, entries) in enumerate(zip(numbers, listing, strict=False)):
            if entries is None:
                continue
            written[number] = str(entries[str(number)]["decoded_token"])
            values[place] = entries[str(number)]["logprob"]
            listed[place] = [float(entry["logprob"]) for entry in entries.values()]
        tokens = [written.get(number, f"<{number}>") for number in numbers]
        # How the first is written is said of no other: it is what the others leave of the text.
        rest = "".join(tokens[1:])
        if numbers[0] not in written and rest != text and text.endswith(rest):
            tokens[0] = text.removesuffix(rest)
        return self.placed(text, tokens, values, listed)
