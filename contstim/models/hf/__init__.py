"""Transformer language models of the family ``hf``: causal and masked Hugging Face checkpoints."""

from __future__ import annotations

from contstim.models import ModelSpec
from contstim.models.base import SentenceModel

__all__ = ["load_hf"]


def load_hf(spec: ModelSpec) -> SentenceModel:
    """Load the checkpoint of a spec ``hf:NAME-OR-PATH`` as a sentence model.

    The configuration of the checkpoint determines whether the model is causal or masked.

    Raises
    ------
    SpecError
        If an option is unknown, has an invalid value, or belongs to the other kind of model.
    ModelFileError
        If the checkpoint does not exist or has no trained language-model head.
    """
    # These modules import torch and transformers, which takes seconds.
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
