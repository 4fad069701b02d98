"""Experimental design: lists of trials, counterbalancing, power and sample size."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from contstim.design.latin import latin_square
from contstim.design.trials import CONDITIONS, LAYOUTS, Layout, check_design, design_trials

if TYPE_CHECKING:
    from contstim.design.power import power_curve, required_sample_size
    from contstim.design.simulate import Simulation, simulate_choices
    from contstim.design.studies import StudySimulator

_NAMES = {
    "power": ("power_curve", "required_sample_size"),
    "simulate": ("Simulation", "simulate_choices"),
    "studies": ("StudySimulator",),
}

__all__ = [
    "CONDITIONS",
    "LAYOUTS",
    "Layout",
    "Simulation",
    "StudySimulator",
    "check_design",
    "design_trials",
    "latin_square",
    "power_curve",
    "required_sample_size",
    "simulate_choices",
]


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"contstim.design.{module}"), name)
    raise AttributeError(f"module 'contstim.design' has no attribute {name!r}")
