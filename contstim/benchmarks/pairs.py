"""Benchmarks of sentence pairs: human choices, and minimal pairs with a preferred sentence."""

from __future__ import annotations

import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.benchmarks.benchmark import SCORED_HERE, Benchmark, BenchmarkResult
from contstim.benchmarks.estimates import add_ceiling_shares, estimate_mean, result_row
from contstim.errors import InputError
from contstim.evaluation.choices import HumanData
from contstim.evaluation.evaluate import evaluate
from contstim.evaluation.inference import CEILING_INTERVALS
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.scores import join_scores, score_table
from contstim.files import decode_json
from contstim.tables import read_table
from contstim.text.normalise import normalise_sentence

# Names of the columns of the good and the bad sentence in published sets of minimal pairs.
_PAIR_COLUMNS = (
    ("sentence_good", "sentence_bad"),
    ("good_sentence", "bad_sentence"),
    ("sen", "wrong_sen"),
)
_PARADIGM_COLUMNS = ("paradigm", "UID", "phenomenon")
_TERM_COLUMNS = ("linguistics_term", "linguistic_phenomenon", "phenomenon")
# Bound on the unpacked size of an archive of pairs; BLiMP has 21 MiB.
_MAX_UNPACKED = 1 << 27


@dataclass(frozen=True, eq=False, kw_only=True)
class ChoiceBenchmark(Benchmark):
    """Benchmark of human choices between two sentences, analysed by `contstim.evaluate`.

    Attributes
    ----------
    human
        Choices of the participants, and the scores of published models.

    Examples
    --------
    >>> from contstim import datasets, read_choices
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> benchmark = ChoiceBenchmark(
    ...     name="mine/pairs",
    ...     title="Natural pairs",
    ...     source="Nobody (2026)",
    ...     human=read_choices(choices),
    ... )
    >>> len(benchmark.sentences)
    72
    """

    human: HumanData
    primary_measure: tuple[str, str] = ("all", "accuracy")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        choices = self.human.choices
        texts = pd.concat([choices["sentence_1"], choices["sentence_2"]])
        return [str(sentence) for sentence in pd.unique(texts)]

    @property
    def published_models(self) -> list[str]:  # noqa: D102
        source = self.human.scores
        scored = [] if source is None else [str(model) for model in score_table(source, [])]
        return list(dict.fromkeys([*scored, *super().published_models]))

    def evaluate(self, scores: pd.DataFrame | None = None) -> BenchmarkResult:  # noqa: D102
        all_scores = self.human.scores
        if scores is not None:
            self.check_model_names(map(str, scores["model"].unique()))
            all_scores = scores if all_scores is None else join_scores(all_scores, scores)
        elif all_scores is None:
            raise InputError(f"{self.name} has no published models; name one, --model SPEC")
        # Analyse the human choices as in a study, then convert the table to benchmark results.
        evaluation = evaluate(self.human, all_scores)
        table = evaluation.models.rename(columns={"n_trials": "n_items"})
        missing_columns = [name for name in CEILING_INTERVALS if name not in table]
        table = table.reindex(columns=[*table, *missing_columns])
        # Add the columns that the other benchmarks compute: chance, share of the ceiling and
        # source.
        chance_by_measure = {name: MEASURES[name].chance for name in table["measure"].unique()}
        table = add_ceiling_shares(table.assign(chance=table["measure"].map(chance_by_measure)))
        is_published = table["model"].isin(self.published_models)
        table["source"] = np.where(is_published, self.source, SCORED_HERE)
        return BenchmarkResult(self.add_published_results(table), evaluation=evaluation)


