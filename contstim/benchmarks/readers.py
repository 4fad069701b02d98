"""Readers that convert the files of published data sets to benchmarks."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.benchmarks.benchmark import Benchmark, published_table
from contstim.benchmarks.pairs import ChoiceBenchmark, PairBenchmark, read_minimal_pairs
from contstim.benchmarks.ratings import DeltaBenchmark, LabelBenchmark, RatingBenchmark
from contstim.benchmarks.syntaxgym import Suite, read_suite
from contstim.benchmarks.words import SuiteBenchmark, WordBenchmark
from contstim.evaluation.choices import CleaningRules, HumanData, RawChoices, prepare_choices
from contstim.evaluation.importers import read_choices
from contstim.evaluation.ratings import rescale
from contstim.files import decode_json
from contstim.tables import read_table, require_columns
from contstim.training.cola import read_cola

#: Local paths of a data set's files, by published file name.
_Files = Mapping[str, Path]
#: Keyword arguments of every benchmark: `name`, `title`, `source` and `published_results`.
_Shared = Mapping[str, Any]

# Names of the models in the paper on BLiMP, by their names in its result files.
_BLIMP_MODELS = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2"}
_SPROUSE_COLUMNS = ["Bad ID", "Bad sentence", "Good ID", "Good sentence"]


def _finish_choices(table: pd.DataFrame, first_code: int, second_code: int) -> HumanData:
    """Clean choices between two sentences, and rescale them to ratings.

    Choices without a sentence or an answer, and repeated choices, are excluded. The rating is -2.5
    for the choice of sentence 1 and 2.5 for the choice of sentence 2.

    Parameters
    ----------
    table
        Choices with the columns of the tidy format. The column `rating` contains the original
        codes.
    first_code, second_code
        Codes for the choice of sentence 1 and of sentence 2.
    """
    table = table.assign(rating=rescale(table["rating"], first_code, second_code))
    cleaning = CleaningRules("exclude", "exclude", "keep_first")
    return prepare_choices(RawChoices(table, cleaning, "slider"))


def read_golan2023_choices(files: _Files, shared: _Shared) -> Benchmark:
    """Read the choices of the second experiment of Golan et al. (2023)."""
    path = files["contstim_Nov2022_30_participants_anon.csv"]
    return ChoiceBenchmark(**shared, human=read_choices(path, format="golan2023"))


def _read_blimp_accuracies(files: _Files) -> pd.DataFrame:
    """Read the published accuracies of BLiMP.

    Returns
    -------
    DataFrame
        One row per paradigm (column ``UID``) with its phenomenon (``linguistics_term``) and the
        accuracy of each model. In rows with the UID ``overall``, accuracies are means over a
        phenomenon.
    """
    lines = files["models_summary.jsonl"].read_text("utf-8").splitlines()
    table = pd.DataFrame([decode_json(line) for line in lines])
    return table[["UID", "linguistics_term", *_BLIMP_MODELS]].rename(columns=_BLIMP_MODELS)


def read_blimp_pairs(files: _Files, shared: _Shared) -> Benchmark:
    """Read the minimal pairs of BLiMP, with the accuracies of people and of four models.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.

    Source
    ------
    Warstadt et al. (2020), doi 10.1162/tacl_a_00321.
    """
    models = list(_BLIMP_MODELS.values())
    summary = _read_blimp_accuracies(files)
    # Rows called "overall" contain means over a phenomenon, or over all phenomena.
    is_overall = summary["UID"] == "overall"
    overall = summary[is_overall].melt("linguistics_term", models, "model", "value")
    source = "Warstadt et al. (2020), Table 3, as corrected in models_summary.jsonl"
    published_results = published_table(
        (row.linguistics_term, "accuracy", row.model, "value", row.value, source)
        for row in overall.replace({"linguistics_term": {"overall": "all"}}).itertuples()
    )
    # A paradigm is a set of pairs that test the same grammatical contrast.
    by_paradigm = summary[~is_overall].set_index("UID")
    pairs = read_minimal_pairs(files["BLiMP.zip"])
    # For two paradigms, the files of pairs name another phenomenon. The published results count.
    phenomena = pairs["paradigm"].map(by_paradigm["linguistics_term"]).fillna(pairs["term"])
    human = read_table(
        files["human_validation_summary.csv"], ["Condition", "total_mean"], cells="inferred"
    )
    return PairBenchmark(
        **{**shared, "published_results": published_results},
        pairs=pairs.assign(phenomenon=phenomena),
        accuracies=by_paradigm[models],
        human_accuracies=human.set_index("Condition")["total_mean"],
    )


def read_blimp_choices(files: _Files, shared: _Shared) -> Benchmark:
    """Read the human choices that validated BLiMP.

    Each row of the file is a task of five pairs. One of them is an attention check, which is left
    out.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    """
    pair_numbers = range(1, 6)
    columns = [f"Input.item_{k}_condition" for k in pair_numbers]
    columns += [f"Answer.Choice{k}" for k in pair_numbers]
    # Each row of the file is a task of five pairs; convert it to five rows.
    raw = read_table(files["human_responses.csv"], ["anonCode", *columns], cells="text")
    parts = []
    for k in pair_numbers:
        # The condition is the paradigm followed by the correct answer, such as "PARADIGMans2".
        condition = raw[f"Input.item_{k}_condition"].str.extract(r"^(.*)ans([12])$")
        answers = {
            "participant": raw["anonCode"],
            "paradigm": condition[0],
            "expected": condition[1],
            **{f"sentence_{side}": raw[f"Input.field_{k}_{side}"] for side in (1, 2)},
            "rating": raw[f"Answer.Choice{k}"].str.extract(r"^([12])\.")[0],
        }
        parts.append(pd.DataFrame(answers))
    table = pd.concat(parts, ignore_index=True).dropna(subset=["paradigm", "rating"])
    phenomena = _read_blimp_accuracies(files).set_index("UID")["linguistics_term"].drop("overall")
    # Attention checks have no paradigm of BLiMP.
    table = table[table["paradigm"].isin(phenomena.index)].reset_index(drop=True)
    table = table.astype({"expected": int, "rating": int}).assign(
        condition=table["paradigm"].map(phenomena), item=pd.factorize(table["paradigm"])[0] + 1
    )
    return ChoiceBenchmark(**shared, human=_finish_choices(table, first_code=1, second_code=2))


def read_li_adger(files: _Files, shared: _Shared) -> Benchmark:
    """Read the sentences and minimal pairs of the LI-Adger data, with published scores.

    The scores of masked models are pseudo-log-likelihoods (PLL). The scores of a trigram model are
    log-probabilities and SLOR (log-probability minus the log-probabilities of the words, divided by
    the number of words).

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    """
    judgements = read_table(
        files["human_ME_results_li-adger_sentences.csv"],
        ("id", "sentence", "judgement"),
        cells="inferred",
    )
    pairs = read_table(
        files["li-adger_min_pairs.csv"], ("gramm_id", "ungramm_id", "discard"), cells="inferred"
    )
    masked_scores = read_table(
        files["bert_mlm_results_li-adger_sentences.csv"], ["id"], cells="inferred"
    ).set_index("id")
    # Masked models: pseudo-log-likelihood (PLL) by sentence.
    names = [str(column) for column in masked_scores if str(column).endswith("_mlm")]
    scores = {f"{name.removesuffix('_mlm')}, PLL": masked_scores[name] for name in names}
    by_pair = read_table(
        files["li-adger_min_pairs_all_models.csv"], ["gramm_id", "ungramm_id"], cells="inferred"
    )
    for name, column in (("SLOR", "slor"), ("log-probability", "logProb")):
        # The scores of the trigram model are listed by pair; convert them to scores by sentence id.
        grammatical = by_pair.set_index("gramm_id")[f"{column}_gramm"]
        ungrammatical = by_pair.set_index("ungramm_id")[f"{column}_ungramm"]
        by_id = pd.concat([grammatical, ungrammatical]).dropna()
        scores[f"trigram, {name}"] = by_id[~by_id.index.duplicated()]
    # Leave out pairs that the authors marked to be discarded.
    pairs = pairs[pairs["discard"].isna()].reset_index(drop=True)
    return DeltaBenchmark(**shared, judgements=judgements, pairs=pairs, scores=scores)


def read_lau2020(files: _Files, shared: _Shared, *, context: str) -> Benchmark:
    """Read the single ratings of acceptability by Lau et al. (2020) for one kind of context.

    Participants read a context before each sentence; models score the sentences without context.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    context
        Kind of context, as in the name of the file.
    """
    path = files[f"context-{context}-ratings.csv"]
    table = read_table(path, ["sentence", "full-ratings"], cells="text")
    answers = table["full-ratings"].str.split(",").set_axis(table["sentence"]).explode()
    ratings = answers.astype(float).rename("rating").rename_axis("sentence").reset_index()
    return RatingBenchmark(**shared, ratings=ratings)


def read_event_ratings(
    files: _Files, shared: _Shared, *, subset: str, prefix: str, models: Mapping[str, str]
) -> Benchmark:
    """Read plausibility ratings of sentences that describe events, with published scores.

    Identifiers of crowd workers are replaced with numbers.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    subset
        Name of a subset of the stimuli. The ratings are in ``clean_{subset}_human_dat.csv``.
    prefix
        Prefix of the score files. The scores of each model are in ``{prefix}.{suffix}.txt``.
    models
        Mapping from the name of each published model to the `suffix` of its score file.
    """
    ratings_path = files[f"clean_{subset}_human_dat.csv"]
    table = read_table(ratings_path, ["WorkerId", "Score", "ItemNum", "Sentence"], cells="inferred")
    ratings = pd.DataFrame(
        {
            "participant": pd.factorize(table["WorkerId"])[0] + 1,
            "item": table["ItemNum"],
            "sentence": table["Sentence"].str.strip(),
            "rating": table["Score"],
        }
    ).dropna(subset=["rating"])
    # Scores of published models, one file per model.
    scores = {}
    for model, suffix in models.items():
        # The last two of five columns are not used.
        columns = ["number", "sentence", "score", "unused_1", "unused_2"]
        lines = _read_lines(files[f"{prefix}.{suffix}.txt"], columns)
        score = lines.drop_duplicates("sentence").set_index("sentence")["score"].astype(float)
        # Some files contain surprisals, -log p, instead of log-probabilities.
        scores[model] = -score if "surprisal" in suffix else score
    return RatingBenchmark(**shared, ratings=ratings, scores=pd.DataFrame(scores))


def _read_lines(path: Path, names: list[str]) -> pd.DataFrame:
    """Read a tab-separated file without a header and without quotation marks around cells."""
    table = pd.read_csv(
        path, sep="\t", header=None, names=names, quoting=3, dtype=str, keep_default_na=False
    )
    return pd.DataFrame({name: table[name].str.strip() for name in names})


def _read_sprouse_pairs(files: _Files) -> pd.DataFrame:
    """Read the sentence pairs of Sprouse et al. (2013) from their Excel file.

    The columns are `bad_id`, `bad`, `good_id` and `good`: ids and texts of the unacceptable and the
    acceptable sentence.
    """
    path = files["SSA.Materials.xlsx"]
    # openpyxl warns of a feature of the Excel file that does not concern its cells.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unknown extension", UserWarning)
        rows = read_table(path, cells="text")
    # Comments precede the header.
    header_row = rows.index[rows.iloc[:, 0] == _SPROUSE_COLUMNS[0]][0]
    names = rows.loc[header_row].astype(str).tolist()
    table = rows.loc[header_row + 1 :].set_axis(names, axis=1)
    require_columns(table, _SPROUSE_COLUMNS, str(path))
    table = table[_SPROUSE_COLUMNS].set_axis(["bad_id", "bad", "good_id", "good"], axis=1)
    return table.dropna().assign(
        bad_id=_plain_ids(table["bad_id"]), good_id=_plain_ids(table["good_id"])
    )


def _plain_ids(ids: pd.Series) -> pd.Series:
    """Remove spaces and upper case from sentence ids, in which the files of the data set differ."""
    return ids.astype("str").str.replace(r"\s", "", regex=True).str.lower()


def _read_sprouse_answers(path: Path) -> pd.DataFrame:
    """Read a CSV file of answers, skipping the lines of comments before its header."""
    lines = path.read_text("latin-1").splitlines()
    is_header = [line.startswith("participant,") for line in lines]
    text = "\n".join(lines[is_header.index(True) :])
    return pd.read_csv(io.StringIO(text), dtype={"item": str})


def read_sprouse2013_choices(files: _Files, shared: _Shared) -> Benchmark:
    """Read the forced choices between an acceptable and an unacceptable sentence.

    The file has two rows per choice, one for each sentence of the pair. Only the row of the
    unacceptable sentence is used.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    """
    answers = _read_sprouse_answers(files["FC.logistic.csv"])
    # Each choice has two rows, one per sentence. Use the row of the unacceptable ("bad") sentence,
    # in which `judgment` is 1 if it was chosen.
    bad = answers[~answers["item"].str.startswith("good.")].reset_index(drop=True)
    pairs = _read_sprouse_pairs(files).drop_duplicates("bad_id").set_index("bad_id")
    ids = _plain_ids(bad["item"])
    table = pd.DataFrame(
        {
            "participant": bad["participant"],
            "group": bad["survey"],
            "trial": bad["order"],
            "sentence_1": ids.map(pairs["bad"]),
            "sentence_2": ids.map(pairs["good"]),
            "rating": 1 - bad["judgment"],
            # The last number of an id counts the pairs of a phenomenon.
            "item": pd.factorize(ids.str.replace(r"\.\d+$", "", regex=True))[0] + 1,
            "expected": 2,
        }
    )
    table = table[ids.isin(pairs.index)]
    # A few pairs belong to two phenomena; use the first one.
    table["item"] = table.groupby(["sentence_1", "sentence_2"])["item"].transform("first")
    return ChoiceBenchmark(**shared, human=_finish_choices(table, first_code=0, second_code=1))


def read_sprouse2013_ratings(files: _Files, shared: _Shared, *, file: str) -> Benchmark:
    """Read ratings by Sprouse et al. (2013), which are z-scored within participants.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    file
        Name of the file with Likert ratings or magnitude estimates.
    """
    answers, pairs = _read_sprouse_answers(files[file]), _read_sprouse_pairs(files)
    # Texts of all sentences by their ids.
    ids = pd.concat([pairs["bad_id"], pairs["good_id"]])
    sentences = pd.concat([pairs["bad"], pairs["good"]]).set_axis(ids)
    item = _plain_ids(answers["item"])
    # Sentences that differ only in the last number of the id belong to one phenomenon (item).
    ratings = pd.DataFrame(
        {
            "participant": answers["participant"],
            "item": item.str.replace(r"\.\d+$", "", regex=True),
            "sentence": item.map(sentences[~sentences.index.duplicated()]),
            "rating": answers["zscores"],
        }
    ).dropna()
    return RatingBenchmark(**shared, ratings=ratings.drop_duplicates(["participant", "sentence"]))


def read_cola_labels(files: _Files, shared: _Shared) -> Benchmark:
    """Read sentences with acceptability labels from the Corpus of Linguistic Acceptability.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    """
    parts = {}
    for name in ("in_domain_train", "in_domain_valid", "out_of_domain_valid"):
        data = read_cola(files[f"{name}.tsv"])
        parts[name] = pd.DataFrame({"sentence": data.sentences, "label": data.labels})
    # Choose the threshold of scores on the training set, and evaluate on the other two.
    train, in_domain, out_of_domain = parts.values()
    development_sets = {"in domain": in_domain, "out of domain": out_of_domain}
    return LabelBenchmark(**shared, train=train, parts=development_sets)


def read_syntaxgym(
    files: _Files, shared: _Shared, *, models: Mapping[str, str], circuits: Mapping[str, str]
) -> Benchmark:
    """Read the test suites of SyntaxGym, with the accuracies of published models.

    A test suite contains sentences that test one grammatical phenomenon, and predictions about
    their surprisals. Only the first prediction is tested, as in the publication. The accuracy of a
    published model is the mean over networks of the same architecture and training set.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    models
        Mapping from the name of each published model in the file names to its full name.
    circuits
        Mapping from the name of each test suite to its circuit, a group of related phenomena.
    """
    suites = []
    for name in circuits:
        suite = read_suite(files[f"{name}.json"])
        # As in the publication, test only the first prediction (formula) of a suite.
        suites.append(Suite(suite.name, suite.formulas[:1], suite.cases))
    # Accuracies of published models, by test suite.
    accuracies = {}
    for file_name, model in models.items():
        path = files[f"syntaxgym_results_{file_name}.csv"]
        outcomes = read_table(path, ["suite", "correct"], cells="inferred")
        accuracies[model] = outcomes.groupby("suite")["correct"].mean()
    return SuiteBenchmark(
        **shared,
        suites=tuple(suites),
        circuits=circuits,
        accuracies=pd.DataFrame(accuracies).loc[list(circuits)],
    )


def read_devarda2024(files: _Files, shared: _Shared, *, models: Mapping[str, str]) -> Benchmark:
    """Read how predictable words are to humans and to published models (de Varda et al. 2024).

    Human measures are cloze probabilities (the proportion of participants who guess the word) and
    ratings. The file contains surprisals, which become log-probabilities. Words with punctuation
    are excluded.

    Parameters
    ----------
    files
        Local paths of the data set's files, by published file name.
    shared
        Keyword arguments of every benchmark: name, title, source and published results.
    models
        Mapping from each column of surprisals to the name of the published model.
    """
    number_columns = ["context_length", "rating_mean", "cloze_s", *models]
    # Cells are read as text, because one of the words is "None".
    columns = ["sentence", "word", *number_columns]
    words = read_table(files["all_measures.csv"], columns, cells="text")
    # Exclude words with punctuation.
    words = words[~words["word"].str.contains("[.,']", regex=True)].reset_index(drop=True)
    numbers = words[number_columns].astype(float)
    # Surprisals (-log p) become log-probabilities, so that all measures increase with the
    # predictability of the word.
    table = pd.DataFrame(
        {
            "sentence": words["sentence"],
            "position": numbers["context_length"].astype(int),
            "cloze": -numbers["cloze_s"],
            "rating": numbers["rating_mean"],
        }
    )
    return WordBenchmark(
        **shared,
        words=table,
        measures=("cloze", "rating"),
        log_probs=-numbers[list(models)].rename(columns=models),
        primary_measure=("all", "cloze"),
    )


#: Readers by the name that ``data_sets.toml`` uses.
READERS: dict[str, Callable[..., Benchmark]] = {
    reader.__name__.removeprefix("read_"): reader
    for reader in (
        *(read_golan2023_choices, read_blimp_pairs, read_blimp_choices, read_li_adger),
        *(read_lau2020, read_event_ratings, read_sprouse2013_choices, read_sprouse2013_ratings),
        *(read_cola_labels, read_syntaxgym, read_devarda2024),
    )
}
