"""Test that `contstim demo --experiment` serves the bundled study."""

from pathlib import Path

import pytest

from contstim.cli import main
from contstim.experiment.study import CONSENT_PLACEHOLDER, Study


def test_demo_experiment_can_be_served_repeatedly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[Study, int]] = []
    monkeypatch.setattr(
        "contstim.experiment.commands.experiment.serve_study",
        lambda study, port: served.append((study, port)),
    )
    command = ["demo", "--experiment", "--out", str(tmp_path), "--port", "0"]
    assert main(command) == 0
    assert main(command) == 0
    assert [study.folder for study, _ in served] == [tmp_path / "study"] * 2
    assert {port for _, port in served} == {0}
    study, _ = served[0]
    assert not study.notes
    assert CONSENT_PLACEHOLDER not in study.consent_text
    assert len(study.design.groups) == 12
    for own in study.design.trials.values():
        shown = [text for trial in own for text in trial.shown.values()]
        assert len(own) == 14
        assert len(set(shown)) == len(shown)  # nobody sees a sentence twice
