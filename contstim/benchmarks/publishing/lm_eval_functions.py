"""What a published task of the lm-evaluation-harness needs, and nothing but that brings."""

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from math import fsum
from pathlib import Path
from typing import Any


def load_pairs(**_options: object) -> dict[str, Any]:
    """Return the pairs beside this file as the split ``test``."""
    text = (Path(__file__).parent / "pairs.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return {"test": import_module("datasets").Dataset.from_list(rows)}


def pair_agreement(
    doc: Mapping[str, Any], results: Iterable[tuple[float, bool]]
) -> dict[str, float]:
    """Return what a pair adds to the accuracy; a tie of the scores adds one half of its weight."""
    first, second = (score for score, _ in results)
    preferred = int(second > first) - int(second < first)
    return {"accuracy": doc["weight"] / 2 + doc["lean"] * preferred}


def total(parts: Iterable[float]) -> float:
    """Return the sum of what pairs add, rounded once."""
    return fsum(parts)
