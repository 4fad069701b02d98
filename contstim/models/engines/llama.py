"""Models in GGUF files, computed in this process by llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, takewhile
from typing import Any, ClassVar

import numpy as np

from contstim.errors import EngineError, InputError, MissingExtraError, ModelFileError, SpecError
from contstim.files import file_digest
from contstim.models import ModelSpec
from contstim.models.engines import Echo, ServingEngine, whole_option


class LlamaFile(ServingEngine):
    """A GGUF file: ``gguf:PATH``, in the precision that it is stored in.

    llama.cpp is asked for the logits of every token, and log-probabilities are taken of them here,
    in float64: what its own server and `llama_cpp` say of a text is not what it computes.

    What stands before the first word is the ``prefix``, as of ``hf:``: by default (``auto``) the
    BOS token if there is one, once, whatever the file says of adding it; ``bos``, ``eos``,
    ``none``, or a token of the vocabulary. A sentence holds no special tokens, whatever it looks
    like.

    Texts that begin alike are computed from where they part, in alphabetical order; how far that
    moves values is part of the model's `resolution`.

    Parameters
    ----------
    spec
        The spec; ``threads`` of the processor, ``layers`` on a GPU (-1: all), and ``context``, the
        most tokens of a text.

    Raises
    ------
    MissingExtraError
        If llama-cpp-python is not installed.
    ModelFileError
        If the file cannot be read.
    SpecError
        For a bad value.
    """

    options: ClassVar[Mapping[str, str | None]] = {
        "prefix": "auto",
        "threads": "1",
        "layers": "0",
        "context": "512",
    }
    packages: ClassVar[tuple[str, ...]] = ("llama-cpp-python",)
    fresh: ClassVar[str] = "a file of another kind, or hf:"
    batch = 256

    def __init__(self, spec: ModelSpec) -> None:
        self.path = spec.path
        self.name = str(spec)
        if not self.path.is_file():
            raise ModelFileError(f"no file {spec.location!r}; give the path of a GGUF file")
        if find_spec("llama_cpp") is None:
            raise MissingExtraError(
                f"{str(spec)!r} needs the package llama-cpp-python; install it with pip install "
                "'contstim[llama]', or read the file with hf:"
            )
        library: Any = import_module("llama_cpp")
        self._context = whole_option(spec, "context", "512", 2)
        threads, layers = whole_option(spec, "threads", "1"), whole_option(spec, "layers", "0", -1)
        try:
            self._llama = library.Llama(
                str(self.path),
                n_ctx=self._context,
                n_batch=self._context,
                n_ubatch=self._context,
                n_threads=threads,
                n_threads_batch=threads,
                n_gpu_layers=layers,
                logits_all=True,
                # Keys and values are kept as they are computed, not in 16 bits.
                type_k=library.GGML_TYPE_F32,
                type_v=library.GGML_TYPE_F32,
                verbose=False,
            )
        except ValueError as error:
            raise ModelFileError(
                f"llama.cpp cannot load {spec.location!r} ({error}); see whether it is a whole "
                "GGUF file of a kind that it knows"
            ) from None
        model = self._llama.model
        self._context = min(self._context, library.llama_model_n_ctx_train(model))
        self._trims = not (
            library.llama_model_is_recurrent(model) or library.llama_model_is_hybrid(model)
        )
        self._opening = self._ids_before(spec)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return file_digest(self.path)

    def echo(self, texts: Sequence[str]) -> list[Echo]:
        """Compute S texts.

        Raises
        ------
        InputError
            For a text of more tokens than the context holds.
        EngineError
            If the tokens do not spell a text.
        """
        ids = [
            [*self._opening, *self._llama.tokenize(text.encode(), add_bos=False, special=False)]
            for text in texts
        ]
        for text, tokens in zip(texts, ids, strict=True):
            if len(tokens) > self._context:
                raise InputError(
                    f"{text!r} has {len(tokens)} tokens, and {self.name} takes {self._context}; "
                    "leave it out, or give a larger context="
                )
        self._llama.reset()
        echoes: dict[int, Echo] = {}
        before: list[int] = []
        for number in sorted(range(len(ids)), key=ids.__getitem__):
            echoes[number] = self._compute(texts[number], ids[number], before)
            before = ids[number]
        return [echoes[number] for number in range(len(ids))]

    def _compute(self, text: str, ids: list[int], before: list[int]) -> Echo:
        """Compute one text, from where it parts from the one computed before."""
        alike = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids, before, strict=False))
        )
        if not self._trims:
            self._llama.reset()
            alike = 0
        # At least one token is computed, of which there is nothing to reuse.
        self._llama.n_tokens = min(alike, len(ids) - 1)
        self._llama.eval(ids[self._llama.n_tokens :])
        logits = self._llama.scores[: len(ids) - 1].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        normaliser = np.log(np.exp(logits).sum(axis=1))
        values = logits[np.arange(len(ids) - 1), ids[1:]] - normaliser
        starts = self._starts(text, ids[len(self._opening) :])
        return Echo(
            tuple(self._written([token]).decode("utf-8", "replace") for token in ids),
            np.concatenate([np.full(len(self._opening), -1), starts]).astype(np.int64),
            np.append(np.nan, values),
            np.append(np.nan, -normaliser),  # the highest logit is 0 now
            np.full(len(ids), np.nan),
        )

    def _starts(self, text: str, ids: list[int]) -> list[int]:
        """Return where in a text its tokens begin, by the characters whose bytes they hold."""
        pieces = [self._written([token]) for token in ids]
        whole, wanted = b"".join(pieces), text.encode()
        # Some tokenizers write a space before the first word.
        shift = int(whole == b" " + wanted)
        if whole[shift:] != wanted:
            raise EngineError(
                f"the tokens that {self.name} makes of {text!r} spell "
                f"{whole.decode('utf-8', 'replace')!r}; leave it out"
            )
        offsets = [max(0, n - shift) for n in accumulate(map(len, pieces[:-1]), initial=0)]
        return [len(wanted[:offset].decode("utf-8", "ignore")) for offset in offsets]

    def _written(self, ids: list[int]) -> bytes:
        written: bytes = self._llama.detokenize(ids, special=True)
        return written

    def _ids_before(self, spec: ModelSpec) -> list[int]:
        """Return the ids of what stands before the first word."""
        asked, llama = spec.get("prefix", "auto"), self._llama
        if asked == "none" or (asked == "auto" and llama.token_bos() < 0):
            return []
        named = {"auto": llama.token_bos, "bos": llama.token_bos, "eos": llama.token_eos}
        ids = [named[asked]()] if asked in named else self._of_prefix(asked)
        if len(ids) == 1 and ids[0] >= 0:
            return ids
        raise SpecError(
            f"prefix={asked!r} in {str(spec)!r} is not a token of its vocabulary; write auto, bos, "
            "eos, none or a token"
        )

    def _of_prefix(self, token: str) -> list[int]:
        ids: list[int] = self._llama.tokenize(token.encode(), add_bos=False, special=True)
        return ids
