"""An adaptive study: its pool of pairs, places for trials, what is issued, and how it stands."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Hashable, Iterator
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contstim.adaptive.conductor import AdaptivePlan, Block, Conductor
from contstim.adaptive.interim import interim_analysis
from contstim.adaptive.policies import POLICIES, Pool
from contstim.design.trials import Layout, design_trials
from contstim.errors import InputError
from contstim.experiment.scaffold import new_study
from contstim.experiment.schema import insert_row
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data
from contstim.experiment.trials import ADAPTIVE, ANCHOR, normalise_pair
from contstim.files import json_digest, write_metadata
from contstim.selection.scores import read_scores
from contstim.tables import read_table
from contstim.text_files import TABLE_SUFFIXES, format_csv
from contstim.trial_kinds import CATCH, EXPERIMENTAL

_PAIR = ("sentence_1", "sentence_2")
_KINDS = (*TABLE_SUFFIXES, ".npz")  # of scores
_EVERY_S = 30.0  # between interim analyses for the dashboard


def new_adaptive_study(
    folder: Path,
    pool: Path,
    scores: Path,
    plan: AdaptivePlan | None = None,
    catch: int = 12,
    preset: str | None = None,
    language: str = "en",
    presentation: str = "choice",
) -> Study:
    """Write the folder of a study that chooses pairs by the answers, and return the study.

    Parameters
    ----------
    folder
        Where; it must not exist or be empty.
    pool
        A table with the columns ``sentence_1`` and ``sentence_2``; the first pairs are anchors,
        which everybody is asked. It is copied.
    scores
        Log-probabilities of the pool's sentences, and natural ones, under the models, as
        `read_scores` reads them. They are copied.
    plan
        How trials are chosen; by default `AdaptivePlan`. With as many levels of confidence as the
        page offers, it uses ratings if it has `thresholds`.
    catch
        Catch trials of each participant: sentences of the scores that no pair has, against their
        own words shuffled.
    preset, language, presentation
        As for `new_study`; the presentation must show pairs.

    Raises
    ------
    InputError
        If the tables or the plan cannot be used, or the pool is too small for one participant.
    OutputError
        If the place cannot be written to.
    """
    plan = plan or AdaptivePlan()
    made = _pool(pool, scores, plan)
    if scores.suffix not in _KINDS:
        raise InputError(f"{scores} is none of {', '.join(_KINDS)}; give scores as one of these")
    if not plan.anchors + catch:
        raise InputError("there are neither anchors nor catch trials; give some of either")
    natural = [str(label) for label in read_scores(scores).index]
    table = lay_out(made, natural, plan, catch)
    with tempfile.TemporaryDirectory() as name:
        trials = Path(name) / "trials.csv"
        trials.write_text(format_csv(table), encoding="utf-8", newline="")
        write_metadata(trials, {"catch": catch, "seed": plan.seed, "pool": made.digest})
        text = "\n# How trials are chosen while the study runs; not to be changed once it does.\n"
        text += "\n".join(_toml("adaptive", plan)) + "\n"
        more = {"pool.csv": pool, f"scores{scores.suffix}": scores}
        return new_study(folder, trials, preset, language, presentation, tables=text, more=more)


def lay_out(pool: Pool, natural: list[str], plan: AdaptivePlan, catch: int) -> pd.DataFrame:
    """Return the trials of all participants: anchors and catch trials, evenly among blank places.

    Items are numbered as the pool's pairs, from 1; catch trials follow them.
    """
    anchors = pool.pairs[list(_PAIR)].iloc[: plan.anchors].assign(model_1=None, model_2=None)
    layout = Layout(1, plan.stopping.participants, random_natural=0, catch=catch)
    used = set(pool.pairs["sentence_1"]) | set(pool.pairs["sentence_2"])
    free = [sentence for sentence in natural if sentence not in used]
    fixed = design_trials(
        anchors if len(anchors) else None, pool=free, layout=layout, seed=plan.seed
    ).drop(columns=["stimulus", "kind_1", "kind_2"])  # nobody says what the pool's sentences are
    is_catch = fixed["kind"] == CATCH
    fixed["condition"] = np.where(is_catch, CATCH, ANCHOR)
    pairs = pool.pairs[list(_PAIR)].iloc[: plan.anchors].apply(tuple, axis=1).tolist()
    others = fixed.loc[is_catch, "sentence_2"].unique().tolist()
    number = {pair: k for k, pair in enumerate(pairs, start=1)}
    number |= {text: len(pool.pairs) + k for k, text in enumerate(others, start=1)}
    fixed["item"] = [
        number[two] if caught else number[one, two]
        for caught, one, two in zip(is_catch, fixed["sentence_1"], fixed["sentence_2"], strict=True)
    ]
    n = plan.trials + plan.anchors + catch
    parts = []
    for participant, trials in fixed.groupby("participant", sort=True):
        places = ((np.arange(len(trials)) + 0.5) * n / len(trials)).astype(int) + 1
        blank = np.setdiff1d(np.arange(1, n + 1), places)
        parts += [
            trials.assign(trial=places),
            pd.DataFrame({"participant": participant, "trial": blank}).assign(
                group=1, condition=ADAPTIVE, kind=EXPERIMENTAL
            ),
        ]
    table = pd.concat([part.astype(object) for part in parts])[list(fixed.columns)]
    return table.sort_values(["participant", "trial"], kind="stable", ignore_index=True)


def read_pool(study: Study) -> Pool:
    """Return the pool of an adaptive study, from the files of its folder.

    Raises
    ------
    InputError
        If the study is none, files are missing, or the pool is too small for one participant.
    """
    if study.adaptive is None:
        raise InputError(
            f"{study.folder} is not an adaptive study; its study.toml has no [adaptive]"
        )
    return _pool(study.folder / "pool.csv", scores_path(study), study.adaptive)


def scores_path(study: Study) -> Path:
    """Return where the models' scores of an adaptive study lie.

    Raises
    ------
    InputError
        If there are none.
    """
    for kind in _KINDS:
        if (study.folder / f"scores{kind}").exists():
            return study.folder / f"scores{kind}"
    raise InputError(f"{study.folder} has no scores.csv; put the models' scores back there")


def _pool(pool: Path, scores: Path, plan: AdaptivePlan) -> Pool:
    pairs = read_table(pool, _PAIR)
    for number, texts in enumerate(pairs[[*_PAIR]].astype(str).itertuples(index=False), start=1):
        try:
            normalise_pair(*texts)
        except InputError as error:
            raise InputError(f"{pool}, row {number}: {error}") from None
    try:
        made = Pool.from_scores(pairs, read_scores(scores), plan.link)
    except InputError as error:
        reason = str(error)
        raise InputError(reason if str(pool) in reason else f"{pool}: {reason}") from None
    plan.link.prior_weights(len(made.models))
    if len(made.models) < 2:
        raise InputError(f"{scores} has {len(made.models)} model; give two or more")
    least = plan.anchors + plan.trials
    if len(made.pairs) < least:
        raise InputError(
            f"{pool} has {len(made.pairs)} pairs, and one participant is asked {least}; give more, "
            "or plan fewer trials or anchors"
        )
    return made


def _toml(name: str, made: Any) -> Iterator[str]:
    """Yield settings as lines of a TOML file, without those that have their default."""
    tables = []
    yield f"[{name}]"
    default = type(made)()
    for item in fields(made):
        value = getattr(made, item.name)
        if is_dataclass(value):
            tables.append((f"{name}.{item.name}", value))
        elif value != getattr(default, item.name) or name == "adaptive":
            yield f"{item.name} = {json.dumps(value, ensure_ascii=False)}"
    for path, value in tables:
        lines = list(_toml(path, value))
        if len(lines) > 1:
            yield ""
            yield from lines


class BlockIssuer:
    """Chooses blocks for an adaptive study and writes them down; used by the writer's thread alone.

    What was issued stands in the data file, a row per block, with all that the choice was made by;
    the conductor in memory is made from it, and from the answers, and holds nothing else.

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
        assert study.adaptive is not None
        self._study, self._plan, self._pool = study, study.adaptive, read_pool(study)
        # Package that provides the policy, empty for the policies of contstim.
        package = POLICIES.package(self._plan.trial_selection.policy)
        choices_by = asdict(self._plan)
        choices_by.pop("auto_close")  # says nothing of what is chosen
        self._made_by = {
            "pool": self._pool.digest,
            "pairs": len(self._pool.pairs),
            "plan": json_digest(choices_by | ({"package": package} if package else {})),
            "seed": self._plan.seed,
        }
        self._conductor: Conductor | None = None
        self._sides: dict[tuple[str, int], str] = {}  # where sentence 1 stood, by session and pair
        self._last = 0  # answer that the conductor knows

    def check(self, connection: sqlite3.Connection) -> None:
        """Refuse data whose blocks were chosen from another pool, or by another plan."""
        for name, value in self._made_by.items():
            query = f"SELECT 1 FROM blocks WHERE {name} IS NOT ? LIMIT 1"  # noqa: S608 - a column of ours
            if connection.execute(query, (value,)).fetchone() is not None:
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
        self.conductor(connection).process_answers()

    def issue(self, connection: sqlite3.Connection, session: str, now: float) -> None:
        """Choose and store the next block of a session, if one is due.

        It is if fewer than two of the session's blocks wait for answers, and trials are left.
        """
        conductor = self.conductor(connection)
        if not conductor.n_remaining(session) or len(conductor.pending_blocks(session)) >= 2:
            return
        block = conductor.issue(session, conductor.n_remaining(session))
        first, second = (self._pool.pairs[f"sentence_{k}"] for k in (1, 2))
        trials = [
            [pair, str(first.iloc[pair]), str(second.iloc[pair]), propensity, swapped]
            for pair, propensity, swapped in zip(
                block.pairs, block.propensities, block.swapped_sides, strict=True
            )
        ]
        row = {
            "number": block.number,
            "session": session,
            "issued_at": now,
            "trials": json.dumps(trials, ensure_ascii=False),
            "available": block.n_available,
            "version": block.version,
            "skipped_blocks": json.dumps(block.skipped_blocks),
            **self._made_by,
        }
        insert_row(connection, "blocks", row)
        conductor.record_block(block)
        self._note(block)

    def conductor(self, connection: sqlite3.Connection) -> Conductor:
        """Return the conductor as the blocks and answers in the data make it."""
        if self._conductor is None:
            made = Conductor(self._plan, self._pool)
            rows = connection.execute("SELECT * FROM blocks ORDER BY number")
            blocks = [_block(row) for row in rows]
            self._sides = {}
            for block in blocks:
                self._note(block)
            self._last = 0
            made.replay(blocks, self._answers(connection))
            self._conductor = made
        for (session, pair), rating in self._answers(connection).items():
            self._conductor.record_answer(session, pair, rating)
        return self._conductor

    def _note(self, block: Block) -> None:
        for pair, swapped in zip(block.pairs, block.swapped_sides, strict=True):
            self._sides[block.participant, pair] = "right" if swapped else "left"

    def _answers(self, connection: sqlite3.Connection) -> dict[tuple[str, int], float]:
        """Return the ratings since the last call, in order, by session and chosen pair."""
        ratings = {}
        rows = connection.execute(
            "SELECT sequence, session, trial, choice FROM answers"
            " WHERE sequence > ? AND conflict = 0 AND kind = 'choice' ORDER BY sequence",
            (self._last,),
        )
        for row in rows:
            self._last = row["sequence"]
            whose = row["session"], int(row["trial"][1:]) - 1
            if whose in self._sides:  # else it is an anchor or a catch trial
                shown = self._study.presentation
                ratings[whose] = shown.rating(row["choice"], self._sides[whose])
        return ratings


