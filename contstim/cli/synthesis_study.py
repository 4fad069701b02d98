"""Study plan, output and report of `contstim synthesize`, imported only when the command runs."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

from contstim.cli.common import (
    create_executor,
    explain_interruption,
    print_message,
    refuse_overwriting,
    report_failed_tasks,
    write_output,
)
from contstim.cli.vocabularies import describe_low_coverage, read_vocabulary
from contstim.errors import InfeasibleError
from contstim.files import is_stream
from contstim.pipeline.plan import SentenceOptions, StudyOptions, StudyPlan, VocabularyOptions
from contstim.pipeline.study import read_study_plan
from contstim.pipeline.synthesis import SynthesisReport, write_synthesis
from contstim.pipeline.synthesis_options import N_ALTERNATIVES, SynthesisOptions
from contstim.pipeline.tasks import Task
from contstim.synthesis.problem import MIN_READING_SCORE
from contstim.synthesis.results import Row, Triplet, sentences_with_originals
from contstim.text import pool
from contstim.text.diversity import format_diversity
from contstim.text.normalise import normalise_sentence
from contstim.text.word_options import WordOptions

# Duration of the work before --estimate reports, in seconds.
_ESTIMATE_SECONDS = 10


def build_plan(
    options: Mapping[str, Any],
    path: str | None,
    sentences: Sequence[str] | None,
    limit: int | None,
    vocabulary: str | None,
    language: str | None,
    seed: int | None,
) -> StudyPlan:
    """Build the study plan for `contstim synthesize`, which has the synthesis as its only stage.

    Parameters that are None have the values of a plan file or, without a file, default values.

    Parameters
    ----------
    options
        Mapping from fields of `SynthesisOptions` to their values.
    path
        Path of the plan file.
    sentences
        Natural sentences.
    limit
        Maximum number of natural sentences per pair of models that receive synthetic sentences.
    vocabulary
        Path of the vocabulary.
    language
        Code of the language.
    seed
        Random seed.
    """
    options = {name: value for name, value in options.items() if value is not None}
    if options.pop("readable", False):
        options["readable"] = MIN_READING_SCORE
    base = None if path is None else read_study_plan(Path(path))
    # Options of the synthesis come from the command line, the plan file or the defaults.
    stage = None if base is None else base.find_options(SynthesisOptions)
    defaults: dict[str, Any] = {"allocation": "all"}
    if stage is not None:
        defaults = {field.name: getattr(stage, field.name) for field in fields(stage)}
    if {"pairs", "reject", "accept"} & options.keys():
        # The models given on the command line replace all models of the plan.
        defaults |= {"pairs": (), "reject": (), "accept": ()}
    synthesis = SynthesisOptions(**{**defaults, **options})
    models = tuple(dict.fromkeys([*chain(*synthesis.pairs), *synthesis.reject, *synthesis.accept]))
    if not models and base is not None:
        models = base.models
    if limit is not None and synthesis.is_pooled:
        # The synthetic sentences are assigned to those natural sentences that suit them best.
        synthesis = replace(synthesis, per_pair=limit)
        n_parts = (
            len(synthesis.list_problems(models)) if synthesis.allocation == "partitioned" else 1
        )
        limit = n_parts * limit * N_ALTERNATIVES
    if sentences is None and base is None:
        sentences = pool()
    material = SentenceOptions() if base is None else base.sentences
    if sentences is not None:
        distinct = dict.fromkeys(map(normalise_sentence, sentences[:limit]))
        material = SentenceOptions(listed=tuple(distinct))
    elif limit is not None:
        material = replace(material, limit=limit)
    words = None
    word_options = VocabularyOptions() if base is None else base.vocabulary
    if vocabulary or language:
        words = read_vocabulary(vocabulary, WordOptions(language=language or "en"))
        word_options = VocabularyOptions(language=language or "en")
    plan_seed, threads = (0, 1) if base is None else (base.study.seed, base.study.threads)
    study = StudyOptions("synthesis", plan_seed if seed is None else seed, threads=threads)
    return StudyPlan(
        models,
        study,
        material,
        word_options,
        (synthesis,),
        folder=Path.cwd() if base is None else base.folder,
        loaded_vocabulary=words,
    )


def warn_about_low_coverage(study: StudyPlan) -> None:
    """Print a warning on standard error if the vocabulary lacks most words of the sentences.

    The vocabulary is then probably in another language than the natural sentences.
    """
    sentences = study.sentences.listed
    if coverage := describe_low_coverage(sentences, study.loaded_vocabulary):
        # Models of subwords accept any word and would write foreign words into the sentences.
        print_message(
            f"the vocabulary has {coverage} different words of the sentences; if they are in "
            "another language, make a vocabulary with 'contstim vocabulary' and give it as "
            "--vocabulary"
        )


def write_sentences(
    study: StudyPlan,
    out: str,
    pool: str | None,
    inputs: Sequence[str | None],
    estimate: bool,
    executor_name: str | None,
) -> SynthesisReport:
    """Synthesize the sentences of a study and write them to a file or to standard output.

    Parameters
    ----------
    study
        Study plan with a synthesis stage.
    out
        Path of the table; ``-`` is standard output, where each row is printed when it is complete.
    pool
        Path of the table of all sampled sentences, if any.
    inputs
        Files that must not be overwritten.
    estimate
        Whether to stop after ten seconds and estimate the duration.
    executor_name
        Name of the executor, which defines where tasks are computed.

    Returns
    -------
    SynthesisReport
        Numbers and rows of the sentences, for `report_synthesis`.
    """
    options: dict[str, Any] = {"pool": None if pool is None else Path(pool)}
    options |= {"time_limit": _ESTIMATE_SECONDS if estimate else None}
    options |= {"show_progress": print_message}
    for path in (out, pool):
        if path not in ("-", None):
            refuse_overwriting(path, inputs)
    with create_executor(executor_name) as executor:
        if out != "-" and not is_stream(Path(out)):
            with explain_interruption():
                return write_synthesis(study, Path(out), executor, **options)
        with write_output(out) as file:
            writer = csv.writer(file, lineterminator="\n")
            has_header = False

            def print_row(row: Row) -> None:
                nonlocal has_header
                cells = row.to_record()
                # Write the names of the columns before the first row.
                if not has_header:
                    writer.writerow(cells)
                    has_header = True
                writer.writerow(cells.values())
                # Show the row at once, since the next one may take minutes.
                file.flush()

            report = write_synthesis(study, None, executor, print_row, **options)
            if not report.rows:
                writer.writerow(Triplet.columns())
            return report


def report_synthesis(report: SynthesisReport, study: StudyPlan, out: str) -> int:
    """Report a synthesis on standard error; return 1 if a task failed or nothing was found, else 0.

    Parameters
    ----------
    report
        Rows, failures and progress of the synthesis.
    study
        Study plan of the synthesis.
    out
        Path of the output table, for the message.

    Returns
    -------
    int
        0 on success or after an estimate of the duration, 1 if nothing was found or a task failed.

    Raises
    ------
    InfeasibleError
        If all tasks failed because no sentence can satisfy the constraints.
    """
    if report.failures:
        return report_failures(report.failures)
    if report.is_up_to_date:
        print_message(f"{out}: up to date")
    # A status exists if the search stopped early, to estimate its duration (--estimate).
    elif (status := report.status) is not None:
        # A strategy that samples sentences may stop before its maximum number of samples. The time
        # to score them is not included.
        limit = "at most " if study.get_options(SynthesisOptions).is_pooled else ""
        remaining = "remaining time unknown"
        if (seconds := status.remaining_seconds) is not None:
            remaining = f"{limit}about {_format_duration(seconds)} left with one worker"
            if report.processor_share is not None:
                processor_time = _format_duration(report.processor_share * seconds)
                remaining += f" ({processor_time} of processor time)"
            remaining += ", plus scoring" if limit else ""
        print_message(
            f"{status.n_done} of {limit}{status.n_tasks} tasks done, {remaining}; run the same "
            "command without --estimate to continue"
        )
        return 0
    else:
        report_rows(report, study.get_options(SynthesisOptions).makes_triplets)
    # Exit status 1 means that the result is incomplete, 0 success.
    if not report.notes.get("rows"):
        print_message("nothing was found; try other sentences, another strategy or lower bounds")
        return 1
    return 0


def _format_duration(seconds: float) -> str:
    """Format a duration in seconds, or in minutes if it is long."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def report_failures(failed: Sequence[tuple[Task, str]]) -> int:
    """Report failed tasks on standard error; return the exit status.

    Raises
    ------
    InfeasibleError
        If all tasks failed because no sentence can satisfy the constraints.
    """
    prefix = f"{InfeasibleError.__name__}: "
    messages = [message for _, message in failed]
    # No sentence can satisfy the constraints: raise the error once, as for a single sentence.
    if all(message.startswith(prefix) for message in messages):
        n_more = len(messages) - 1
        more = f" ({n_more} more searches fail for this reason)" if n_more else ""
        raise InfeasibleError(messages[0].removeprefix(prefix) + more)
    report_failed_tasks(failed)
    return 1


