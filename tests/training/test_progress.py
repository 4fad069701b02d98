"""Progress of training with and without a terminal."""

import io
import sys

from contstim.training.progress import TrainingProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_otherwise(monkeypatch):
    for stream, bar in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with TrainingProgress(n_steps=4, n_done=1, is_visible=True) as shown:
            shown.step(2.5)
            shown.log("step 2 of 4")
        assert "step 2 of 4\n" in stream.getvalue()
        assert ("training:" in stream.getvalue()) == bar
    with TrainingProgress(n_steps=4, n_done=0, is_visible=False) as shown:
        shown.step(2.5)
        shown.log("nothing")
    assert "nothing" not in stream.getvalue()
