"""Experimental design: lists of trials, counterbalancing, power and sample size."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from contstim.design.latin import latin_square
from contstim.design.trials import CONDITIONS, LAYOUTS, Layout, check_design, design_trials

if TYPE_CHECKING:
    from contstim.design.planning import plan_design, power
    from contstim.design.simulate import Simulation, simulate_choices

_NAMES = {
    "planning": ("plan_design", "power"),
    "simulate": ("Simulation", "simulate_choices"),
}

__all__ = [
    "CONDITIONS",
    "LAYOUTS",
    "Layout",
    "Simulation",
    "check_design",
    "design_trials",
    "latin_square",
    "plan_design",
    "power",
    "simulate_choices",
]


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"contstim.design.{module}"), name)
    raise AttributeError(f"module 'contstim.design' has no attribute {name!r}")
