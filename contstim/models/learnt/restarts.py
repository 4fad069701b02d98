"""Finished restarts on the disk, so that an interrupted fine-tuning goes on where it stopped."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from contstim.arrays import FloatArray
from contstim.files import write_whole

__all__ = ["Restart", "RestartStore"]


@dataclass(frozen=True, eq=False)
class Restart:
    """One restart.

    Attributes
    ----------
    weights
        As `Member.trained` gives them.
    margins
        For each development set the margins of its sentences, (S,).
    row
        Its seed, correlations and losses, as JSON values.
    """

    weights: dict[str, torch.Tensor]
    margins: dict[str, FloatArray]
    row: dict[str, Any]

    @property
    def name(self) -> str:
        """What its file in the classifier's folder is called."""
        return f"restart-{self.row['seed']}"


@dataclass(frozen=True)
class RestartStore:
    """A folder of restarts of one fine-tuning, which `digest` tells from others."""

    folder: Path
    digest: str

    def _path(self, seed: int) -> Path:
        return self.folder / f"{self.digest}-{seed}.safetensors"

    def read(self, seed: int) -> Restart | None:
        """Return the restart of a seed, or None if it is not there whole."""
        try:
            with safe_open(self._path(seed), "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                row = json.loads(file.metadata()["row"])
        except (OSError, SafetensorError, KeyError, ValueError):
            return None
        weights = {n[2:]: t for n, t in tensors.items() if n.startswith("w.")}
        margins = {n[2:]: t.numpy() for n, t in tensors.items() if n.startswith("m.")}
        return Restart(weights, margins, row)

    def add(self, restart: Restart) -> None:
        """Keep a restart; it is on the disk, whole, when this returns."""
        path = self._path(int(restart.row["seed"]))
        tensors = {f"w.{n}": t.cpu().contiguous() for n, t in restart.weights.items()}
        tensors.update({f"m.{n}": torch.from_numpy(v) for n, v in restart.margins.items()})
        write_whole(path, save(tensors, {"row": json.dumps(restart.row)}))

    def clear(self, seeds: range) -> None:
        """Remove what is not needed any more, and the folder if it is then empty."""
        for seed in seeds:
            self._path(seed).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()
