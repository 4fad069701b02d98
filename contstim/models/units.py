"""The unit of a model's scores, told from its spec alone: tables and figures have no more."""

from __future__ import annotations

from contstim.errors import SpecError
from contstim.models.bundled import bundled_models
from contstim.models.spec import ModelSpec

__all__ = ["family_of", "gives_log_probabilities", "score_unit"]

_BY_REDUCTION = {
    "sum": "nats",
    "mean": "nats a token",
    "slor": "nats a token",
    "pen": "nats, length-penalised",
    "ppl": "perplexity",
}


def family_of(spec: ModelSpec) -> str:
    """Return the family that reads a model; for a bundled one that of its file."""
    if spec.family == "contstim" and spec.location in bundled_models():
        return bundled_models()[spec.location].family
    return spec.family


def gives_log_probabilities(spec: str) -> bool:
    """Say whether the scores of the model that `spec` names are (estimated) log-probabilities.

    A classifier's are not: they are the probability of no sentence, and differences of them are
    no log-ratios. A name that is no spec, as tables of others have them, counts as one that is.
    """
    try:
        return family_of(ModelSpec.parse(spec)) != "classifier"
    except SpecError:
        return True


def score_unit(spec: str) -> str:
    """Return the unit of a model's scores in a few words, such as ``nats`` or ``score``.

    ``score`` stands for a number without a unit in common with other models': a classifier's, and
    a student's, which is its teacher's estimated.
    """
    try:
        parsed = ModelSpec.parse(spec)
    except SpecError:
        return "nats"
    if family_of(parsed) in ("classifier", "student"):
        return "score"
    return _BY_REDUCTION.get(parsed.get("reduction", "sum"), "score")
