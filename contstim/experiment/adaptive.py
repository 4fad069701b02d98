"""Adaptive studies: create them, choose trials while they run, and analyse interim results."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contstim.adaptive.policies import POLICIES
from contstim.adaptive.pool import Pool
from contstim.adaptive.scheduler import AdaptivePlan, Block, TrialScheduler
from contstim.columns import PAIR
from contstim.design.trials import Layout, design_trials
from contstim.errors import InputError
from contstim.experiment.scaffold import create_study
from contstim.experiment.schema import insert_row
from contstim.experiment.study import Study
from contstim.experiment.trials import ADAPTIVE, ANCHOR, normalise_pair
from contstim.files import json_digest, write_metadata
from contstim.selection.scores import read_scores
from contstim.tables import read_table
from contstim.text_files import TABLE_SUFFIXES, format_csv
from contstim.trial_kinds import CATCH, EXPERIMENTAL

_SCORE_SUFFIXES = (*TABLE_SUFFIXES, ".npz")

# Maximum number of unanswered blocks of a session.
_MAX_UNANSWERED_BLOCKS = 2


def create_adaptive_study(
    folder: Path,
    pool: Path,
    scores: Path,
    plan: AdaptivePlan | None = None,
    catch: int = 12,
    preset: str | None = None,
    language: str = "en",
    presentation: str = "choice",
) -> Study:
    """Create the folder of an adaptive study, which chooses trials based on previous answers.

    Parameters
    ----------
    folder
        Folder to write. It is created if it does not exist; an existing folder must be empty.
    pool
        Table of the pairs to choose from, with the columns ``sentence_1`` and ``sentence_2``. It is
        copied into the folder. Its first pairs are the *anchors*, which all participants see.
    scores
        Log-probabilities of the pool's sentences and of natural sentences under the models, in a
        format of `read_scores`; copied into the folder.
    plan
        Plan of the study; by default `AdaptivePlan()`.
    catch
        Number of catch trials per participant. Each shows a sentence of `scores` that is not in the
        pool and the same sentence with shuffled words.
    preset
        Name of a published experiment to replicate, if any.
    language
        Language of the web page.
    presentation
        How pairs of sentences are shown and answered, for example ``choice``.

    Returns
    -------
    Study
        New study.

    Raises
    ------
    InputError
        If the tables or the plan are invalid, or the pool is too small for one participant.
    OutputError
        If the folder cannot be written.
    """
    plan = plan or AdaptivePlan()
    checked_pool = _load_pool(pool, scores, plan)  # pairs from which trials are chosen
    if scores.suffix not in _SCORE_SUFFIXES:
        raise InputError(f"{scores} is none of {', '.join(_SCORE_SUFFIXES)}; give one of these")
    # Anchors are pairs that all participants see.
    if not plan.anchors + catch:
        raise InputError("there are neither anchors nor catch trials; give some of either")
    # Table of trials, with placeholders for the trials that are chosen while the study runs.
    sentences = [str(label) for label in read_scores(scores).index]
    table = lay_out_trials(checked_pool, sentences, plan, catch)
    # Text to append to the settings file of the study.
    settings = "\n# How trials are chosen. Do not change these settings while the study runs.\n"
    settings += "\n".join([*_format_toml("adaptive", plan, with_defaults=True), ""])
    # `create_study` copies the table and its metadata into the folder of the study.
    with tempfile.TemporaryDirectory() as temporary:
        trials = Path(temporary) / "trials.csv"
        trials.write_text(format_csv(table), encoding="utf-8", newline="")
        write_metadata(trials, {"catch": catch, "seed": plan.seed, "pool": checked_pool.digest})
        copies = {"pool.csv": pool, f"scores{scores.suffix}": scores}
        return create_study(folder, trials, preset, language, presentation, settings, copies)


def lay_out_trials(
    pool: Pool, sentences: list[str], plan: AdaptivePlan, catch: int
) -> pd.DataFrame:
    """Create the table of trials of an adaptive study.

    For every participant, the table contains the anchors (pairs that all participants see), the
    catch trials, and rows without sentences as placeholders for the trials that are chosen while
    the study runs. Anchors and catch trials are spread evenly among the placeholders. The column
    ``item`` numbers the pairs of the pool from 1, followed by the catch trials.

    Parameters
    ----------
    pool
        Pairs from which trials are chosen.
    sentences
        Natural sentences. Sentences that are not in the pool can become catch trials.
    plan
        Plan of the study.
    catch
        Number of catch trials per participant.

    Returns
    -------
    DataFrame
        Table of trials, sorted by participant and trial.
    """
    pool_sentences = {*pool.pairs["sentence_1"], *pool.pairs["sentence_2"]}
    anchors = pool.pairs[[*PAIR]].iloc[: plan.anchors]
    fixed = design_trials(
        anchors.assign(model_1=None, model_2=None) if len(anchors) else None,
        pool=[sentence for sentence in sentences if sentence not in pool_sentences],
        layout=Layout(1, plan.stopping.participants, random_natural=0, catch=catch),
        seed=plan.seed,
    )
    # The kinds of the pool's sentences are unknown.
    fixed = fixed.drop(columns=["stimulus", "kind_1", "kind_2"])
    is_catch = fixed["kind"] == CATCH
    fixed["condition"] = np.where(is_catch, CATCH, ANCHOR)

    anchor_numbers = {pair: k for k, pair in enumerate(map(tuple, anchors.to_numpy()), start=1)}
    pairs = zip(fixed["sentence_1"], fixed["sentence_2"], strict=True)
    fixed["item"] = [anchor_numbers.get(pair, 0) for pair in pairs]
    catch_numbers, _ = pd.factorize(fixed.loc[is_catch, "sentence_2"])
    fixed.loc[is_catch, "item"] = len(pool.pairs) + 1 + catch_numbers

    n_trials = plan.trials + plan.anchors + catch
    parts = []
    for participant, trials in fixed.groupby("participant", sort=True):
        positions = ((np.arange(len(trials)) + 0.5) * n_trials / len(trials)).astype(int) + 1
        free_positions = np.setdiff1d(np.arange(1, n_trials + 1), positions)
        placeholders = pd.DataFrame({"participant": participant, "trial": free_positions})
        parts.append(trials.assign(trial=positions))
        parts.append(placeholders.assign(group=1, condition=ADAPTIVE, kind=EXPERIMENTAL))
    table = pd.concat([part.astype(object) for part in parts])[list(fixed.columns)]
    return table.sort_values(["participant", "trial"], kind="stable", ignore_index=True)


def read_pool(study: Study) -> Pool:
    """Read the pairs from which an adaptive study chooses its trials.

    Parameters
    ----------
    study
        Adaptive study.

    Returns
    -------
    Pool
        Pairs and their log-probability ratios under the models.

    Raises
    ------
    InputError
        If the study is not adaptive, files are missing, or the pool is too small for one
        participant.
    """
    if study.adaptive is None:
        raise InputError(f"{study.folder} is not an adaptive study; study.toml has no [adaptive]")
    return _load_pool(study.folder / "pool.csv", find_scores(study), study.adaptive)


def find_scores(study: Study) -> Path:
    """Find the file with the models' scores in the folder of an adaptive study.

    Parameters
    ----------
    study
        Adaptive study.

    Returns
    -------
    Path
        CSV, Parquet or NPZ file.

    Raises
    ------
    InputError
        If the folder contains no such file.
    """
    for suffix in _SCORE_SUFFIXES:
        path = study.folder / f"scores{suffix}"
        if path.exists():
            return path
    raise InputError(f"{study.folder} has no scores.csv; put the models' scores back there")


def _load_pool(pool: Path, scores: Path, plan: AdaptivePlan) -> Pool:
    """Read a table of candidate pairs with the scores of their sentences, and check them.

    Parameters
    ----------
    pool
        Table with the columns ``sentence_1`` and ``sentence_2``.
    scores
        Log-probabilities of the sentences under the models.
    plan
        Plan of the adaptive study, which needs a minimum number of pairs and at least two models.

    Returns
    -------
    Pool
        Pairs with the preferences of the models.

    Raises
    ------
    InputError
        If a table is invalid, or contains too few pairs or models for the plan.
    """
    pairs = read_table(pool, PAIR)
    # Normalise both sentences of each pair. An error names the row.
    normalised = []
    for number, texts in enumerate(pairs[[*PAIR]].astype(str).itertuples(index=False), start=1):
        try:
            normalised.append(normalise_pair(*texts))
        except InputError as error:
            raise InputError(f"{pool}, row {number}: {error}") from None
    pairs[[*PAIR]] = pd.DataFrame(normalised, index=pairs.index)
    # Combine the pairs with the scores of their sentences. An error names the file.
    try:
        checked_pool = Pool.from_scores(pairs, read_scores(scores), plan.link)
    except InputError as error:
        message = str(error)
        raise InputError(message if str(pool) in message else f"{pool}: {message}") from None
    plan.link.prior_weights(len(checked_pool.models))  # checks the number of prior weights
    if len(checked_pool.models) < 2:
        raise InputError(f"{scores} has {len(checked_pool.models)} model; give two or more")
    min_pairs = plan.anchors + plan.trials
    if len(checked_pool.pairs) < min_pairs:
        raise InputError(
            f"{pool} has {len(checked_pool.pairs)} pairs, but each participant sees {min_pairs}; "
            "give more, or plan fewer trials or anchors"
        )
    return checked_pool


def _format_toml(name: str, options: Any, with_defaults: bool = False) -> list[str]:
    """Format a dataclass of options as a TOML table.

    Nested dataclasses follow as nested tables. Options with default values are omitted.

    Parameters
    ----------
    name
        Name of the table.
    options
        Instance of the dataclass, all fields of which have defaults.
    with_defaults
        Whether the outer table also contains options with default values.

    Returns
    -------
    list of str
        Lines of TOML.
    """
    default = type(options)()
    lines, nested_lines = [], []
    for item in fields(options):
        value = getattr(options, item.name)
        if is_dataclass(value):
            # A nested table follows the options. It is omitted if it consists of its header only.
            table_lines = _format_toml(f"{name}.{item.name}", value)
            nested_lines += ["", *table_lines] if len(table_lines) > 1 else []
        elif with_defaults or value != getattr(default, item.name):
            lines.append(f"{item.name} = {json.dumps(value, ensure_ascii=False)}")
    return [f"[{name}]", *lines, *nested_lines]


class BlockIssuer:
    """Service that chooses and stores the trials of participants while an adaptive study runs.

    A *block* is a group of trials that are chosen for one session at the same time. Blocks are
    stored in the database together with the information on which their choice is based, so that
    the state in memory can always be restored from the stored blocks and answers. Only the thread
    that writes the data may use this object.

    Parameters
    ----------
    study
        Adaptive study.

    Raises
    ------
    InputError
        If the pool of the study is invalid.
    """

    def __init__(self, study: Study) -> None:
        assert study.adaptive is not None
        self._study, self._plan, self._pool = study, study.adaptive, read_pool(study)
        # Options that determine which trials are chosen, to detect later changes.
        plan = asdict(self._plan)
        plan.pop("auto_close")  # has no influence on the choice of trials
        package = POLICIES.package(self._plan.trial_selection.policy)
        if package:  # the policy is from another package
            plan["package"] = package
        #: Values of the columns that identify the pool and the plan in the table `blocks`.
        self._provenance = {
            "pool": self._pool.digest,
            "pairs": len(self._pool.pairs),
            "plan": json_digest(plan),
            "seed": self._plan.seed,
        }
        self._scheduler: TrialScheduler | None = None  # created on first use
        #: Side of sentence 1 in each issued trial, by session and index of the pair.
        self._sides: dict[tuple[str, int], str] = {}
        self._last_sequence = 0  # number of the last answer that the scheduler has received

    def check_provenance(self, connection: sqlite3.Connection) -> None:
        """Check that all stored trials were chosen with the current pool and the current plan.

        Parameters
        ----------
        connection
            Connection to the study's database.

        Raises
        ------
        InputError
            If the pool or the plan has changed.
        """
        for column, value in self._provenance.items():
            # Look for a block of trials that was stored with a different value.
            query = f"SELECT 1 FROM blocks WHERE {column} IS NOT ? LIMIT 1"  # noqa: S608 - constant column
            if connection.execute(query, (value,)).fetchone() is not None:
                file = "study.toml" if column in ("plan", "seed") else "pool.csv or the scores"
                raise InputError(
                    f"{self._study.folder}: {file} changed since blocks were issued (another "
                    f"{column}); restore it, or make another study"
                )
        self.load_scheduler(connection)  # restores the state before the first request

    def discard_state(self) -> None:
        """Discard the state in memory after a transaction was rolled back.

        The state may include changes by the transaction. The next access restores it from the data
        file.
        """
        self._scheduler = None

    def update_posterior(self, connection: sqlite3.Connection) -> None:
        """Update the posterior probabilities of the models with the next block of answers.

        A *block* is a group of trials that were chosen at the same time. Nothing changes if the
        next block still lacks answers. This method is called when answers arrive, so that
        participants who request trials do not have to wait for the update.
        """
        self.load_scheduler(connection).update_posterior()

    def issue_block(self, connection: sqlite3.Connection, session: str, now: float) -> None:
        """Choose and store the next block (group of trials) of a session.

        Nothing happens if the session has all its trials or two blocks with missing answers.

        Parameters
        ----------
        connection
            Connection to the database, within a transaction.
        session
            Id of the session.
        now
            Current Unix time, in seconds since 1970.
        """
        scheduler = self.load_scheduler(connection)
        n_remaining = scheduler.n_remaining(session)
        if not n_remaining or len(scheduler.pending_blocks(session)) >= _MAX_UNANSWERED_BLOCKS:
            return
        # Choose a block: a group of trials that are shown in a row.
        block = scheduler.choose_next_block(session, n_remaining)
        trials = []
        for index, pair in enumerate(block.pairs):
            sentence_1, sentence_2 = self._pool.pairs[[*PAIR]].iloc[pair].astype(str)
            propensity, is_swapped = block.propensities[index], block.swapped_sides[index]
            trials.append([pair, sentence_1, sentence_2, propensity, is_swapped])
        row = {
            "number": block.number,
            "session": session,
            "issued_at": now,
            "trials": json.dumps(trials, ensure_ascii=False),
            "available": block.n_available,
            "version": block.n_processed,
            "skipped_blocks": json.dumps(block.skipped_blocks),
            **self._provenance,
        }
        # The scheduler records only blocks that have been stored.
        insert_row(connection, "blocks", row)
        scheduler.record_block(block)
        self._record_sides(block)

    def load_scheduler(self, connection: sqlite3.Connection) -> TrialScheduler:
        """Return the scheduler that chooses trials, up to date with all stored answers.

        The scheduler is kept in memory. After a start of the server or a rollback, it is restored
        from the blocks (groups of chosen trials) and answers in the database.

        Parameters
        ----------
        connection
            Connection to the study's database.
        """
        if self._scheduler is None:
            # Restore the state of the scheduler by replaying the stored blocks and answers.
            rows = connection.execute("SELECT * FROM blocks ORDER BY number")
            blocks = [_parse_block(row) for row in rows]
            self._sides = {}
            for block in blocks:
                self._record_sides(block)
            self._last_sequence = 0
            scheduler = TrialScheduler(self._plan, self._pool)
            scheduler.replay(blocks, self._read_new_ratings(connection))
            self._scheduler = scheduler
        # Add the answers that were stored since the last call.
        for (session, pair), rating in self._read_new_ratings(connection).items():
            self._scheduler.record_answer(session, pair, rating)
        return self._scheduler

    def _record_sides(self, block: Block) -> None:
        """Remember on which side of the screen sentence 1 of each pair is shown."""
        for pair, is_swapped in zip(block.pairs, block.swapped_sides, strict=True):
            self._sides[block.participant, pair] = "right" if is_swapped else "left"

    def _read_new_ratings(self, connection: sqlite3.Connection) -> dict[tuple[str, int], float]:
        """Return the ratings of adaptively chosen pairs that were stored since the last call.

        Returns
        -------
        dict
            Mapping from session id and index of the sentence pair in the pool to the rating.
        """
        ratings = {}
        rows = connection.execute(
            "SELECT sequence, session, trial, choice FROM answers"
            " WHERE sequence > ? AND conflict = 0 AND kind = 'choice' ORDER BY sequence",
            (self._last_sequence,),
        )
        for row in rows:
            self._last_sequence = row["sequence"]
            # The id of trial "t12" contains the number of its pair, from 1.
            pair = int(row["trial"].removeprefix("t")) - 1
            side_1 = self._sides.get((row["session"], pair))  # side of sentence 1
            if side_1 is not None:  # otherwise the trial was not chosen by the scheduler
                rating = self._study.presentation.choice_to_rating(row["choice"], side_1)
                ratings[row["session"], pair] = rating
        return ratings


def _parse_block(row: sqlite3.Row) -> Block:
    """Convert a row of the table ``blocks`` to a block."""
    pairs, propensities, swapped_sides = [], [], []
    # A stored trial contains the index of the pair, its two sentences, the propensity (probability
    # with which the policy chose the pair), and whether sentence 2 was shown on the left.
    for pair, _, _, propensity, is_swapped in json.loads(row["trials"]):
        pairs.append(pair)
        propensities.append(propensity)
        swapped_sides.append(is_swapped)
    return Block(
        number=row["number"],
        participant=row["session"],  # A participant is identified by the id of the session.
        pairs=tuple(pairs),
        propensities=tuple(propensities),
        n_available=row["available"],  # number of pairs that could be chosen
        # Version of the posterior: number of earlier blocks that were processed, that is, whose
        # answers it includes or which were skipped.
        n_processed=row["version"],
        swapped_sides=tuple(swapped_sides),
        skipped_blocks=tuple(json.loads(row["skipped_blocks"])),
    )