@dataclass(frozen=True, eq=False, kw_only=True)
class ParadigmBenchmark(Benchmark):
    """Base class of benchmarks with items that a model gets right or wrong.

    Items are grouped into paradigms: sets of items that test the same grammatical contrast. The
    accuracy of a model is computed by paradigm and averaged over paradigms, which are treated as a
    random sample.

    Attributes
    ----------
    accuracies
        Accuracies of published models: one row per paradigm and one column per model.
    human_accuracies
        Accuracy of human choices by paradigm. Their mean is the noise ceiling.
    """

    accuracies: pd.DataFrame = field(default_factory=pd.DataFrame)
    human_accuracies: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    primary_measure: tuple[str, str] = ("all", "accuracy")

    @property
    @abstractmethod
    def phenomena(self) -> pd.Series:
        """Phenomenon of each paradigm, indexed by paradigm. Each phenomenon is also analysed alone.

        For example, several paradigms can test the phenomenon of subject-verb agreement.
        """

    @property
    def published_values(self) -> Mapping[str, pd.Series]:  # noqa: D102 - as Benchmark
        return {str(model): self.accuracies[model] for model in self.accuracies}

    def estimate(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        phenomena, chance = self.phenomena, 0.5
        accuracy = values.reindex(phenomena.index).to_numpy(dtype=float)
        human_accuracy = self.human_accuracies.reindex(phenomena.index).to_numpy(dtype=float)
        # Analyse all phenomena together, then each phenomenon separately.
        for analysis in ("all", *phenomena.unique()):
            is_included = (phenomena == analysis).to_numpy() | (analysis == "all")
            model, human = accuracy[is_included], human_accuracy[is_included]
            estimate = estimate_mean(model, chance)
            # The noise ceiling is the human accuracy, averaged over the same paradigms.
            ceiling, ceiling_low, ceiling_high = estimate_mean(human, chance)
            _, gap_low, gap_high = estimate_mean(model - human, 0.0)
            yield {
                **result_row(analysis, "accuracy", estimate, int(is_included.sum())),
                "chance": chance,
                "ceiling_lower": ceiling,
                "ceiling_lower_ci_low": ceiling_low,
                "ceiling_lower_ci_high": ceiling_high,
                "gap_ci_low": gap_low,
                "gap_ci_high": gap_high,
            }

    def detail_tables(self, values_by_model: Mapping[str, pd.Series]) -> Mapping[str, pd.DataFrame]:  # noqa: D102
        phenomena = self.phenomena
        table = pd.DataFrame(values_by_model).reindex(phenomena.index)
        if len(self.human_accuracies):
            table["human"] = self.human_accuracies.reindex(phenomena.index)
        table["phenomenon"] = phenomena
        return {"paradigms": table.rename_axis("paradigm").reset_index()}


@dataclass(frozen=True, eq=False, kw_only=True)
class PairBenchmark(ParadigmBenchmark):
    """Benchmark of minimal pairs, such as BLiMP.

    A model gets a pair right if the good sentence has the strictly higher score.

    Attributes
    ----------
    pairs
        Table with one row per pair: `paradigm`, `phenomenon`, `sentence_good`, `sentence_bad`.

    Examples
    --------
    >>> pairs = pd.DataFrame(
    ...     {
    ...         "paradigm": ["number", "person"],
    ...         "phenomenon": "agreement",
    ...         "sentence_good": ["The dogs run.", "I am here."],
    ...         "sentence_bad": ["The dogs runs.", "I is here."],
    ...     }
    ... )
    >>> benchmark = PairBenchmark(
    ...     name="mine/pairs", title="Agreement", source="Nobody (2026)", pairs=pairs
    ... )
    >>> scores = {"The dogs run.": -9, "The dogs runs.": -12, "I am here.": -8, "I is here.": -8}
    >>> table = pd.DataFrame({"sentence": list(scores), "m": list(scores.values())})
    >>> benchmark.evaluate(table).results[["analysis", "model", "value"]]
        analysis model  value
    0        all     m    0.5
    1  agreement     m    0.5
    """

    pairs: pd.DataFrame

    @property
    def phenomena(self) -> pd.Series:  # noqa: D102 - as ParadigmBenchmark
        return self.pairs.drop_duplicates("paradigm").set_index("paradigm")["phenomenon"]

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        texts = pd.concat([self.pairs["sentence_good"], self.pairs["sentence_bad"]])
        return [str(sentence) for sentence in pd.unique(texts)]

    def extract_values(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return each model's accuracy by paradigm."""
        accuracies = {}
        for model, score_by_sentence in super().extract_values(scores).items():
            good = score_by_sentence.loc[self.pairs["sentence_good"]].to_numpy()
            bad = score_by_sentence.loc[self.pairs["sentence_bad"]].to_numpy()
            # Accuracy by paradigm, a set of pairs that test the same grammatical contrast.
            is_right = pd.Series(good > bad, self.pairs["paradigm"])
            accuracies[model] = is_right.groupby(level=0).mean()
        return accuracies


def read_minimal_pairs(
    source: str | Path,
    paradigms: Sequence[str] = (),
    limit: int | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """Read minimal pairs from the files of BLiMP, ZhoBLiMP, TurBLiMP, BLiMP-NL or MultiBLiMP.

    Parameters
    ----------
    source
        A zip file or folder of ``PARADIGM.jsonl`` files, a table (``.csv``, ``.tsv``), or a folder
        of tables. Tables called ``data``, ``train`` or ``test`` are named after their folder.
    paradigms
        Paradigms to read, all by default.
    limit
        Maximum number of pairs of each paradigm.
    seed
        Seed for a random sample of `limit` pairs; None takes the first ones. The sample of a
        paradigm does not depend on the other paradigms.

    Returns
    -------
    DataFrame
        One row per pair: `paradigm`, `field`, `term`, `sentence_good`, `sentence_bad`.

    Raises
    ------
    InputError
        If there is no such file, or a row is not a pair of sentences.

    Source
    ------
    Warstadt et al. (2020), doi 10.1162/tacl_a_00321; Jumelet et al. (2025), arXiv 2504.02768;
    Suijkerbuijk et al. (2025), doi 10.1162/coli_a_00559; Basar et al. (2025), arXiv 2506.13487.

    Examples
    --------
    >>> import json
    >>> pair = {"sentence_good": "The dogs run.", "sentence_bad": "The dogs runs."}
    >>> _ = Path("agreement.jsonl").write_text(json.dumps(pair | {"field": "syntax"}))
    >>> read_minimal_pairs(".")["sentence_bad"].tolist()
    ['The dogs runs.']
    """
    path = Path(source)
    if path.is_dir():
        # A folder with tables or JSON files, in which other tables are ignored.
        table_paths = sorted(p for p in path.rglob("*") if p.suffix in (".csv", ".tsv"))
        tables = [table for p in table_paths if (table := _read_pair_table(p)) is not None]
        files = sorted(path.glob("*.jsonl"))
        tables += [_read_json_pairs(file.stem, file.read_text("utf-8")) for file in files]
    elif path.suffix in (".csv", ".tsv"):
        pair_table = _read_pair_table(path)
        if pair_table is None:
            required = " or ".join(", ".join(columns) for columns in _PAIR_COLUMNS)
            raise InputError(f"{path} has no columns of pairs; it needs {required}")
        tables = [pair_table]
    else:
        tables = [_read_json_pairs(stem, text) for stem, text in _read_zipped_pairs(path).items()]
    rows = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"paradigm": []})
    # A paradigm is a set of pairs that test the same grammatical contrast. Take up to `limit` pairs
    # of each: the first ones or, with a seed, a random sample in their original order.
    parts = []
    for name, group in rows.groupby("paradigm", sort=False):
        if paradigms and name not in paradigms:
            continue
        if limit is not None and limit < len(group):
            order = np.arange(len(group))
            if seed is not None:
                # Seeding with the name makes the sample independent of the other paradigms.
                order = np.random.default_rng([seed, *str(name).encode()]).permutation(len(group))
            group = group.iloc[np.sort(order[:limit])]
        parts.append(group)
    if not parts:
        raise InputError(f"{str(source)!r} has none of the requested paradigms")
    return pd.concat(parts, ignore_index=True)


def _read_zipped_pairs(path: Path) -> dict[str, str]:
    """Read all files of minimal pairs (``.jsonl``) in a zip archive.

    Returns
    -------
    dict
        Content of each file, by its name without suffix.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            # The published archive has a hidden macOS file beside each file.
            names = [
                name
                for name in sorted(archive.namelist())
                if name.endswith(".jsonl") and not Path(name).name.startswith(".")
            ]
            # Refuse a "zip bomb", an archive that would fill the memory when unpacked.
            if sum(archive.getinfo(name).file_size for name in names) > _MAX_UNPACKED:
                raise InputError(
                    f"{str(path)!r} would take more than {_MAX_UNPACKED >> 20} MiB when unpacked; "
                    "give an archive of minimal pairs"
                )
            return {Path(name).stem: archive.read(name).decode("utf-8") for name in names}
    except (FileNotFoundError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} is neither a folder nor a zip file of pairs") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or unknown compression
        raise InputError(f"{str(path)!r} cannot be unpacked ({error}); unpack it first") from None


def _read_json_pairs(stem: str, text: str) -> pd.DataFrame:
    """Parse a file of minimal pairs with one JSON object per line.

    Parameters
    ----------
    stem
        Name of the file without suffix, which is the name of the paradigm.
    text
        Content of the file.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            entry = decode_json(line)
            good, bad = entry["sentence_good"], entry["sentence_bad"]
        except (ValueError, KeyError, TypeError):
            entry, good, bad = {}, None, None
        # The line is not JSON, or a sentence is missing or not a text.
        if not isinstance(good, str) or not isinstance(bad, str):
            raise InputError(f"line {number} of {stem}.jsonl is not a minimal pair")
        # `term` is the linguistic phenomenon, under the first of its possible keys.
        rows.append(
            {
                "paradigm": stem,
                "field": str(entry.get("field") or ""),
                "term": next((str(entry[key]) for key in _TERM_COLUMNS if entry.get(key)), ""),
                "sentence_good": normalise_sentence(good),
                "sentence_bad": normalise_sentence(bad),
            }
        )
    return pd.DataFrame(rows, columns=["paradigm", "field", "term", *_PAIR_COLUMNS[0]])


def _read_pair_table(path: Path) -> pd.DataFrame | None:
    """Read minimal pairs from a CSV or TSV file and rename its columns.

    Returns
    -------
    DataFrame or None
        Columns as in `read_minimal_pairs`. None if the file has no columns with a good and a bad
        sentence, because a folder may contain other tables too.
    """
    table = read_table(path, cells="text")
    # Published tables name the columns of the good and the bad sentence differently.
    columns = next((pair for pair in _PAIR_COLUMNS if {*pair} <= {*table.columns}), None)
    if columns is None:
        return None
    good, bad = columns
    is_incomplete = table[[good, bad]].isna().any(axis=1)
    if is_incomplete.any():
        row = int(is_incomplete.argmax()) + 1
        raise InputError(f"row {row} of {path} has no sentence; fill it")
    table = table.fillna("")
    # MultiBLiMP has a folder for each language, with files of the same, generic name. The folder
    # then becomes part of the name of the paradigm.
    is_generic = path.stem in ("data", "train", "test")
    language = path.parent.name if is_generic else ""
    names = [c for c in _PARADIGM_COLUMNS if c in table and (is_generic or c != "phenomenon")]
    paradigm = table[names[0]] if names else pd.Series(path.stem, table.index)
    term = next((c for c in _TERM_COLUMNS if c in table), None)
    return pd.DataFrame(
        {
            "paradigm": f"{language} " + paradigm if language else paradigm,
            "field": language,
            "term": table[term] if term else "",
            "sentence_good": table[good].map(normalise_sentence),
            "sentence_bad": table[bad].map(normalise_sentence),
        }
    )


def pair_accuracy(
    pairs: pd.DataFrame, score: Callable[[list[str]], Sequence[float]]
) -> pd.DataFrame:
    """Compute a model's accuracy on minimal pairs by paradigm; ties count as errors.

    A pair is right if the good sentence has the strictly higher score.

    Parameters
    ----------
    pairs
        Minimal pairs, output of `read_minimal_pairs`.
    score
        Function from S sentences to S scores, such as the method `score` of a model.

    Returns
    -------
    DataFrame
        One row per paradigm: `paradigm`, `field`, `term`, `accuracy`, `n_tied` (number of pairs
        with equal scores), `n_pairs`.

    Examples
    --------
    >>> import contstim
    >>> pairs = pd.DataFrame(
    ...     {
    ...         "paradigm": "agreement",
    ...         "field": "syntax",
    ...         "term": "subject-verb agreement",
    ...         "sentence_good": ["The dogs run.", "The child sleeps."],
    ...         "sentence_bad": ["The dogs runs.", "The child sleep."],
    ...     }
    ... )
    >>> model = contstim.load_model("contstim:trigram?unknown=unk")
    >>> pair_accuracy(pairs, model.score)[["paradigm", "accuracy"]]
        paradigm  accuracy
    0  agreement       0.5
    """
    sentences = list(dict.fromkeys([*pairs["sentence_good"], *pairs["sentence_bad"]]))
    wide = score_table({"model": score}, sentences)["model"]
    good = wide.loc[pairs["sentence_good"]].to_numpy()
    bad = wide.loc[pairs["sentence_bad"]].to_numpy()
    # A pair is right if the good sentence has the strictly higher score.
    scored = pairs.assign(accuracy=good > bad, n_tied=good == bad, n_pairs=1)
    aggregations = {"accuracy": "mean", "n_tied": "sum", "n_pairs": "sum"}
    by_paradigm = scored.groupby(["paradigm", "field", "term"], sort=False)
    return by_paradigm.agg(aggregations).reset_index()
