"""Messages that the page sends to the server."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from contstim.experiment.messages import Consent, SessionRequest
from contstim.experiment.schema import write_transaction
from contstim.experiment.store import Store
from contstim.experiment.study import Study


def session_request(
    study: Study, participant: str | None = None, request: str | None = None
) -> SessionRequest:
    consent = Consent(study.consent.version, study.consent_sha256)
    return SessionRequest(consent, participant, request, {})


def consent(study: Study, participant: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "consent": {
            "version": study.consent.version,
            "sha256": study.consent_sha256,
            "given": True,
        },
        "participant": participant,
        **more,
    }


def answer(trial: str, choice: int = -2, **more: Any) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "trial": trial,
        "choice": choice,
        "rt_ms": 1234,
        "answered_at": "2026-11-21T12:00:00.123Z",
        "input": "key",
        "focus_losses": 0,
        "hidden_ms": 0,
        "shown": 1,
        **more,
    }


def event(kind: str = "blur", **more: Any) -> dict[str, Any]:
    at = "2026-11-21T12:00:00Z"
    return {"id": str(uuid.uuid4()), "kind": kind, "at": at, "detail": "", **more}


def answers_to(trials: Iterable[dict[str, Any]], choice: int = -2) -> list[dict[str, Any]]:
    return [answer(trial["trial"], choice) for trial in trials]


def play(store: Store, name: str | None, catch: int = 2, n: int | None = None) -> str:
    """Answer `n` trials (all by default), `catch` catch trials correctly; return the session.

    In all others sentence 1 is chosen, with confidence 2.
    """
    token, bundle, _ = store.open(session_request(store.study, name)).result()
    sent, right = [], 0
    for trial in store.study.design.trials[bundle["assignment"]][:n]:
        one = -2 if (trial.side_1 or trial.expected) == "left" else 2
        if trial.condition == "catch":
            right += 1
            one = one if right <= catch else -one
        sent.append(answer(trial.id, one))
    store.add_answers(token, sent).result()
    if n is None:
        store.finish(token).result()
    return str(bundle["session"])


def age_sessions(study: Study, seconds: float) -> None:
    """Move the last activity of all sessions into the past."""
    with write_transaction(study.folder / "collected.sqlite3") as connection:
        connection.execute(
            "UPDATE sessions SET started_at = started_at - ?, last_at = last_at - ?",
            (seconds, seconds),
        )
