"""Options and inputs that are common to the stages that select stimuli."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from contstim.columns import TRIPLETS
from contstim.files import json_digest
from contstim.pipeline.plan import StageOptions
from contstim.pipeline.stages import Run
from contstim.pipeline.stages.synthesis import SYNTHESIS_STAGE
from contstim.selection.constraint_rows import SelectionConstraint
from contstim.selection.constraint_text import check_constraints, parse_constraints
from contstim.selection.scores import read_features
from contstim.settings import TupleFromList, settings
from contstim.synthesis.results import Triplet, spec_columns


@settings
class SelectionOptions(StageOptions):
    """Options of a study plan that restrict which sentence pairs may be selected.

    The tables ``[natural]`` and ``[set]`` of a plan contain these options.

    Attributes
    ----------
    distinct_words
        Whether to exclude sentences in which a word occurs twice. Function words that the
        vocabulary lists as repeatable may occur twice.
    constraints
        Constraints as text. For example, ``balance:words:0.5`` requires that the mean numbers of
        words of the first and the second sentences differ by at most 0.5; see
        `contstim.selection.constraint_text.parse_constraints`.
    features
        CSV or Parquet file with features of the sentences, to which constraints refer. The first
        column contains the sentences.
    """

    distinct_words: bool = False
    constraints: TupleFromList[str] = ()
    features: str | None = None

    def __post_init__(self) -> None:
        check_constraints(self.constraints)

    def describe_rules(self) -> str:
        """Describe the restrictions in full sentences. The text is empty if there are none."""
        distinct = "No content word occurs twice in a sentence." if self.distinct_words else ""
        rules = f"Constraints: {', '.join(self.constraints)}." if self.constraints else ""
        return " ".join(filter(None, (distinct, rules)))

    def collect_inputs(self, run: Run) -> list[Any]:
        """Collect the data on which the restrictions depend, as JSON values.

        The data are the repeatable words and, if there is a file of features, its digest.
        """
        features = self._read_features(run)
        digests = [] if features is None else [json_digest(features.to_csv())]
        return [sorted(run.vocabulary.repeatable), *digests]

    def load_constraints(
        self, run: Run, sentences: pd.Index, extra_sentences: Sequence[str] = ()
    ) -> list[SelectionConstraint]:
        """Convert the constraints of the study plan from text to objects.

        Parameters
        ----------
        run
            Run of the study, which contains the number of tokens of each sentence.
        sentences
            All sentences that may be selected: the natural sentences of the study, followed by
            `extra_sentences`.
        extra_sentences
            Sentences that are not natural sentences of the study, for example synthetic sentences.
        """
        return parse_constraints(
            self.constraints,
            sentences,
            # Constraints such as "balance:words:0.5" refer to features of sentences: columns of the
            # file of features, or numbers of words and tokens.
            self._read_features(run),
            load_token_counts(run, extra_sentences),
            run.language,
        )

    def _read_features(self, run: Run) -> pd.DataFrame | None:
        return None if self.features is None else read_features(run.plan.folder / self.features)


def load_log_probs(run: Run, extra_sentences: Sequence[str] = ()) -> pd.DataFrame:
    """Return the scores of the natural sentences of a study under the compared models.

    Parameters
    ----------
    run
        Run of the study, from which the scores that have been computed so far are read.
    extra_sentences
        Sentences to add to the natural sentences of the study.

    Returns
    -------
    (S, M) DataFrame
        Log-probabilities in nats, with one row per sentence and one column per model. Missing
        scores are NaN.
    """
    return _read_score_field(run, "score", extra_sentences)


def load_token_counts(run: Run, extra_sentences: Sequence[str] = ()) -> pd.DataFrame:
    """Return the number of tokens of each sentence under each compared model.

    The DataFrame has one row per sentence and one column per model, as in `load_log_probs`. Unknown
    numbers are NaN.
    """
    counts = _read_score_field(run, "n_tokens", extra_sentences)
    return counts.where(counts != 0)


def _read_score_field(run: Run, field: str, extra_sentences: Sequence[str]) -> pd.DataFrame:
    """Return one field of the stored scores as a table of sentences (rows) and models (columns).

    Parameters
    ----------
    run
        Run of the study, from which the stored scores are read.
    field
        Field of a stored score: ``score`` (log-probability in nats) or ``n_tokens`` (number of
        tokens).
    extra_sentences
        Sentences to add to the natural sentences of the study.

    Returns
    -------
    (S, M) DataFrame
        Values of the field; NaN for missing scores.
    """
    columns = {}
    for spec, model in run.models.items():
        values = {s: getattr(score, field) for s, score in run.read_scores(spec).items()}
        column = pd.Series(values, dtype="float64")
        columns[model.name] = column.reindex([*run.sentences, *extra_sentences])
    return pd.DataFrame(columns)


def load_triplets(run: Run) -> pd.DataFrame:
    """Return the triplets that were synthesized so far, in the order of the tasks."""
    job = SYNTHESIS_STAGE.get_job(run)
    triplets = [row for row in job.rows() if isinstance(row, Triplet)]
    table = pd.DataFrame([row.to_record() for row in triplets], columns=list(TRIPLETS))
    specs = [spec_columns(row, job.canonical_specs) for row in triplets]
    return table.join(pd.DataFrame(specs, table.index))


def list_notes(table: pd.DataFrame) -> dict[str, Any]:
    """Return the attributes of a selection, such as its objective and bound, as a dictionary."""
    return {str(name): value for name, value in table.attrs.items()}
