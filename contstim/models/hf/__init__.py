"""Transformer language models of the Hugging Face kind, causal and masked, ``hf:NAME-OR-PATH``."""

from __future__ import annotations

from contstim.models import ModelSpec
from contstim.models.base import SentenceModel

__all__ = ["load_hf"]


def load_hf(spec: ModelSpec) -> SentenceModel:
    """Load the checkpoint that ``hf:NAME-OR-PATH`` names, causal or masked by its configuration.

    Raises
    ------
    SpecError
        For an unknown option, a bad value, or an option of the other kind of model.
    ModelFileError
        If there is no such checkpoint, or it has no trained language-model head.
    """
    # torch and transformers take seconds to import and are needed only here.
    from contstim.models.hf.causal import CausalModel
    from contstim.models.hf.checkpoint import load_checkpoint
    from contstim.models.hf.masked import MaskedModel
    from contstim.models.hf.options import CAUSAL_OPTIONS, MASKED_OPTIONS

    spec.check_options({*CAUSAL_OPTIONS, *MASKED_OPTIONS})
    checkpoint = load_checkpoint(spec)
    if checkpoint.kind == "masked":
        spec.check_options(MASKED_OPTIONS)
        return MaskedModel(spec, checkpoint)
    spec.check_options(CAUSAL_OPTIONS)
    return CausalModel(spec, checkpoint)
