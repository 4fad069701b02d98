"""Transformer language models of the family ``hf``: causal and masked Hugging Face checkpoints."""

from __future__ import annotations

from contstim.models import ModelSpec
from contstim.models.base import SentenceModel

__all__ = ["load_hf"]


def load_hf(spec: ModelSpec) -> SentenceModel:
    """Load a Hugging Face checkpoint as a sentence model.

    The configuration of the checkpoint determines whether the model is causal or masked.

    Parameters
    ----------
    spec
        Model specification ``hf:NAME-OR-PATH?option=value&...``, for example ``hf:gpt2``.

    Raises
    ------
    SpecError
        If an option is unknown, has an invalid value, or belongs to the other kind of model.
    ModelFileError
        If the checkpoint does not exist or has no trained language-model head.
    """
    # These modules import torch and transformers, which takes seconds.
    from contstim.models.hf import causal, checkpoint, masked, options

    # Refuse unknown options before the checkpoint is loaded, and options of the other kind of
    # model as soon as the kind is known.
    spec.check_options({*options.CAUSAL_OPTIONS, *options.MASKED_OPTIONS})
    loaded = checkpoint.load_checkpoint(spec)
    if loaded.kind == "masked":
        spec.check_options(options.MASKED_OPTIONS)
        return masked.MaskedModel(spec, loaded)
    spec.check_options(options.CAUSAL_OPTIONS)
    return causal.CausalModel(spec, loaded)
