"""Test a study from pilot data to the report by its commands."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
import pytest
from client_messages import answer, consent
from hosts import Server
from whole_study import (
    choose,
    evaluate_study,
    plan_study,
    play_until_closed,
    read_scores,
    watch_study,
)

from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data


class Served(Server):
    """Server process of `contstim experiment serve`."""

    def command(self) -> list[str]:
        run = "import sys; from contstim.cli import main; sys.exit(main())"
        where = ["serve", str(self.study), "--port", str(self.port)]
        return [sys.executable, "-c", run, "experiment", *where]

    def ask(self, what: str, body: Mapping[str, Any], token: str = "") -> tuple[int, Any]:
        """Send a request of the page; return the status and the answer."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        request = Request(f"{self.url}api/{what}", json.dumps(body).encode(), headers)
        try:
            with urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except HTTPError as refused:
            return refused.code, json.load(refused)


def take_part(server: Served, study: Study, scores: pd.Series, rng: np.random.Generator) -> str:
    """Answer a session mostly as the model prefers; return its outcome."""
    status, begun = server.ask("sessions", consent(study))
    if status >= 400:
        return str(begun["outcome"])
    token, trials, more = begun["token"], begun["bundle"]["trials"], begun["bundle"]["more"]
    practice = [answer(f"p{number}") for number in (1, 2)]
    server.ask("answers", {"answers": practice}, token)
    done = 0
    while True:
        if more:
            _, found = server.ask("next", {"after": len(trials)}, token)
            trials, more = trials + found["trials"], found["more"]
        sent = []
        for trial in trials[done : done + 3]:
            side = choose(scores, **trial["shown"])
            side = 7 - side if rng.random() < 0.1 else side
            sent.append(answer(trial["trial"], (-3, -2, -1, 1, 2, 3)[side - 1]))
        if not sent:
            return str(server.ask("finish", {}, token)[1]["outcome"])
        assert server.ask("answers", {"answers": sent}, token)[0] == 200
        done += len(sent)


@pytest.mark.parametrize("policy", ["information", "fixed"])
def test_study_runs_from_pilot_to_report(policy: str, tmp_path: Path) -> None:
    study = plan_study(tmp_path, policy, trials=6)
    scores, rng = read_scores(tmp_path), np.random.default_rng(1)
    registered = (tmp_path / "preregistration.md").read_text("utf-8")
    assert registered.startswith("# Fixed study" if policy == "fixed" else "# Adaptive study")
    server = Served(study.folder)
    server.start()
    try:
        verdict = play_until_closed(study, lambda: take_part(server, study, scores, rng))
    finally:
        server.close()
    page, deviations = evaluate_study(tmp_path)
    assert deviations == ["None."]
    assert "p and q do not account for stopping early" in page
    watched = watch_study(tmp_path)
    assert f"conclusion: {verdict}" in watched
    assert "deviation" not in watched
    n = len(read_study_data(study).sessions)
    assert f"could have stopped after {n} participants" in watched
    # The study stopped at an interim analysis; these p and q allow for it.
    assert re.search(r"to [+-]\d\.\d+\), p = \S+, q = \S+ significant", watched)
    other = (tmp_path / "plan.toml").read_text("utf-8").replace("anchors = 1", "anchors = 2")
    (tmp_path / "other.toml").write_text(other, "utf-8")
    watched = watch_study(tmp_path, "other.toml")
    assert "deviation from the plan: the data have 1 anchor; the plan has 2." in watched
