"""Records that identify the models of a run, and a cache of loaded models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.cache import describe_model
from contstim.models.registry import load_model

# Number of models that stay loaded between tasks: enough for the models of one pair.
_CACHE_SIZE = 2


@dataclass(frozen=True)
class ModelRecord:
    """Identity of a model: its spec in the study plan, and a description.

    Attributes
    ----------
    plan_spec
        Spec as written in the study plan.
    description
        Canonical spec, event, weights and packages (`contstim.models.cache.describe_model`).
    """

    plan_spec: str
    description: Mapping[str, Any]

    @classmethod
    def from_spec(cls, spec: str, cache: ModelCache | None = None) -> ModelRecord:
        """Load a model on the CPU and describe it.

        The process that distributes tasks may have no GPU, so the device of the spec is only
        recorded in the description.

        Parameters
        ----------
        spec
            Spec as written in the study plan.
        cache
            Cache that the model is added to if its spec requests no other device than the CPU.
        """
        device = ModelSpec.parse(spec).get("device", "cpu")
        if cache is not None and device == "cpu":
            return cache.get(spec)[1]
        description = describe_model(load_model_on_cpu(spec))
        if device != "cpu":
            canonical = ModelSpec.parse(description["spec"])
            options = tuple(sorted([*canonical.options, ("device", device)]))
            description["spec"] = str(replace(canonical, options=options))
        return cls(spec, description)

    @property
    def name(self) -> str:
        """Name of the model in tables: the name in the plan, by default the canonical spec."""
        return ModelSpec.parse(self.plan_spec).name or self.spec

    @property
    def spec(self) -> str:
        """Canonical spec with the requested device."""
        return str(self.description["spec"])

    def identity(self, versions: Mapping[str, str]) -> dict[str, Any]:
        """Return everything that determines the model's scores: its key in the score cache.

        Parameters
        ----------
        versions
            Versions of the packages that scores depend on, by package.
        """
        return {"model": dict(self.description), "versions": dict(versions)}


def load_model_on_cpu(spec: str) -> SentenceModel:
    """Load a model on the CPU; the device in its spec is ignored."""
    parsed = ModelSpec.parse(spec)
    options = tuple(option for option in parsed.options if option[0] != "device")
    return load_model(replace(parsed, options=options))


class ModelCache:
    """Cache of the models that this process used most recently.

    Loading a model is slow, so models stay in memory for the next task. The keys of the cache are
    the specs of the models in the study plan.
    """

    def __init__(self) -> None:
        self._entries: dict[str, tuple[SentenceModel, ModelRecord]] = {}

    def contains(self, record: ModelRecord) -> bool:
        """Return whether the cache contains a model with exactly this record."""
        entry = self._entries.get(record.plan_spec)
        return entry is not None and entry[1] == record

    def get(self, spec: str, keep: Collection[str] = ()) -> tuple[SentenceModel, ModelRecord]:
        """Return a model and its record; load the model if the cache does not contain it.

        Parameters
        ----------
        spec
            Spec as written in the study plan.
        keep
            Specs of models that must stay in the cache.
        """
        entry = self._entries.pop(spec, None)
        if entry is None:
            # Remove the models that were not used for the longest time.
            removable = [cached for cached in self._entries if cached not in keep]
            for cached in removable[: max(0, len(self._entries) - _CACHE_SIZE + 1)]:
                del self._entries[cached]
            model = load_model(spec)
            entry = model, ModelRecord(spec, describe_model(model))
        self._entries[spec] = entry  # The last entry is the most recently used.
        return entry

    def discard(self, spec: str) -> None:
        """Remove a model from the cache, if it is there."""
        self._entries.pop(spec, None)
