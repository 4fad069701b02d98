"""An adaptive study: its pool of pairs, the models' scores, places for trials, how it stands."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contstim.adaptive.conduct import AdaptivePlan
from contstim.adaptive.policies import Pool
from contstim.adaptive.posterior import Nodes
from contstim.adaptive.standing import study_standing
from contstim.errors import InputError
from contstim.experiment.collected import read_collected
from contstim.experiment.study import Study, write_record, write_study
from contstim.experiment.trials import CHOSEN
from contstim.selection.design import Layout, design_trials
from contstim.selection.files import read_scores
from contstim.tables import read_table

_PAIR = ("sentence_1", "sentence_2")
_KINDS = (".csv", ".npz", ".parquet")  # of scores
_EVERY_S = 30.0  # between looks at how a study stands


def new_adaptive_study(
    folder: Path,
    pool: Path,
    scores: Path,
    plan: AdaptivePlan | None = None,
    catch: int = 12,
    preset: str | None = None,
    language: str = "en",
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
    preset, language
        As for `new_study`.

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
        table.to_csv(trials, index=False, lineterminator="\n")
        write_record(trials, {"catch": catch, "seed": plan.seed, "pool": made.digest})
        text = "\n# How trials are chosen while the study runs; not to be changed once it does.\n"
        text += "\n".join(_toml("adaptive", plan)) + "\n"
        more = {"pool.csv": pool, f"scores{scores.suffix}": scores}
        return write_study(folder, trials, preset, language, tables=text, more=more)


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
    )
    is_catch = fixed["condition"] == "catch"
    fixed["condition"] = np.where(is_catch, "catch", "anchor")
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
    for participant, own in fixed.groupby("participant", sort=True):
        places = ((np.arange(len(own)) + 0.5) * n / len(own)).astype(int) + 1
        blank = np.setdiff1d(np.arange(1, n + 1), places)
        parts += [
            own.assign(trial=places),
            pd.DataFrame({"participant": participant, "trial": blank}).assign(
                group=1, condition=CHOSEN, catch=False
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
    return _pool(study.folder / "pool.csv", scores_path(study), _plan(study))


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


def _plan(study: Study) -> AdaptivePlan:
    if study.adaptive is None:
        raise InputError(f"{study.folder} is no adaptive study; its study.toml has no [adaptive]")
    return study.adaptive


def _pool(pool: Path, scores: Path, plan: AdaptivePlan) -> Pool:
    try:
        made = Pool.of(read_table(pool, _PAIR), read_scores(scores), Nodes(plan.link))
    except InputError as error:
        told = str(error)
        raise InputError(told if str(pool) in told else f"{pool}: {told}") from None
    plan.link.weights_of(len(made.models))
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


class Standings:
    """How an adaptive study stands, for the dashboard: worked out again when answers have come.

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
        self._found: dict[str, Any] | None = None

    def read(self, study: Study, now: float) -> dict[str, Any]:
        """Return ``stops``, and unless blinded ``lines``, ``models`` and ``pairs``, lists of rows.

        It is `_EVERY_S` old at most. The study may have more places by now.
        """
        if self._found is None or now - self._at > _EVERY_S:
            choices = read_collected(study, self._path).choices
            self._at, self._found = now, self._stands(choices)
        return self._found

    def _stands(self, choices: pd.DataFrame) -> dict[str, Any]:
        chosen = choices[choices["condition"] == CHOSEN]
        if not len(chosen):
            return {"stops": False, "lines": ["no answers yet"], "models": [], "pairs": []}
        found = study_standing(choices, self._scores, self._plan)
        if self._blinded:
            return {"stops": found.stops}
        return {
            "stops": found.stops,
            "lines": [*found.sentences, f"{found.n_answers} answers to chosen trials"],
            "models": found.models.to_dict("records"),
            "pairs": found.pairs.to_dict("records"),
        }
