"""Transformer language models of the Hugging Face kind, causal and masked, ``hf:NAME-OR-PATH``."""

from __future__ import annotations

from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.plugins import imported

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
    from contstim.models.hf.checkpoint import CAUSAL_OPTIONS, MASKED_OPTIONS, open_checkpoint
    from contstim.models.hf.metrics import BYTES, DUEL, YES_NO

    metric = spec.get("metric", "")
    if metric != YES_NO:  # whose model says what else it takes
        spec.check_options({*CAUSAL_OPTIONS, *MASKED_OPTIONS})
    checkpoint = open_checkpoint(spec)
    usual, others = "causal:CausalModel", {BYTES: "bytes:ByteModel", YES_NO: "asked:AskedModel"}
    if checkpoint.kind == "masked":
        usual, others = "masked:MaskedModel", {DUEL: "unmasking:UnmaskingModel"}
        spec.check_options(MASKED_OPTIONS)
    elif metric != YES_NO:
        spec.check_options(CAUSAL_OPTIONS)
    model: SentenceModel = imported(f"contstim.models.hf.{others.get(metric, usual)}")(
        spec, checkpoint
    )
    return model
