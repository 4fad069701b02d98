"""Run benchmarks: score sentences, evaluate models, and write a folder of results."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from contstim.benchmarks.benchmark import RESULTS, Benchmark, BenchmarkResult
from contstim.columns import SCORES, SPEC, UNIT
from contstim.errors import InputError, OutputError
from contstim.files import remove, replace_atomically, write_atomically
from contstim.models.base import SentenceModel
from contstim.models.cache import ScoreCache, describe_model, model_identity, package_versions
from contstim.progress import track
from contstim.tables import escape_table
from contstim.text_files import format_csv

#: Number of sentences that are scored and saved together.
BATCH_SIZE = 256
#: The file that marks a folder as results of benchmarks.
PROVENANCE = "provenance.json"


def score_whole_sentences(
    model: SentenceModel, sentences: Iterable[str], cache: ScoreCache
) -> pd.DataFrame:
    """Score sentences and save the scores in a cache.

    Sentences are scored in batches, shortest first. Each batch is saved before the next one, so an
    interrupted run continues with the same results.

    Parameters
    ----------
    model
        Model that scores the sentences.
    sentences
        Distinct sentences.
    cache
        Saved scores. Sentences with a saved score are not scored again.

    Returns
    -------
    DataFrame
        One row per sentence, with the columns of `contstim score`.

    Raises
    ------
    InputError
        If the model cannot score a sentence.
    OutputError
        If scores cannot be saved.
    """
    texts = list(sentences)
    # Fill the cache batch by batch, so that an interrupted run loses at most one batch.
    for batch in _batches(texts, f"scoring, {model.name}"):
        cache.score_with_counts(model, batch)
    # Now all scores come from the cache, in the order of the sentences.
    scores = cache.score_with_counts(model, texts)
    table = pd.DataFrame(
        {
            "sentence": texts,
            "model": model.name,
            "log_prob": scores.score,
            "n_tokens": scores.n_tokens,
            "n_words": scores.n_words,
            "stderr": scores.stderr,
            UNIT: model.kind.unit,
            SPEC: model.spec,
        }
    )
    return table[[*SCORES, UNIT, SPEC]]


def score_words(model: SentenceModel, sentences: Iterable[str], cache: ScoreCache) -> pd.DataFrame:
    """Compute the log-probability of each word given the preceding words of its sentence.

    Sentences are scored in batches, shortest first, and each batch is saved before the next one.

    Parameters
    ----------
    model
        Causal model that scores the sentences.
    sentences
        Distinct sentences.
    cache
        Saved word scores. Sentences with saved scores are not scored again.

    Returns
    -------
    DataFrame
        One row per word: `sentence`, `model`, `position` (from 0), `word`, `log_prob` (nats).

    Raises
    ------
    InputError
        If the model does not predict each word from the preceding words.
    OutputError
        If scores cannot be saved.
    """
    event = model.event
    # The score must be the sum of log p(word | preceding words).
    is_sum = model.kind.splits_over_words and event.reduction == "sum"
    if not (is_sum and event.metric == "chain"):
        raise InputError(
            f"{model.name!r} does not predict each word from the words before it; name a causal "
            "model, such as contstim:gpt"
        )
    # The identity of a model, its specification and weights, is the key of its saved scores.
    texts, identity = list(sentences), model_identity(model)
    for batch in _batches(texts, f"scoring words, {model.name}"):
        saved = cache.read_words(identity)
        missing = [sentence for sentence in batch if sentence not in saved]
        if missing:
            cache.add_words(identity, missing, model.score_words(missing))
    saved = cache.read_words(identity)
    # One row per word.
    rows = []
    for sentence in texts:
        words = model.language.split(sentence)
        log_probs = saved[sentence].tolist()
        for position, (word, log_prob) in enumerate(zip(words, log_probs, strict=True)):
            rows.append((sentence, model.name, position, word, log_prob))
    return pd.DataFrame(rows, columns=["sentence", "model", "position", "word", "log_prob"])


def _batches(sentences: Iterable[str], label: str) -> Iterable[list[str]]:
    """Yield batches of distinct sentences, shortest first, and report the progress."""
    ordered = sorted(set(sentences), key=lambda sentence: (len(sentence), sentence))
    batches = [ordered[i : i + BATCH_SIZE] for i in range(0, len(ordered), BATCH_SIZE)]
    return track(batches, len(batches), label)


@dataclass(frozen=True, eq=False)
class BenchmarkRun:
    """Results of one or more benchmarks.

    Attributes
    ----------
    benchmarks
        Benchmarks by name.
    outcomes
        Results of all models, by name of the benchmark.
    scores
        Scores of the models that were scored in this run, by the name of the benchmark. None if
        there are no such models.
    models
        Descriptions of the models that were scored in this run: names, specifications, versions.
    notes
        Notes on the files that were read.
    """

    benchmarks: Mapping[str, Benchmark]
    outcomes: Mapping[str, BenchmarkResult]
    scores: Mapping[str, pd.DataFrame | None]
    models: Sequence[Mapping[str, object]]
    notes: Sequence[str] = ()

    @property
    def results(self) -> pd.DataFrame:
        """All results, with the columns `RESULTS`."""
        tables = [outcome.results for outcome in self.outcomes.values()]
        return pd.concat(tables, ignore_index=True)[list(RESULTS)]

    @property
    def primary_results(self) -> pd.DataFrame:
        """The primary result of each benchmark and model, the best model first."""
        rows = []
        for name, outcome in self.outcomes.items():
            # Each benchmark names one analysis and measure by which models are compared.
            analysis, measure = self.benchmarks[name].primary_measure
            table = outcome.results
            chosen = table[(table["analysis"] == analysis) & (table["measure"] == measure)]
            rows.append(chosen.sort_values("value", ascending=False, kind="stable"))
        return pd.concat(rows, ignore_index=True)

    def write(self, folder: str | Path) -> None:
        """Write the results to a folder, in place of earlier results of benchmarks.

        ``results.csv`` contains all results and ``provenance.json`` the models and versions. A
        folder for each benchmark contains its tables and scores, and the report of the evaluation
        for benchmarks of choices.

        Raises
        ------
        InputError
            If the folder contains something else.
        OutputError
            If it cannot be written.
        """
        check_results_folder(Path(folder))
        with replace_folder(Path(folder)) as new_folder:
            for name, outcome in self.outcomes.items():
                subfolder = new_folder / name.replace("/", "-")
                subfolder.mkdir(parents=True)
                if outcome.evaluation is not None:
                    outcome.evaluation.report(subfolder)
                tables = {"results": outcome.results, **outcome.detail_tables}
                if len(self.benchmarks[name].published_results):
                    compared = self.benchmarks[name].compare_published_results(outcome.results)
                    tables["published"] = compared
                for stem, table in tables.items():
                    write_atomically(subfolder / f"{stem}.csv", format_csv(escape_table(table)))
                scores = self.scores[name]
                if outcome.evaluation is None and scores is not None:
                    text = format_csv(escape_table(scores))
                    compressed = gzip.compress(text.encode(), mtime=0)
                    write_atomically(subfolder / "scores.csv.gz", compressed)
            write_atomically(new_folder / "results.csv", format_csv(escape_table(self.results)))
            provenance = {
                "benchmarks": {
                    name: benchmark.title for name, benchmark in self.benchmarks.items()
                },
                "models": list(self.models),
                "notes": list(self.notes),
                "versions": package_versions("pandas"),
            }
            text = json.dumps(provenance, indent=1, ensure_ascii=False) + "\n"
            write_atomically(new_folder / PROVENANCE, text)


def check_results_folder(folder: Path) -> None:
    """Check that a folder is new, empty, or contains only results of benchmarks.

    Raises
    ------
    InputError
        If it contains other files.
    OutputError
        If it is the working folder or contains the working folder.
    """
    check_replaceable(folder)
    if folder.exists() and any(folder.iterdir()) and not (folder / PROVENANCE).exists():
        raise InputError(
            f"{folder} contains files that are not results of benchmarks; choose another folder"
        )


def run_benchmarks(
    benchmarks: Sequence[Benchmark],
    models: Sequence[SentenceModel],
    cache: str | Path,
    notes: Sequence[str] = (),
) -> BenchmarkRun:
    """Score the sentences of benchmarks under models, and compare with the published models.

    Parameters
    ----------
    benchmarks
        Benchmarks with distinct names.
    models
        Any number of models.
    cache
        Folder of scores. Scores in it are used, and new ones are saved there.
    notes
        Notes on the files that were read, for the provenance.

    Raises
    ------
    InputError
        If a model cannot score a sentence or has the name of a published one, or two benchmarks
        have one name.
    OutputError
        If scores cannot be saved.

    Examples
    --------
    >>> import contstim
    >>> from contstim.benchmarks.data_sets import fetch
    >>> model = contstim.load_model("contstim:gpt")
    >>> benchmark = fetch("golan2023").benchmark()  # doctest: +SKIP
    >>> run = run_benchmarks([benchmark], [model], "scores")  # doctest: +SKIP
    >>> run.primary_results[["model", "value", "share"]]  # doctest: +SKIP
    """
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    if len(by_name) < len(benchmarks):
        raise InputError("a benchmark is named twice; name each once")
    for benchmark in benchmarks:
        benchmark.check_model_names(model.name for model in models)
    # Score the sentences of each benchmark, then compare with the published models.
    scores: dict[str, pd.DataFrame | None] = {}
    outcomes = {}
    store = ScoreCache(cache)
    for name, benchmark in by_name.items():
        score = score_words if benchmark.scored_unit == "word" else score_whole_sentences
        tables = [score(model, benchmark.sentences, store) for model in models]
        scores[name] = pd.concat(tables, ignore_index=True) if tables else None
        outcomes[name] = benchmark.evaluate(scores[name])
    # Specifications and versions of the models, for the provenance of the results.
    described = [describe_model(model) for model in models]
    return BenchmarkRun(by_name, outcomes, scores, described, notes)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary path, to replace a folder with all its files when the block ends.

    After a crash between the removal of the old folder and the renaming of the new one, the new
    folder remains under the name ``.NAME.new``.

    Raises
    ------
    OutputError
        If the folder cannot be written, or contains the working folder.
    """
    check_replaceable(folder)
    # Write the new folder completely, before the old one is removed.
    new = folder.with_name(f".{folder.name}.new")
    remove(new)  # left over from a crash
    with replace_atomically(new) as temporary:
        yield temporary
    remove(folder)
    new.replace(folder)


def check_replaceable(folder: Path) -> None:
    """Check that replacing a folder would not delete the working folder.

    Raises
    ------
    OutputError
        If the folder is the working folder or contains it.
    """
    working_folder = Path.cwd()
    if Path(os.path.realpath(folder)) in (working_folder, *working_folder.parents):
        raise OutputError(
            f"cannot replace {folder}, which contains the working folder; change to another "
            "folder, or choose another output"
        )