def _block(row: sqlite3.Row) -> Block:
    trials = json.loads(row["trials"])
    return Block(
        number=row["number"],
        participant=row["session"],
        pairs=tuple(one[0] for one in trials),
        propensities=tuple(one[3] for one in trials),
        n_available=row["available"],
        version=row["version"],
        swapped_sides=tuple(one[4] for one in trials),
        skipped_blocks=tuple(json.loads(row["skipped_blocks"])),
    )


class LatestResult:
    """The latest interim result of an adaptive study, for the dashboard and the closing rule.

    Parameters
    ----------
    study
        The study.
    path
        Its data.
    blinded
        Whether to say no more than that the study may stop, or goes on.
    """

    def __init__(self, study: Study, path: Path, blinded: bool = False) -> None:
        assert study.adaptive is not None
        self._path, self._blinded = path, blinded
        self._plan = study.adaptive
        self._scores = read_scores(scores_path(study))
        self._at = float("-inf")
        self._found: dict[str, Any] = {}

    def read(self, study: Study, now: float) -> dict[str, Any]:
        """Return ``stops``, and unless blinded ``lines``, ``models`` and ``pairs``, lists of rows.

        It is `_EVERY_S` old at most. The study may have more places by now.
        """
        if now - self._at > _EVERY_S:
            self.analyse(study, now)
        return self._found

    def analyse(self, study: Study, now: float) -> str | None:
        """Analyse the study; return the first conclusion at which it may stop, if any."""
        choices = read_study_data(study, self._path).choices
        self._at = now
        self._found = {"stops": False, "lines": ["no answers yet"], "models": [], "pairs": []}
        if not (choices["condition"] == ADAPTIVE).any():
            return None
        result = interim_analysis(choices, self._scores, self._plan)
        self._found = {"stops": result.stops}
        if not self._blinded:
            n = result.n_answers
            self._found |= {
                "lines": [*result.summary, f"{n} answers to chosen trials"],
                "models": _rows(result.models),
                "pairs": _rows(result.pairs),
            }
        return None if result.first_stop is None else result.first_stop.text


def _rows(table: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Return the rows of a table for a message in JSON, which has no NaN: None instead."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
