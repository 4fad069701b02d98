"""The demonstration's experiment: from triplets to a study that is served."""

from pathlib import Path

import pytest

from contstim.cli import main
from contstim.cli.demo import demo_study
from contstim.errors import InputError
from contstim.experiment.study import Study
from contstim.search.triplets import Triplet

PAIRS = (("m1", "m2"), ("m2", "m3"))


def triplets(n: int) -> list[Triplet]:
    """Return a triplet of each of `n` natural sentences for both pairs of models."""
    return [
        Triplet(
            model_1=one,
            model_2=two,
            natural=f"Natural {i}.",
            synthetic_1=f"First {one} {i}.",
            synthetic_2=f"Second {one} {i}.",
            natural_lp_1=-50.0,
            natural_lp_2=-50.0,
            synthetic_1_lp_1=-49.0,
            synthetic_1_lp_2=-60.0 - i,
            synthetic_2_lp_1=-60.0 - i,
            synthetic_2_lp_2=-49.0,
        )
        for one, two in PAIRS
        for i in range(n)
    ]


def test_the_best_triplets_are_laid_out_without_repeats(tmp_path: Path) -> None:
    study = demo_study(triplets(8), tmp_path / "study", seed=1)
    assert len(study.design.groups) == 12
    for own in study.design.trials.values():
        shown = [text for trial in own for text in (trial.left, trial.right)]
        assert len(set(shown)) == len(shown) == 2 * (2 * 3 + 3 + 3)
    (tmp_path / "study" / "study.toml").unlink()
    with pytest.raises(InputError, match="give more --sentences"):
        demo_study(triplets(5), tmp_path / "other", seed=1)


def test_the_command_serves_and_serves_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[Study, int]] = []
    monkeypatch.setattr(
        "contstim.cli.demo.serve_study", lambda study, port: served.append((study, port))
    )
    monkeypatch.setattr("contstim.cli.demo._write_triplets", lambda *_: triplets(6))
    monkeypatch.setattr("contstim.cli.demo._select_pairs", lambda *_: None)
    command = ["demo", "--experiment", "--out", str(tmp_path), "--port", "0"]
    assert main(command) == 0
    monkeypatch.setattr("contstim.cli.demo._write_triplets", None)
    assert main(command) == 0
    assert [study.folder for study, _ in served] == [tmp_path / "study"] * 2
    assert {port for _, port in served} == {0}
