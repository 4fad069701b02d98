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
    """Identity of a model, as its specification string in the study plan and a description.

    Two models with equal records assign the same scores to all sentences.

    Attributes
    ----------
    plan_spec
        Model specification string as written in the study plan, for example ``hf:gpt2``.
    description
        Everything that determines the scores: canonical specification string, definition of the
        score, weights and packages (`contstim.models.cache.describe_model`).
    """

    plan_spec: str
    description: Mapping[str, Any]

    @classmethod
    def from_spec(cls, spec: str, cache: ModelCache | None = None) -> ModelRecord:
        """Load a model on the CPU and describe it.

        The process that distributes tasks may have no GPU. A device that the specification string
        requests is therefore only recorded in the description.

        Parameters
        ----------
        spec
            Model specification string as written in the study plan.
        cache
            Cache to which the model is added, unless the specification string requests a device
            other than the CPU.
        """
        device = ModelSpec.parse(spec).get("device", "cpu")
        if cache is not None and device == "cpu":
            _, record = cache.get(spec)
            return record
        # The process that distributes tasks may have no GPU, so always load the model on the CPU.
        description = describe_model(load_model_on_cpu(spec))
        # Record the requested device: it is part of the model's identity, because scores computed
        # on another device can differ in their last digits.
        if device != "cpu":
            canonical = ModelSpec.parse(description["spec"])
            options = tuple(sorted([*canonical.options, ("device", device)]))
            description["spec"] = str(replace(canonical, options=options))
        return cls(spec, description)

    @property
    def name(self) -> str:
        """Name of the model in tables: its name in the plan or its canonical specification."""
        return ModelSpec.parse(self.plan_spec).name or self.spec

    @property
    def spec(self) -> str:
        """Canonical specification string, with the requested device."""
        return str(self.description["spec"])

    def identity(self, versions: Mapping[str, str]) -> dict[str, Any]:
        """Return everything that determines the scores of the model, as the key of the score cache.

        Parameters
        ----------
        versions
            Mapping from package name to version, for all packages that scores depend on.
        """
        return {"model": dict(self.description), "versions": dict(versions)}


def load_model_on_cpu(spec: str) -> SentenceModel:
    """Load a model on the CPU, even if its specification string requests another device."""
    parsed = ModelSpec.parse(spec)
    options = tuple((name, value) for name, value in parsed.options if name != "device")
    return load_model(replace(parsed, options=options))


class ModelCache:
    """Cache that keeps the most recently used models of this process in memory.

    Loading a model is slow, and consecutive tasks often use the same models. A model is requested
    by its specification string in the study plan.
    """

    def __init__(self) -> None:
        self._entries: dict[str, tuple[SentenceModel, ModelRecord]] = {}

    def contains(self, record: ModelRecord) -> bool:
        """Return whether the cache contains a model with exactly this record."""
        _, cached_record = self._entries.get(record.plan_spec, (None, None))
        return cached_record == record

    def get(self, spec: str, keep: Collection[str] = ()) -> tuple[SentenceModel, ModelRecord]:
        """Return a model and its record, and load the model if the cache does not contain it.

        If the cache is full, the least recently used model is removed from it.

        Parameters
        ----------
        spec
            Model specification string as written in the study plan.
        keep
            Specification strings of models that must not be removed from the cache.
        """
        entry = self._entries.pop(spec, None)
        # `pop` has removed the entry. It is inserted again below, as the most recently used one.
        if entry is None:
            # Remove the least recently used models, which come first, to make room for this model.
            removable = [cached for cached in self._entries if cached not in keep]
            n_removed = max(0, len(self._entries) - _CACHE_SIZE + 1)
            for cached in removable[:n_removed]:
                del self._entries[cached]
            model = load_model(spec)
            entry = model, ModelRecord(spec, describe_model(model))
        self._entries[spec] = entry
        return entry

    def discard(self, spec: str) -> None:
        """Remove a model from the cache, if it is there."""
        self._entries.pop(spec, None)