def report_rows(report: SynthesisReport, is_triplets: bool) -> None:
    """Report the results of a synthesis on standard error.

    The report states how many sentences were found and how diverse they are. If sentences were
    sampled and fewer were found than requested, it also states how many samples satisfy each bound.

    Parameters
    ----------
    report
        Results of the synthesis.
    is_triplets
        Whether the rows are triplets, with two synthetic sentences each.
    """
    kind, notes = "triplets" if is_triplets else "sentences", report.notes
    summary = f"{notes['rows']} of {notes['requested']} {kind} were found"
    # A triplet consists of a natural sentence and two synthetic ones.
    if is_triplets:
        summary += (
            f"; the models prefer different synthetic sentences in {notes['opposed']} of them"
        )
    print_message(summary)
    # Sentences were sampled from a language model, guided by the compared models.
    if "n_sampled" in notes:
        line = "{n_sampled:,} sentences were sampled, {n_candidates:,} satisfy the bounds"
        print_message(line.format(**notes))
        if report.rows:
            print_message(
                "read all sentences before you use them, for example with: contstim review "
                "TRIPLETS.csv --reviewer YOU --page review.html"
            )
        # Too few sentences: report for each bound how many samples satisfy it.
        if notes["rows"] < notes["requested"]:
            for name, number in notes["n_satisfying"].items():
                print_message(f"  {number:,.0f} satisfy {name} (median over natural sentences)")
            print_message(
                "  increase max_samples or, if sampling ended earlier, lower min_improvement; use "
                "less probable natural sentences, or relax a constraint"
            )
    if len(report.rows) > 1:
        print_message(format_diversity(*sentences_with_originals(report.rows)))
