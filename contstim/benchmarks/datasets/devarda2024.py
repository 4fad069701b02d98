"""de Varda et al. (2024): cloze probability and predictability of words in 205 sentences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.benchmarks.datasets.dataset import DataSet, github_files
from contstim.errors import InputError
from contstim.tables import read_table

if TYPE_CHECKING:
    from contstim.benchmarks import Benchmark

_REPOSITORY = "Andrea-de-Varda/prediction-resource"
_COMMIT = "7162734da00a9a3c81d5ebaec65bdf6d59e931fc"
_WORDS = "all_measures.csv"
# The published models: each column's, and what they are called here.
_MODELS = {
    "s_GPT2": "GPT-2, 124M",
    "s_GPT2_medium": "GPT-2, 355M",
    "s_GPT2_large": "GPT-2, 774M",
    "s_GPT2_xl": "GPT-2, 1.5B",
    "s_GPTNeo_125M": "GPT-Neo, 125M",
    "s_GPTNeo": "GPT-Neo, 1.3B",
    "s_GPTNeo_2.7B": "GPT-Neo, 2.7B",
    "rnn": "RNN",
    "psg": "PSG",
    "bigram": "bigram",
    "trigram": "trigram",
    "tetragram": "tetragram",
}
#: Correlations of surprisals with mean ratings and with minus the logarithm of cloze probability,
#: in the order of the models above.
_PUBLISHED = (
    (-0.64217, 0.69991),
    (-0.66245, 0.70837),
    (-0.68932, 0.73332),
    (-0.69827, 0.74447),
    (-0.65903, 0.70114),
    (-0.67921, 0.71920),
    (-0.68578, 0.73389),
    (-0.58435, 0.57033),
    (-0.60722, 0.59982),
    (-0.61277, 0.60088),
    (-0.64952, 0.63512),
    (-0.65726, 0.64010),
)


def _words(folder: Path) -> pd.DataFrame:
    path = folder / _WORDS
    columns = ["sentence", "word", "context_length", "rating_mean", "cloze_s", *_MODELS]
    table = read_table(path, columns, cells="text")  # a word is None
    for column in columns[2:]:
        try:
            table[column] = table[column].astype(float)
        except ValueError as error:
            raise InputError(f"{path} has a {column} that is not a number ({error})") from None
    return table


def _predictability(folder: Path) -> Benchmark:
    """Read the words without punctuation and clitics, which the publication leaves out."""
    from contstim.benchmarks import FIGURE_COLUMNS
    from contstim.benchmarks.words import WordBenchmark

    words = _words(folder)
    words = words[~words["word"].str.contains("[.,']", regex=True)].reset_index(drop=True)
    position = words["context_length"].astype(int)
    rows = [
        ("all", measure, model, "value", abs(value), "supplementary_materials/df_corr.csv")
        for model, values in zip(_MODELS.values(), _PUBLISHED, strict=True)
        for measure, value in zip(("rating", "cloze"), values, strict=True)
    ]
    return WordBenchmark(
        name="devarda2024/words",
        title="How well people foresee 1,487 words of 205 sentences",
        source="de Varda et al. (2024)",
        words=words.assign(position=position, log_cloze=-words["cloze_s"]),
        measures={"cloze": "log_cloze", "rating": "rating_mean"},
        labels={
            "cloze": "correlation with the logarithm of cloze probability",
            "rating": "correlation with rated predictability",
        },
        surprisals=words[list(_MODELS)].rename(columns=_MODELS),
        headline=("all", "cloze"),
        figures=pd.DataFrame(rows, columns=list(FIGURE_COLUMNS)),
    )


DEVARDA2024 = DataSet(
    name="devarda2024",
    title="cloze probability and rated predictability of the words of 205 sentences",
    citation=(
        "de Varda AG, Marelli M, Amenta S (2024). Cloze probability, predictability ratings, and "
        "computational estimates for 205 English sentences, aligned with existing EEG and reading "
        "time data. Behavior Research Methods 56, doi 10.3758/s13428-023-02261-8"
    ),
    licence="none stated",
    terms=(
        "Do not pass the files on. Whoever uses the reading times and EEG in them cites Frank et "
        "al. (2013, 2015)."
    ),
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            _WORDS: (
                "sha256:db3ccd106220e1e3d7d64871b5f7c05a9d159ef4cb639f985b792d559686f7f6",
                1_302_943,
            ),
        },
    ),
    benchmarks={"words": _predictability},
    tables={"words": _words},
)
