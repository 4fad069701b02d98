"""A target as a researcher adds it: the first model accepts what each of the others rejects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contstim.synthesis.targets import Goal, SynthesisTarget

__all__ = ["FIRST_ALONE"]


class _FirstAlone(SynthesisTarget):
    summary = "what the first accepts and each of the others rejects"

    def goals(self, models: Sequence[str], **options: Any) -> list[Goal]:
        first, *others = models
        return [(((other,), (first,)),) for other in others]


FIRST_ALONE = _FirstAlone()
