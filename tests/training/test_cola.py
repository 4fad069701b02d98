"""Files of CoLA, and the Matthews correlation."""

from pathlib import Path

import numpy as np
import pytest

from contstim.errors import InputError
from contstim.training.cola import matthews_correlation, read_cola


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x\t2\t\tThe dog ran.", "line 3: write 1 (acceptable) or 0, not '2'"),
        ("x\t1\t\t ", "line 3 has no sentence; fill or remove the line"),
        ("x\t1\tThe dog ran.", "line 3 has 3 columns, not the four of CoLA: source, label, mark,"),
    ],
)
def test_invalid_lines_of_cola_are_reported(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"x\t1\t\tThe cat ran.\nx\t0\t*\tCat the ran.\n{line}\n")
    with pytest.raises(InputError) as error:
        read_cola(path)
    assert str(error.value).startswith(f"{path}, {message}")


def test_matthews_correlation_equals_its_formula():
    labels, guesses = [1, 1, 1, 0, 0, 1], [1, 1, 0, 0, 1, 1]
    tp, tn, fp, fn = 3, 1, 1, 1
    expected = (tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert matthews_correlation(labels, guesses) == pytest.approx(expected)
    assert matthews_correlation(labels, [1] * 6) == 0
    with pytest.raises(InputError, match="do not match"):
        matthews_correlation([1, 0], [1])
