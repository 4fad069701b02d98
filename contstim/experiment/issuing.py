"""The trials of a session, which come in blocks: one of a fixed design, many of an adaptive one.

What an adaptive study has issued stands in the data file, a row a block, with all that the choice
was made by; the conductor in memory is made from it, and from the answers, and holds nothing else.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from contstim.errors import InputError
from contstim.experiment.schema import insert
from contstim.experiment.study import Study
from contstim.experiment.trials import CHOSEN, Trial, rating_of
from contstim.files import digest_of

if TYPE_CHECKING:
    from contstim.adaptive.conduct import Block, Conductor

_Row = Mapping[str, Any] | sqlite3.Row

#: What each chosen trial's row says of its choice: number of its block (the order of issue), how
#: probable it was, the pairs that could be chosen, and the pool's pairs.
ISSUED_WITH = ("block", "propensity", "available", "pool")


def session_trials(
    connection: sqlite3.Connection, study: Study, session: str, seat: int
) -> tuple[Trial, ...]:
    """Return the trials of a session, in order; those that are still to be chosen are blank."""
    own = study.design.trials[seat]
    if not study.design.n_blank(seat):
        return own
    blocks = connection.execute(
        "SELECT * FROM blocks WHERE session = ? ORDER BY number", (session,)
    ).fetchall()
    return filled(own, blocks)


def filled(trials: Sequence[Trial], blocks: Sequence[_Row]) -> tuple[Trial, ...]:
    """Return an assignment's trials with those that blocks of one session brought.

    Blank ones that are left stay, or go if a block says that there are no more.
    """
    chosen = [(block, one) for block in blocks for one in json.loads(block["trials"])]
    ended = bool(blocks) and blocks[-1]["trials"] == "[]"
    found: list[Trial] = []
    for trial in trials:
        if trial.blank and chosen:
            found.append(_chosen(trial, *chosen.pop(0)))
        elif not trial.blank or not ended:
            found.append(trial)
    return tuple(found)


def issued(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the trials that a page may have: those before the first that is still blank."""
    return tuple(takewhile(lambda trial: not trial.blank, trials))


def _chosen(blank: Trial, block: _Row, one: Sequence[Any]) -> Trial:
    pair, *sentences, propensity, turned = one
    left, right = reversed(sentences) if turned else sentences
    made = (block["number"], propensity, block["available"], block["pairs"])
    row = {**blank.row, "item": str(pair + 1), **dict(zip(ISSUED_WITH, made, strict=True))}
    return replace(
        blank,
        trial=f"t{pair + 1}",
        condition=CHOSEN,
        shown={"left": left, "right": right},
        side_1="right" if turned else "left",
        row=row,
    )


class Issuing:
    """Chooses blocks for an adaptive study and writes them down; used by the writer's thread alone.

    Parameters
    ----------
    study
        The study, with the table ``[adaptive]``.

    Raises
    ------
    InputError
        If its pool cannot be used.
    """

    def __init__(self, study: Study) -> None:
        # Loads pandas, which a fixed design does without.
        from contstim.experiment.adaptive import read_pool

        assert study.adaptive is not None
        self._study, self._plan, self._pool = study, study.adaptive, read_pool(study)
        self._made_by = {
            "pool": self._pool.digest,
            "pairs": len(self._pool.pairs),
            "plan": digest_of(asdict(self._plan)),
            "seed": self._plan.seed,
        }
        self._conductor: Conductor | None = None
        self._sides: dict[int, tuple[str, str]] = {}  # whose a pair is, and where sentence 1 stood
        self._last = 0  # answer that the conductor knows

    def check(self, connection: sqlite3.Connection) -> None:
        """Refuse data whose blocks were chosen from another pool, or by another plan."""
        for name, known in self._made_by.items():
            query = f"SELECT 1 FROM blocks WHERE {name} IS NOT ? LIMIT 1"  # noqa: S608 - a column of ours
            if connection.execute(query, (known,)).fetchone() is not None:
                file = "study.toml" if name in ("plan", "seed") else "pool.csv or the scores"
                raise InputError(
                    f"{self._study.folder}: {file} changed since blocks were issued (another "
                    f"{name}); put back what was there, or make another study"
                )
        self.conductor(connection)

    def forget(self) -> None:
        """Make the conductor anew from the data: what it was told may not be stored."""
        self._conductor = None

    def learn(self, connection: sqlite3.Connection) -> None:
        """Take in the answers to a block, if one is due, before anybody waits for the next."""
        self.conductor(connection).learn()

    def issue(self, connection: sqlite3.Connection, session: str, now: float) -> None:
        """Choose and store the next block of a session, if one is due.

        It is if fewer than two of the session's blocks wait for answers, and trials are left.
        """
        conductor = self.conductor(connection)
        if not conductor.left(session) or len(conductor.waiting(session)) >= 2:
            return
        block = conductor.issue(session, conductor.left(session))
        one, two = (self._pool.pairs[f"sentence_{k}"] for k in (1, 2))
        trials = [
            [pair, str(one.iloc[pair]), str(two.iloc[pair]), propensity, turned]
            for pair, propensity, turned in zip(
                block.pairs, block.propensities, block.turned, strict=True
            )
        ]
        row = {
            "number": block.number,
            "session": session,
            "issued_at": now,
            "trials": json.dumps(trials, ensure_ascii=False),
            "available": block.available,
            "version": block.version,
            "passed_over": json.dumps(block.passed_over),
            **self._made_by,
        }
        insert(connection, "blocks", row)
        conductor.record(block)
        self._note(block)

    def conductor(self, connection: sqlite3.Connection) -> Conductor:
        """Return the conductor as the blocks and answers in the data make it."""
        if self._conductor is None:
            from contstim.adaptive.conduct import Conductor

            made = Conductor(self._plan, self._pool)
            rows = connection.execute("SELECT * FROM blocks ORDER BY number")
            blocks = [_block(row) for row in rows]
            self._sides = {}
            for block in blocks:
                self._note(block)
            self._last = 0
            made.replay(blocks, self._answers(connection))
            self._conductor = made
        for pair, rating in self._answers(connection).items():
            self._conductor.answer(pair, rating)
        return self._conductor

    def _note(self, block: Block) -> None:
        for pair, turned in zip(block.pairs, block.turned, strict=True):
            self._sides[pair] = block.participant, "right" if turned else "left"

    def _answers(self, connection: sqlite3.Connection) -> dict[int, float]:
        """Return the ratings of chosen pairs that came since the last call, in order, by pair."""
        found = {}
        rows = connection.execute(
            "SELECT sequence, session, trial, choice FROM answers"
            " WHERE sequence > ? AND conflict = 0 AND kind = 'choice' ORDER BY sequence",
            (self._last,),
        )
        for row in rows:
            self._last = row["sequence"]
            pair = int(row["trial"][1:]) - 1
            session, side = self._sides.get(pair, ("", ""))
            if session == row["session"]:  # else it is an anchor or a catch trial
                found[pair] = rating_of(row["choice"], side, self._study.trial.levels)
        return found


def _block(row: _Row) -> Block:
    from contstim.adaptive.conduct import Block

    trials = json.loads(row["trials"])
    return Block(
        number=row["number"],
        participant=row["session"],
        pairs=tuple(one[0] for one in trials),
        propensities=tuple(one[3] for one in trials),
        available=row["available"],
        version=row["version"],
        turned=tuple(one[4] for one in trials),
        passed_over=tuple(json.loads(row["passed_over"])),
    )
