"""A conductor whose every block and answer is on the disk before anybody hears of it."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from contstim.adaptive.conduct import AdaptivePlan, Block, Conductor
from contstim.adaptive.policies import Pool
from contstim.errors import InputError, OutputError
from contstim.files import digest_of, lock


class Journal:
    """An adaptive study with a log, for a server of one's own: JSON lines, only ever added to.

    The first line holds digests of pool and plan and the seed; each further one a block, with its
    propensities and the version of the posterior that chose it, or an answer. A line is on disk
    when `issue` or `answer` returns. Opened again, whatever ended the process, the log gives the
    posterior that was, to the last bit; half a line at its end, acknowledged to nobody, goes.

    Parameters
    ----------
    path
        The log; it is made if it is not there. One process has it at a time.
    plan, pool
        As for `Conductor`.

    Raises
    ------
    InputError
        If the log is another study's, or a line of it cannot be read.
    OutputError
        If it cannot be written to.
    """

    def __init__(self, path: Path, plan: AdaptivePlan, pool: Pool) -> None:
        self.path = path
        self.conductor = Conductor(plan, pool)
        head = {"pool": pool.digest, "plan": digest_of(asdict(plan)), "seed": plan.seed}
        with ExitStack() as stack:
            held = path.with_name(f"{path.name}.lock")
            stack.enter_context(lock(held, f"the log {path}"))
            lines = self._read(head)
            self._replay(lines)
            try:
                self._file = stack.enter_context(path.open("ab"))
            except OSError as error:
                raise OutputError(f"cannot write to {path}: {error.strerror}") from None
            if not lines:
                self._write(head)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the log to others."""
        self._stack.close()

    def issue(self, participant: str) -> Block | None:
        """Return the next block for a participant, None if there are no more trials for them.

        A participant may have two blocks that are not answered: the one that is shown, and the one
        after it, fetched before. Asked for a third, the first of them is returned again, so that
        whoever lost a reply, or the whole page, gets the same trials and no other.
        """
        waiting = self.conductor.waiting(participant)
        left = self.conductor.left(participant)
        if len(waiting) < 2 and left:
            block = self.conductor.issue(participant, left)
            if block.pairs:
                self._write({"block": asdict(block)})
                self.conductor.record(block)
                return block
        return waiting[0] if waiting else None

    def answer(self, participant: str, pair: int, rating: float) -> None:
        """Store an answer; the same one again changes nothing.

        Raises
        ------
        InputError
            If the pair was not issued to this participant, or the rating is off the scale.
        """
        block = self.conductor.owner(pair)
        if block is None or block.participant != participant:
            raise InputError(f"pair {pair} was not issued to participant {participant!r}")
        self.conductor.plan.link.answer_of(rating)
        if pair not in self.conductor.answers:
            self._write({"answer": [pair, rating]})
            self.conductor.answer(pair, rating)

    def _write(self, row: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"cannot write to {self.path}: {error.strerror}") from None

    def _read(self, head: dict[str, Any]) -> list[dict[str, Any]]:
        """Read the log, without what stands after its last line end, which is cut off."""
        try:
            content = self.path.read_bytes() if self.path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            if whole != content:
                with self.path.open("r+b") as file:
                    file.truncate(len(whole))
        except OSError as error:
            raise OutputError(f"cannot use the log {self.path}: {error.strerror}") from None
        lines = []
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                lines.append(json.loads(line))
            except ValueError:
                raise InputError(f"{self.path}, line {number} is not JSON; restore it") from None
        if lines and lines[0] != head:
            changed = [
                key
                for key in head
                if not isinstance(lines[0], dict) or lines[0].get(key) != head[key]
            ]
            raise InputError(
                f"{self.path} is the log of another study ({', '.join(changed)} changed); put the "
                "study back as it was, or begin another log"
            )
        return lines

    def _replay(self, lines: list[dict[str, Any]]) -> None:
        blocks, answers = [], {}
        for row in lines[1:]:
            if "block" in row:
                made: dict[str, Any] = row["block"]
                lists = {k: tuple(v) for k, v in made.items() if isinstance(v, list)}
                blocks.append(Block(**{**made, **lists}))
            else:
                pair, rating = row["answer"]
                answers[int(pair)] = float(rating)
        self.conductor.replay(blocks, answers)
