"""Tasks: the pieces of work that are spread and kept, each named by all it depends on.

A task is a JSON value; its key is the digest of that value: specs, events and weights of its
models, versions, vocabulary, strategy, seed and sentences. Chance comes from the task itself, so
the same task gives the same result in any order and wherever it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from contstim.files import digest_of
from contstim.search.search import Step, Synthesis

__all__ = ["Outcome", "Task", "synthesis_from", "synthesis_record"]


@dataclass(frozen=True, eq=False)
class Task:
    """One piece of work.

    Attributes
    ----------
    config
        Everything that its result depends on, as JSON values. ``config["task"]`` is its kind:
        ``score`` (one model, some sentences) or ``synthesize`` (two models, one way round, one
        start sentence).
    """

    config: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """The task's name: 32 hexadecimal digits."""
        return digest_of(self.config)

    @property
    def kind(self) -> str:
        """``score`` or ``synthesize``."""
        return str(self.config["task"])

    @property
    def models(self) -> tuple[str, ...]:
        """The specs of the models that the task loads, as the study plan gives them."""
        return tuple(self.config["given"][role] for role in sorted(self.config["given"]))

    @property
    def group(self) -> str:
        """Tasks of one group load the same models, whichever way round."""
        return "\n".join(sorted(self.models))

    def __str__(self) -> str:
        config = self.config
        if self.kind == "score":
            sentences = config["sentences"]
            return (
                f"score {len(sentences)} sentences from {sentences[0]!r} on under "
                f"{config['model']['spec']}"
            )
        return (
            f"synthesize from {config['sentence']!r}, rejected by {config['reject']['spec']}, "
            f"accepted by {config['accept']['spec']}"
        )


@dataclass(frozen=True)
class Outcome:
    """What became of a task: committed (`error` None), or given up.

    Attributes
    ----------
    key
        The task's.
    error
        One line, or None.
    """

    key: str
    error: str | None = None


def synthesis_record(result: Synthesis) -> dict[str, Any]:
    """Return a synthesis, its steps included, as JSON values."""
    return asdict(result)


def synthesis_from(record: Mapping[str, Any]) -> Synthesis:
    """Return the synthesis that `synthesis_record` wrote."""
    values = dict(record)
    values["steps"] = tuple(
        Step(**{**step, "n_scores": tuple(step["n_scores"])}) for step in values["steps"]
    )
    values["n_scores"] = tuple(values["n_scores"])
    return Synthesis(**values)
