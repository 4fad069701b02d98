"""The examples of the gallery run and draw a figure."""

from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))


def test_gallery_examples_are_found() -> None:
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_gallery_example_draws_a_figure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plt, "show", lambda: None)
    try:
        exec(compile(path.read_text("utf-8"), path.name, "exec"), {"__name__": "__main__"})
        drawn = [ax for n in plt.get_fignums() for ax in plt.figure(n).axes if ax.has_data()]
        assert drawn, f"{path.name} draws nothing"
    finally:
        plt.close("all")
