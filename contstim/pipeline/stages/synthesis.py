"""Stages that synthesize sentences and write the pool of sampled sentences."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar, cast

from contstim.errors import InputError
from contstim.files import digest
from contstim.models.base import UNSTATED
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import Run, Stage
from contstim.pipeline.stages.score import SCORE_STAGE
from contstim.pipeline.synthesis_job import SynthesisJob
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.pipeline.tasks import Task
from contstim.synthesis import format_strategy
from contstim.synthesis.results import Triplet, sentences_with_originals, spec_columns
from contstim.text.diversity import measure_diversity
from contstim.text_files import format_csv_rows

if TYPE_CHECKING:
    from contstim.pipeline.pooled_job import PooledSynthesisJob

#: Notes on the table that describe results. All other notes are settings.
RESULT_NOTES = (
    *("tasks", "missing", "rows", "requested", "opposed", "words"),
    *("n_sampled", "n_candidates", "n_satisfying", "non_guiding_models"),
)

#: Columns of the pool in addition to the columns of tables of scores: the source of a sentence
#: (``natural`` or ``sampled``) and, for sampled sentences, the log-probabilities under the writer
#: (attributes of `contstim.synthesis.writer.Draft`).
POOL_COLUMNS = ("source", "writer_log_prob", "writer_worst", "writer_end")

# Options that the notes always contain.
_ASSIGNMENT_NOTES = ("allocation", "per_pair", "per_sentence", "minimum_drop")

# Options that the notes contain only if they differ from their defaults.
_OPTIONAL_NOTES = ("margin", "min_scores", "readable", "edits", "max_word_share")


class SynthesisStage(Stage):
    """Stage that synthesizes triplets or single sentences."""

    name = "synthesis"
    file = "synthesized.csv"
    key: ClassVar[str | None] = "synthesis"
    options: ClassVar[type[Any] | None] = SynthesisOptions

    def describe(self, plan: StudyPlan) -> str:
        """Describe the synthesis of sentences for the preregistration of a study.

        Parameters
        ----------
        plan
            Study plan, which contains the options of the synthesis.

        Returns
        -------
        str
            Full sentences with the models, the constraints and the strategy.
        """
        options = plan.get_options(SynthesisOptions)
        # Models and limits that the plan does not set have an empty text, and are left out.
        specs = {
            "rejecting models": ", ".join(options.reject),
            "accepting models": ", ".join(options.accept),
            "pairs": ", ".join(" against ".join(pair) for pair in options.pairs),
        }
        models = "".join(f"; {name}: {text}" for name, text in specs.items() if text)
        n_sentences = "all" if options.per_pair is None else f"at most {options.per_pair}"
        limits = {"minimum scores": ", ".join(map(str, options.bounds)), "edits": options.edits}
        limit_text = "; ".join(f"{name}: {text}" for name, text in limits.items() if text)
        kind = "triplets of model pairs" if options.makes_triplets else "single sentences"
        return (
            f"Synthetic sentences are written as {kind}{models}. The log-probability under the "
            "rejecting models is minimised, and the log-probability under the accepting models "
            f"decreases by at most {options.margin:g} nats. The strategy is "
            f"{format_strategy(options.parsed_strategy)}. It starts from natural sentences "
            f"({options.allocation}, {n_sentences} per pair). At most {options.max_word_share:g} "
            "of the synthetic sentences of a pair contain the same word, unless more of the "
            f"natural sentences contain it.{f' Limits: {limit_text}.' if limit_text else ''}"
        )

    def get_job(self, run: Run) -> SynthesisJob:
        """Return the object that creates the tasks of the synthesis and the rows of its table.

        The first call creates the object and stores it in the run. Later calls return the same
        object.

        Parameters
        ----------
        run
            Run of the study.
        """
        if SYNTHESIS_STAGE.name not in run.stage_data:
            # Create the job at the first call. Later calls return the same object, which remembers
            # the finished tasks.
            job_class = SynthesisJob
            if run.plan.get_options(SynthesisOptions).is_pooled:
                # This module loads slowly and is needed only for strategies that sample a pool.
                from contstim.pipeline.pooled_job import PooledSynthesisJob

                job_class = PooledSynthesisJob
            run.stage_data[SYNTHESIS_STAGE.name] = job_class(run)
        return cast("SynthesisJob", run.stage_data[SYNTHESIS_STAGE.name])

    def requires(self, plan: StudyPlan) -> Collection[Stage]:
        """Return the stages of the study that must be executed before this stage.

        The natural sentences must be scored first in two cases:

        - If synthetic sentences must have minimum scores, because these can be relative to the
          scores of the natural sentences.
        - If a synthetic sentence should be improbable under several models at once. The scores of
          these models are then divided by their standard deviations over the natural sentences.
        """
        options = plan.get_options(SynthesisOptions)
        problems = itertools.chain(*options.list_problems(plan.models))
        has_scaled_models = any(len(problem.reject) > 1 for problem in problems)
        return (SCORE_STAGE,) if has_scaled_models or options.bounds else ()

    def check(self, run: Run) -> None:
        """Check that the models and the listed words can be used for synthesis.

        Raises
        ------
        InputError
            If a model is a table of scores, if two specification strings describe the same model,
            or if the options of the vocabulary exclude a listed word.
        InfeasibleError
            If a model knows none of the words listed for a position.
        """
        options = run.plan.get_options(SynthesisOptions)
        # Refuse tables of scores, which do not state how a sentence starts.
        for spec, model in run.all_models.items():
            if model.description["event"]["start"] == UNSTATED:
                raise InputError(
                    f"{spec!r} is a table of scores and cannot score new sentences; use a model "
                    "that can be loaded"
                )
        # The option `edits` may list, for a position of the sentence, the words that are allowed
        # there. The vocabulary must not exclude them, and the models must know some of them.
        words_by_position = options.parsed_edits.words
        listed_words = [word for _, words in words_by_position for word in words]
        run.plan.vocabulary.check_not_blocked(listed_words, run.plan.folder, run.language)
        options.check_words(run.all_models, run.sentences, run.language)

        # Refuse two specification strings that describe the same model. `rename_models` raises an
        # error if the models of a problem do not have different names.
        names = {spec: model.name for spec, model in run.all_models.items()}
        for problem in itertools.chain(*self.get_job(run).sentences_by_problems):
            problem.rename_models(names)

    def tasks(self, run: Run) -> list[Task]:
        """Return all tasks of the synthesis that are known so far.

        If the searches depend on the scores of the natural sentences, the tasks that compute these
        scores come first, and the searches become known when the scores are complete.
        """
        job = self.get_job(run)
        if job.needs_scores:
            # Score the natural sentences first. Only then are the search tasks known.
            score_tasks = job.score_tasks()
            if run.store.find_pending(score_tasks):
                return list(score_tasks)
            job.prepare_searches()
        return job.tasks()

    def count_expected_tasks(self, run: Run) -> int:
        """Return the minimum number of searches, or the maximum number of sampled batches."""
        return self.get_job(run).n_expected_tasks

    def collect_inputs(self, run: Run) -> Any:
        """Collect the keys of the finished tasks; the table is made from their results."""
        return [task.key for task in self.tasks(run) if task.is_done(run.store)]

    def settings(self, run: Run) -> dict[str, Any]:
        """Return all settings that affect the rows of the table, as JSON values by name."""
        plan, options = run.plan, run.plan.get_options(SynthesisOptions)
        defaults = SynthesisOptions()
        names = {spec: model.name for spec, model in run.all_models.items()}
        # Long lists of words and sentences are represented by a digest and their length.
        # `words.elsewhere` is the list of words for all positions except the first of a sentence.
        words, sentence_digest = run.vocabulary, digest("\n".join(run.sentences))[:16]
        vocabulary: dict[str, Any] = {"digest": words.digest, "words": len(words.elsewhere)}
        if plan.vocabulary.non_defaults:
            vocabulary["options"] = dict(plan.vocabulary.non_defaults)
        return {
            "models": [model.description for model in run.all_models.values()],
            "versions": dict(run.versions),
            "vocabulary": vocabulary,
            "sentences": {"digest": sentence_digest, "number": len(run.sentences)},
            # A problem defines one synthetic sentence: it should be improbable under the model
            # `reject` and probable under the model `accept`. The two problems of a triplet form a
            # group. `rename_models` replaces the specification of each model by its name.
            "problems": [
                [(p.reject, p.accept) for p in (problem.rename_models(names) for problem in group)]
                for group in self.get_job(run).sentences_by_problems
            ],
            **{
                key: getattr(options, key)
                for key in _OPTIONAL_NOTES
                if getattr(options, key) != getattr(defaults, key)
            },
            "strategy": format_strategy(options.parsed_strategy),
            "seed": plan.study.seed,
            **{key: getattr(options, key) for key in _ASSIGNMENT_NOTES},
        }

    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        """Make the table of synthetic sentences from the results of all finished tasks.

        Returns
        -------
        table : str
            Rows of the table as CSV text.
        notes : dict
            Settings of the synthesis and statistics of the results, as JSON values, for the
            metadata file beside the table. The statistics include the numbers of tasks, missing
            results, rows and requested rows, and the lexical diversity (``words``).
        """
        options, job = run.plan.get_options(SynthesisOptions), self.get_job(run)
        tasks = self.tasks(run)
        rows = list(job.rows())  # triplets, or single synthetic sentences with their scores
        # Describe the synthesis for the metadata file: how it was run, and how much it achieved.
        notes: dict[str, Any] = {
            **self.settings(run),
            **job.collect_notes(),
            "tasks": len(tasks),
            "missing": len(run.store.find_missing(tasks)),
            "rows": len(rows),
            "requested": job.n_requested_rows,
        }
        if options.makes_triplets:
            # Triplets in which the two models prefer different synthetic sentences.
            notes["opposed"] = sum(isinstance(row, Triplet) and row.opposed for row in rows)
        # Measure the diversity of words, which is not defined for a single sentence.
        if len(rows) > 1:
            sentences, originals = sentences_with_originals(rows)
            notes["words"] = measure_diversity(sentences, originals, run.language.code).to_record()
        # Format the table. A record maps the names of columns to the values in one row.
        records = [{**row.to_record(), **spec_columns(row, job.canonical_specs)} for row in rows]
        columns = list(records[0]) if records else Triplet.columns()
        return format_csv_rows(columns, (record.values() for record in records)), notes


class _PoolStage(SynthesisStage):
    """Stage that writes all sampled sentences with their scores to the table ``pool.csv``.

    It is part of studies that sample a pool of sentences, from which the synthetic sentences are
    chosen. The table also contains the natural sentences. Sampled sentences that violate the lower
    bounds on scores are left out. The tasks are the same as in the synthesis stage.
    """

    name = "pool"
    file = "pool.csv"
    key = None
    options = None

    def describe(self, plan: StudyPlan) -> str:
        return ""  # The synthesis stage describes the pool.

    def is_in(self, plan: StudyPlan) -> bool:
        options = plan.find_options(SynthesisOptions)
        return options is not None and options.is_pooled

    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        tasks, job = self.tasks(run), cast("PooledSynthesisJob", self.get_job(run))
        notes = {
            **self.settings(run),
            "tasks": len(tasks),
            "missing": len(run.store.find_missing(tasks)),
            **job.collect_notes(),
        }
        # Log-probabilities of each sampled sentence under the language model that wrote it.
        drafts = job.read_drafts()
        natural = dict.fromkeys(sentence for _, sentence in job.inputs)
        sampled = [sentence for sentence in job.candidates if sentence not in natural]
        # Add `POOL_COLUMNS` to each row of scores: the source of the sentence and, for sampled
        # sentences, three log-probabilities.
        rows = []
        for row in run.score_rows([*natural, *sampled]):
            sentence = row[0]
            if sentence in natural:
                rows.append((*row, "natural", "", "", ""))
            else:
                draft = drafts[sentence]
                rows.append((*row, "sampled", draft["log_prob"], draft["worst"], draft["end"]))
        return format_csv_rows((*run.score_columns, *POOL_COLUMNS), rows), notes


SYNTHESIS_STAGE = SynthesisStage()
POOL_STAGE = _PoolStage()
