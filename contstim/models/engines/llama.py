"""The model family ``gguf:PATH``: GGUF files, computed in this process by llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import numpy as np
from scipy.special import log_softmax

from contstim.arrays import FloatArray
from contstim.errors import EngineError, InputError, MissingExtraError, ModelFileError, SpecError
from contstim.files import file_digest
from contstim.models import ModelSpec
from contstim.models.engines import EngineModel, PromptLogprobs, integer_option

#: Options of the model specification, with their defaults.
LLAMA_OPTIONS = {"prefix": "auto", "threads": "1", "layers": "0", "context": "512"}


class LlamaModel(EngineModel):
    """A causal model in a GGUF file, in the precision of the file.

    llama.cpp computes the logits of every token, and the log-probabilities are computed from them
    in float64. No computations are shared between texts.

    The model specification can have these options:

    - ``prefix``: token before every sentence: ``auto`` (the BOS token, if there is one), ``bos``,
      ``eos``, ``none`` or the text of a token.
    - ``threads``: number of processor threads.
    - ``layers``: number of layers on the GPU; -1 for all.
    - ``context``: maximum number of tokens of a text.

    Parameters
    ----------
    spec
        Model specification, for example ``gguf:model.gguf?threads=4``.

    Raises
    ------
    MissingExtraError
        If llama-cpp-python is not installed.
    ModelFileError
        If the file cannot be read.
    SpecError
        If an option is unknown or has an invalid value.
    """

    #: Name of the Python package of llama.cpp.
    packages = ("llama-cpp-python",)
    #: 1e-3 nats, since llama.cpp computes in single precision or less.
    batch_tolerance = 1e-3

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(LLAMA_OPTIONS)
        super().__init__(spec.canonical(LLAMA_OPTIONS))
        self.path, self.name = spec.path, self.spec
        if not self.path.is_file():
            raise ModelFileError(f"no file {spec.location!r}; give the path of a GGUF file")
        if find_spec("llama_cpp") is None:
            raise MissingExtraError(
                f"{self.spec!r} needs the package llama-cpp-python; pip install llama-cpp-python, "
                "or read the file with hf:"
            )
        library: Any = import_module("llama_cpp")
        context = integer_option(spec, "context", LLAMA_OPTIONS["context"], 2)
        threads = integer_option(spec, "threads", LLAMA_OPTIONS["threads"])
        try:
            self._llama = library.Llama(
                str(self.path),
                n_ctx=context,
                n_batch=context,
                n_ubatch=context,
                n_threads=threads,
                n_threads_batch=threads,
                n_gpu_layers=integer_option(spec, "layers", LLAMA_OPTIONS["layers"], -1),
                logits_all=True,
                # Store keys and values in the precision of the computation, not in 16 bits.
                type_k=library.GGML_TYPE_F32,
                type_v=library.GGML_TYPE_F32,
                verbose=False,
            )
        except ValueError as error:
            raise ModelFileError(
                f"llama.cpp cannot load {spec.location!r} ({error}); check that it is a complete "
                "GGUF file of a supported architecture"
            ) from None
        self._context = min(context, library.llama_model_n_ctx_train(self._llama.model))
        self._prefix_ids = self._read_prefix(spec)
        self.leading_tokens = tuple(
            self._decode(token).decode("utf-8", "replace") for token in self._prefix_ids
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 hash of the file."""
        return file_digest(self.path)

    def prompt_logprobs(self, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Compute the log-probabilities of S texts, one at a time."""
        return [self._compute(text) for text in texts]

    def _compute(self, text: str) -> PromptLogprobs:
        """Compute the log-probabilities of the tokens of one text.

        llama.cpp gives tokens as bytes. Their byte offsets are converted to character offsets.
        """
        text_ids = self._llama.tokenize(text.encode(), add_bos=False, special=False)
        ids = [*self._prefix_ids, *text_ids]
        if len(ids) > self._context:
            raise InputError(
                f"{text!r} has {len(ids)} tokens, but the maximum of {self.spec} is "
                f"{self._context}; leave it out, or set a larger context="
            )
        pieces = [self._decode(token) for token in text_ids]
        decoded, expected = b"".join(pieces), text.encode()
        # Some tokenizers add a space before the first word.
        shift = int(decoded == b" " + expected)
        if decoded[shift:] != expected:
            raise EngineError(
                f"the tokens of {text!r} under {self.spec} spell "
                f"{decoded.decode('utf-8', 'replace')!r}; leave it out"
            )
        byte_offsets = [max(0, n - shift) for n in accumulate(map(len, pieces[:-1]), initial=0)]
        starts = [len(expected[:offset].decode("utf-8", "ignore")) for offset in byte_offsets]
        self._llama.reset()
        self._llama.eval(ids)
        # The logits at each position predict the next token.
        logits: FloatArray = self._llama.scores[: len(ids) - 1].astype(np.float64)
        log_probs = log_softmax(logits, axis=1)[np.arange(len(ids) - 1), ids[1:]]
        if not np.isfinite(log_probs).all():
            raise EngineError(
                f"{self.spec} computes {log_probs.min()} for a token of {text!r}; leave it out"
            )
        tokens = [piece.decode("utf-8", "replace") for piece in pieces]
        return PromptLogprobs(
            (*self.leading_tokens, *tokens),
            np.array([-1] * len(self._prefix_ids) + starts, dtype=np.int64),
            np.append(np.nan, log_probs),
        )

    def _decode(self, token: int) -> bytes:
        """Return the bytes of a token, which may be a part of a UTF-8 character."""
        decoded: bytes = self._llama.detokenize([token], special=True)
        return decoded

    def _read_prefix(self, spec: ModelSpec) -> list[int]:
        """Return the id of the token before every sentence, according to the option ``prefix``.

        The list contains one id, or is empty if there is no token.
        """
        prefix, llama = spec.get("prefix", LLAMA_OPTIONS["prefix"]), self._llama
        # A negative id means that the model has no start token (BOS).
        if prefix == "none" or (prefix == "auto" and llama.token_bos() < 0):
            return []
        special_tokens = {"auto": llama.token_bos, "bos": llama.token_bos, "eos": llama.token_eos}
        if prefix in special_tokens:
            ids = [special_tokens[prefix]()]
        else:
            ids = llama.tokenize(prefix.encode(), add_bos=False, special=True)
        # The prefix must be one existing token.
        if len(ids) == 1 and ids[0] >= 0:
            return list(ids)
        raise SpecError(
            f"prefix={prefix!r} in {str(spec)!r} is not a token of its vocabulary; write auto, "
            "bos, eos, none or a token"
        )
