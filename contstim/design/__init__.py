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

# Names that load the evaluation package on first use, which takes a while, and their modules.
_MODULES = {
    "Simulation": "simulate",
    "StudySimulator": "studies",
    "power_curve": "power",
    "required_sample_size": "power",
    "simulate_choices": "simulate",
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
    if name not in _MODULES:
        raise AttributeError(f"module 'contstim.design' has no attribute {name!r}")
    return getattr(import_module(f"contstim.design.{_MODULES[name]}"), name)
