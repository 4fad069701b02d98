"""Figures of power and recovery, drawn on given axes, on new ones, and for files."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from contstim.design.figures import power_figure, recovery_figure
from contstim.drawing import sheet, svg_text
from contstim.errors import InputError


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def recovered(axes):
    curve = pd.DataFrame({"n_trials": [1, 2], "recovery": [0.5, 0.9], "low": 0.4, "high": 1.0})
    pairs = pd.DataFrame({"model_1": ["a"], "model_2": ["b"], "log_bayes_factor": [0.1]})
    tables = (pd.concat([table.assign(design=d) for d in "xy"]) for table in (curve, pairs))
    return recovery_figure(*tables, axes=axes)


def powered(axes):
    row = {"analysis": "all", "measure": "accuracy", "model_1": "a", "model_2": "b"}
    row |= {"n_trials": 20, "n_groups": 1, "low": 0.1, "high": 0.9}
    curve = pd.DataFrame([row | {"n_participants": n, "power": n / 50} for n in (10, 20, 40)])
    return power_figure(curve, axes=axes)


@pytest.mark.parametrize(("draw", "number"), [(recovered, 3), (powered, 1)])
def test_figures_draw_on_given_axes_or_on_new_ones(draw, number):
    _, axes = plt.subplots(1, number + 1, squeeze=False)
    *own, other = axes[0]
    assert draw(own) == own
    assert all(ax.has_data() for ax in own)
    assert not other.has_data()
    new = draw(None)
    assert len(plt.get_fignums()) == 2  # shown by a notebook
    alone = sheet(number)
    assert draw(alone) == alone
    assert len(plt.get_fignums()) == 2  # made without pyplot
    assert svg_text(alone[0]).startswith("<svg")
    same = new[0].figure.get_size_inches().tolist()
    assert alone[0].figure.get_size_inches().tolist() == same


def test_points_are_those_of_the_table():
    (ax,) = powered(None)
    assert ax.lines[0].get_xydata().tolist() == [[10, 0.2], [20, 0.4], [40, 0.8]]


def test_a_figure_of_several_panels_needs_as_many_axes():
    with pytest.raises(InputError, match=r"the figure needs 3 axes, got 2; give as many"):
        recovered(sheet(2))
