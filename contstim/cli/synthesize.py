"""Write sentences on which models disagree.

For each natural sentence and pair of models, writes a triplet: the natural sentence, a sentence
that model 1 accepts and model 2 rejects, and the reverse. "Accepts" means that the model finds it
at least as probable as the natural sentence; "rejects", that its log-probability is as low as can
be found. With --accept and --reject, writes one sentence for any number of models.

The strategy edit replaces words of the natural sentence and is the fastest; edit?candidates=all
always takes the best word, as in Golan et al. (2023). beam finds the lowest probabilities, but
sentences are odd. sample gives sentences that read as English; it needs a language model that
writes (see docs). Options of a strategy follow its name: sample?guidance=6&n_samples=400.

With --out, an interrupted command continues when it is repeated. Exit status: 0 done, 1 nothing was
found or some sentences failed (the same command tries these again), 2 bad input.

examples:
  contstim synthesize --pair contstim:bigram contstim:trigram --limit 20 --out triplets.csv
  contstim synthesize --pair hf:gpt2 hf:bert-base-cased --strategy sample --readable --limit 24
    --out triplets.csv
  contstim synthesize --accept contstim:gpt --reject contstim:bert --reject contstim:lstm "The ship
    left at dawn."
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.common import (
    create_executor,
    describe_low_coverage,
    explain_interruption,
    print_message,
    read_vocabulary,
    refuse_overwriting,
    report_failed_tasks,
    write_output,
)
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    ExecutorName,
    File,
    NewFile,
    OutputFile,
    PositiveInteger,
    RandomSeed,
    Spec,
    Text,
    float_parameter,
)
from contstim.errors import InfeasibleError, InputError
from contstim.files import is_stream
from contstim.text import pool, read_sentences
from contstim.text.normalise import normalise_sentence

if TYPE_CHECKING:
    from contstim.pipeline.plan import StudyPlan
    from contstim.pipeline.synthesis import SynthesisReport
    from contstim.pipeline.tasks import Task
    from contstim.synthesis.results import Row

# Seconds of work after which --estimate reports.
_ESTIMATE = 10

COMPARED = Group.create_ordered("what to compare")
SEARCH = Group.create_ordered("how to search")
MATERIAL = Group.create_ordered("material and amount")
OUTPUT = Group.create_ordered("running and output")

USAGE = "contstim synthesize [options] [SENTENCE ...]"

app = create_application("synthesize", __doc__, usage=USAGE)


@app.default
def synthesize(
    *sentence: Text,
    pair: Annotated[
        tuple[tuple[str, str], ...], Parameter(group=COMPARED, metavar="SPEC_1 SPEC_2")
    ] = (),
    accept: Annotated[tuple[Spec, ...], Parameter(group=COMPARED, metavar="SPEC")] = (),
    reject: Annotated[tuple[Spec, ...], Parameter(group=COMPARED, metavar="SPEC")] = (),
    margin: Annotated[
        float | None, float_parameter(0, 1e6, "NATS"), Parameter(group=COMPARED)
    ] = None,
    min_score: Annotated[tuple[Text, ...], Parameter(group=COMPARED, metavar="BOUND")] = (),
    readable: Annotated[bool, Parameter(group=COMPARED)] = False,
    strategy: Annotated[str | None, Parameter(group=SEARCH, metavar="NAME")] = None,
    edits: Annotated[str | None, Parameter(group=SEARCH, metavar="RULE")] = None,
    vocabulary: Annotated[File | None, Parameter(group=SEARCH)] = None,
    max_word_share: Annotated[
        float | None, float_parameter(1e-6, 1, "SHARE"), Parameter(group=SEARCH)
    ] = None,
    sentences: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    limit: Annotated[PositiveInteger | None, Parameter(group=MATERIAL)] = None,
    language: Annotated[str | None, Parameter(group=MATERIAL, metavar="CODE")] = None,
    estimate: Annotated[bool, Parameter(group=OUTPUT)] = False,
    executor: Annotated[ExecutorName | None, Parameter(group=OUTPUT)] = None,
    plan: Annotated[File | None, Parameter(group=OUTPUT)] = None,
    pool: Annotated[NewFile | None, Parameter(group=OUTPUT)] = None,
    seed: Annotated[RandomSeed | None, Parameter(group=OUTPUT)] = None,
    out: Annotated[OutputFile, Parameter(group=OUTPUT)] = STANDARD_OUTPUT,
) -> int:
    """Write sentences on which models disagree.

    Parameters
    ----------
    sentence
        natural sentences to start from
    pair
        two models; each natural sentence gives a triplet (repeatable)
    accept
        model that must accept the sentence (repeatable)
    reject
        model that must reject it (repeatable)
    margin
        maximum decrease of the score of an accepting model [0]
    min_score
        lower bound on a model's score, nats, e.g. contstim:gpt>=natural-5 (repeatable)
    readable
        accept only sentences with a reading score of at least -3.4: the mean log-probability per
        word plus that of the end, under SmolLM2
    strategy
        edit: replace words of the natural sentence, one at a time; beam: whole sentences of lowest
        probability under the rejecting model; sample: sentences that read as English, sampled from
        a language model [edit]
    edits
        limits on what may change, e.g. max=3,fixed=0+1,words=2:dog+cat,same-class (edit only)
    vocabulary
        words to use, one per line, or a CSV with a column 'word' [bundled English words]
    max_word_share
        maximum share of the sentences that may contain the same word [0.02]
    sentences
        natural sentences, one per line, or a CSV with a column 'sentence' [bundled pool]
    limit
        number of natural sentences per pair [all]
    language
        language of the sentences [en]
    estimate
        run for 10 seconds, print the expected time of the remaining tasks, and stop
    executor
        executor of the tasks: local:N (N worker processes on this machine), slurm:N (N SLURM jobs)
        or dask:ADDRESS (Dask cluster) [this process]
    plan
        plan of the study (TOML) whose settings hold unless they are given here
    pool
        also write every sampled sentence with its scores (sample only)
    seed
        random seed [0]
    out
        output table [standard output]
    """
    from contstim.models.training_overlap import training_overlap_notes
    from contstim.pipeline.synthesis_options import SynthesisOptions

    if sentence and sentences:
        raise InputError("give sentences or --sentences FILE, not both")
    if (pair and (accept or reject)) or not (pair or accept or reject or plan):
        raise InputError(
            "name the models once: --pair SPEC_1 SPEC_2 for triplets, or --accept SPEC and "
            "--reject SPEC for one sentence each"
        )
    study = _plan(
        plan,
        sentence or None,
        sentences,
        limit,
        vocabulary,
        language,
        seed,
        {
            "pairs": pair or None,
            "accept": accept or None,
            "reject": reject or None,
            "margin": margin,
            "min_scores": min_score or None,
            "readable": True if readable else None,
            "strategy": strategy,
            "edits": edits,
            "max_word_share": max_word_share,
        },
    )
    if share := describe_low_coverage(study.sentences.listed, study.loaded_vocabulary):
        # Models of word pieces know any word, and would write foreign ones into the sentences.
        print_message(
            f"the vocabulary has {share} different words of the sentences; if they are in another "
            "language, make one of it with 'contstim vocabulary' and give it as --vocabulary",
        )
    for note in training_overlap_notes(
        (*study.models, *study.extra_models), study.sentences.listed
    ):
        print_message(note)
    reading = [sentences, vocabulary, plan]
    report = _write(study, out, pool, reading, estimate, executor)
    if report.failures:
        return _report_failed(report.failures)
    if report.is_up_to_date:
        print_message(f"{out}: up to date")
    elif _report_left(report):
        return 0
    else:
        _report_rows(report, triplets=study.get_options(SynthesisOptions).makes_triplets)
    if not report.n_rows:
        print_message("nothing was found; try other sentences, another strategy or lower bounds")
        return 1
    return 0


def _plan(
    path: str | None,
    given: Sequence[str] | None,
    sentences: str | None,
    limit: int | None,
    vocabulary: str | None,
    language: str | None,
    seed: int | None,
    values: dict[str, object],
) -> StudyPlan:
    """Return the study plan of one stage that the options describe."""
    from contstim.pipeline.plan import SentenceOptions, StudyOptions, StudyPlan, VocabularyOptions
    from contstim.pipeline.study import read_study_plan
    from contstim.pipeline.synthesis_options import SynthesisOptions
    from contstim.synthesis.problem import MIN_READING_SCORE
    from contstim.text.word_options import WordOptions

    options: dict[str, Any] = {name: v for name, v in values.items() if v is not None}
    if options.pop("readable", False):
        options["readable"] = MIN_READING_SCORE
    base = None if path is None else read_study_plan(Path(path))
    stage = None if base is None else base.find_options(SynthesisOptions)
    usual = {} if stage is None else {f.name: getattr(stage, f.name) for f in fields(stage)}
    if {"pairs", "reject", "accept"} & options.keys():  # the command names all models
        usual |= {"pairs": (), "reject": (), "accept": ()}
    synthesis = SynthesisOptions(**{"starts": "all", **usual, **options})
    models = [*itertools.chain(*synthesis.pairs), *synthesis.reject, *synthesis.accept]
    words = WordOptions(language=language or "en")
    listed = given or (read_sentences(sentences) if sentences else None)
    if listed is None and base is None:
        listed = pool()
    material = base.sentences if base is not None else SentenceOptions()
    if listed is not None:
        material = SentenceOptions(
            listed=tuple(dict.fromkeys(map(normalise_sentence, listed[:limit])))
        )
    elif limit is not None:
        material = replace(material, limit=limit)
    chosen = read_vocabulary(vocabulary, words) if vocabulary or language else None
    return StudyPlan(
        tuple(dict.fromkeys(models)) or (base.models if base is not None else ()),
        StudyOptions(
            "synthesis",
            base.study.seed if seed is None and base is not None else seed or 0,
            threads=1 if base is None else base.study.threads,
        ),
        material,
        VocabularyOptions(language=words.language) if base is None or chosen else base.vocabulary,
        (synthesis,),
        folder=Path.cwd() if base is None else base.folder,
        loaded_vocabulary=chosen,
    )


def _write(
    study: StudyPlan,
    out: str,
    pool: str | None,
    reading: list[str | None],
    estimate: bool,
    where: str | None,
) -> SynthesisReport:
    """Write the table of the study, and the pool if it is wanted."""
    from contstim.pipeline.synthesis import write_synthesis

    tried = _ESTIMATE if estimate else None
    sampled = None if pool is None else Path(pool)
    for path in (out, pool):
        if path not in ("-", None):
            refuse_overwriting(path, reading)
    with create_executor(where) as executor:
        if out != "-" and not is_stream(Path(out)):
            with explain_interruption():
                return write_synthesis(study, Path(out), executor, pool=sampled, time_limit=tried)
        with write_output(out) as file:
            printer = _Printer(file)
            report = write_synthesis(
                study, None, executor, printer.show, pool=sampled, time_limit=tried
            )
            printer.finish()
            return report


def _report_left(report: SynthesisReport) -> bool:
    """Print the expected time of the remaining tasks; return whether there are any."""
    status = report.status
    if status is None:
        return False
    remaining = "remaining time unknown"
    if (seconds := status.remaining_seconds) is not None:
        time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
        remaining = f"about {time} left with one worker"
    print_message(
        f"{status.n_done} of {status.n_tasks} tasks done, {remaining}; run the same command "
        "without --estimate to continue"
    )
    return True


def _report_rows(report: SynthesisReport, triplets: bool) -> None:
    """Report what was found."""
    from contstim.synthesis.results import Triplet, sentences_with_originals
    from contstim.text.diversity import format_diversity

    opposed = sum(isinstance(row, Triplet) and row.opposed for row in report.rows)
    kind = "triplets" if triplets else "sentences"
    order = f"; in {opposed} of them the models order the two synthetic sentences oppositely"
    print_message(
        f"{report.n_rows} of {report.n_requested} {kind} were found{order if triplets else ''}"
    )
    if report.n_sampled is not None:
        print_message(
            f"{report.n_sampled:,} sentences were sampled, {report.n_candidates:,} satisfy the "
            "bounds"
        )
        for name in report.filter_only:
            print_message(
                f"{name} does not score prefixes and did not guide the sampling: it only filtered "
                "the sentences (sample?guide=SPEC names a model that guides in its place)"
            )
        if report.n_rows < (report.n_requested or 0):
            for name, number in report.n_satisfying.items():
                print_message(
                    f"  {number:,.0f} of these satisfy {name} (median over natural sentences)"
                )
            print_message(
                "  sample more sentences (sample?n_samples=N), or relax the strictest bound"
            )
    if len(report.rows) > 1:
        print_message(format_diversity(*sentences_with_originals(report.rows)))


class _Printer:
    """Prints each row as soon as it is complete, below a header."""

    def __init__(self, file: IO[str]) -> None:
        self.file, self.writer = file, csv.writer(file, lineterminator="\n")
        self.has_header = False

    def show(self, row: Row) -> None:
        """Print a row."""
        values = row.row()
        if not self.has_header:
            self.writer.writerow(values)
        self.has_header = True
        self.writer.writerow(values.values())
        self.file.flush()

    def finish(self) -> None:
        """Print the header if there was no row."""
        from contstim.synthesis.results import Triplet

        if not self.has_header:
            self.writer.writerow(Triplet.columns())


def _report_failed(failed: Sequence[tuple[Task, str]]) -> int:
    """Report failed tasks; return the exit status."""
    lines = [line for _, line in failed]
    kind = f"{InfeasibleError.__name__}: "
    if all(line.startswith(kind) for line in lines):
        more = f" ({len(lines) - 1} more searches fail likewise)" if len(lines) > 1 else ""
        raise InfeasibleError(lines[0].removeprefix(kind) + more)
    report_failed_tasks(failed)
    return 1
