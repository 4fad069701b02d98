"""Test the figure of power on given axes, on new axes and in files."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from contstim.design.figures import power_figure
from contstim.drawing import create_axes, render_svg
from contstim.errors import InputError


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def draw_power_figure(axes):
    row = {"analysis": "all", "measure": "accuracy", "model_1": "a", "model_2": "b"}
    row |= {"n_trials": 20, "n_groups": 1, "stderr": 0.1, "recovery": 0.9}
    rows = [row | {"n_participants": n, "power": n / 50} for n in (10, 20, 40)]
    rows += [row | {"measure": "signed_rank_cosine"} for row in rows]
    return power_figure(pd.DataFrame(rows), axes=axes)


def test_power_figure_uses_given_or_new_axes():
    plt.close("all")
    _, axes = plt.subplots(1, 3, squeeze=False)
    *own, other = axes[0]
    assert draw_power_figure(own) == own
    assert all(ax.has_data() for ax in own)
    assert not other.has_data()
    new = draw_power_figure(None)
    assert len(plt.get_fignums()) == 2  # shown by a notebook
    alone = create_axes(2)
    assert draw_power_figure(alone) == alone
    assert len(plt.get_fignums()) == 2  # made without pyplot
    assert render_svg(alone[0]).startswith("<svg")
    same = new[0].figure.get_size_inches().tolist()
    assert alone[0].figure.get_size_inches().tolist() == same


def test_power_figure_plots_the_table():
    ax = draw_power_figure(None)[0]
    assert ax.lines[0].get_xydata().tolist() == [[10, 0.2], [20, 0.4], [40, 0.8]]
    assert ax.lines[1].get_xydata().tolist() == [[10, 0.9], [20, 0.9], [40, 0.9]]  # recovery


def test_power_figure_needs_one_axes_per_panel():
    with pytest.raises(InputError, match=r"the figure needs 2 axes, got 1; give one per panel"):
        draw_power_figure(create_axes(1))
