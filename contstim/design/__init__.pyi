"""Public names of `contstim.design`."""

from contstim.design.check import check_design
from contstim.design.latin import latin_square
from contstim.design.power import power_curve, required_sample_size
from contstim.design.simulate import Simulation, simulate_choices
from contstim.design.studies import StudySimulator
from contstim.design.trials import CONDITIONS, LAYOUTS, Layout, design_trials

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
