"""Golan et al. (2023): people's choices between controversial sentences, and the stimuli."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from contstim.benchmarks.datasets.dataset import DataSet, github_files
from contstim.tables import TRIPLETS, read_table

if TYPE_CHECKING:
    from contstim.benchmarks import Benchmark

_REPOSITORY = "dpmlab/contstimlang"
_COMMIT = "f5304aefa257d28358347a8f7456de529dfc23d2"
_SOURCE = f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}"
_CITATION = (
    "Golan T, Siegelman M, Kriegeskorte N, Baldassano C (2023). Testing the limits of natural "
    "language models for predicting human language judgements. Nature Machine Intelligence 5, "
    "952-964, doi 10.1038/s42256-023-00718-1"
)
_TERMS = (
    "Copyright (c) 2022 Dynamic Perception and Memory Lab; whoever passes the files on keeps that "
    "notice and the licence's text with them."
)
_EXP2 = "behavioral_results/contstim_Nov2022_30_participants_anon.csv"
_EXP1 = "behavioral_results/contstim_Aug2021_n100_results_anon.csv"
_SCORES = (
    "resources/precomputed_sentence_probabilities/natural_sentences_for_natural_controversial_"
    "sentence_pair_selection_probs_{}.npy"
)
_SYNTHESIZED = "synthesized_sentences/"
_TRIPLETS_1 = (
    f"{_SYNTHESIZED}20210224_controverisal_sentence_pairs_heuristic_natural_init_allow_rep/"
    "8_word_9_models_100_sentences_per_pair"
)
_TRIPLETS_2 = (
    f"{_SYNTHESIZED}202210_bidirectional_prob_calc_exp/controverisal_sentence_pairs_natural_"
    "initialization/8_word_6_models_95_sentences_per_pair"
)
_PAIRS = "natural_controversial_sentences/sents_reddit_natural_June2021_selected.csv"
_STARTS = (
    "resources/sentence_corpora/natural_sentences_for_synthetic_controversial_sentence_pair_"
    "optimization.txt"
)
_NATURAL_SCORES = {
    "bert": "59018015b57c0473d6b3350339a9825d9a136f39624d07af79b6ba9b8ba314be",
    "bigram": "8d9af79764b3bc169a465292b64b63200b471976f935209950162ee63f73a2f8",
    "electra": "caf5e1274c93a6a0cfd01507795fa070736abe817d91d40c1b125e9fb1363978",
    "gpt2": "6663cf889975d2bda8f218921517893b1e00fc7a03c1ce9a99b34e808e0a4804",
    "lstm": "bf4db488181f6b6d9938737269ab19497d93b935a7b58a182b43a987f7c5669a",
    "rnn": "01e49caaa18189c6fb9a32ba12b14f543ccc3dbd161760e1e19eb33d7610a595",
    "roberta": "7a5a839697329ba5e6c9e6fd174d849720793b2cd62b7f97d8d0c011219b6293",
    "trigram": "5ac7ba9ebd2f0382d71d3ffac4099f5e055237b8a88ee8e6aac1fa00172d5c08",
    "xlm": "7a6d4884dc73170f44547c166643236b151731a1958f41aa8d52a0d85dba8a65",
}

#: On the pairs made for the two estimates of a model: the value of the estimate over orders of
#: words, that of the PLL, and the lower and the upper noise ceiling, as the analysis code published
#: with the data computes them.
_TARGETED = {
    ("accuracy", "bert"): (0.820833, 0.179167, 0.862500, 0.862500),
    ("accuracy", "electra"): (0.905833, 0.094167, 0.905833, 0.905833),
    ("accuracy", "roberta"): (0.804167, 0.195833, 0.832500, 0.832500),
    ("signed_rank_cosine", "bert"): (0.603857, -0.508552, 0.698903, 0.730474),
    ("signed_rank_cosine", "electra"): (0.653296, -0.600224, 0.748692, 0.783388),
    ("signed_rank_cosine", "roberta"): (0.576621, -0.513184, 0.659187, 0.693375),
}


def _figures() -> pd.DataFrame:
    rows = []
    for (measure, model), (orders, pll, lower, upper) in _TARGETED.items():
        for name, value in ((model, orders), (f"{model}_has_a_mouth", pll)):
            numbers = {"value": value, "ceiling_lower": lower, "ceiling_upper": upper}
            rows += [("targeted", measure, name, q, number) for q, number in numbers.items()]
    table = pd.DataFrame(rows, columns=["analysis", "measure", "model", "quantity", "value"])
    return table.assign(place="Golan et al. (2023), Extended Data Fig. 5b, by the published code")


def _exp2(folder: Path) -> Benchmark:
    from contstim.benchmarks.choices import ChoiceBenchmark
    from contstim.evaluation.importers import read_choices

    return ChoiceBenchmark(
        name="golan2023/exp2",
        title="Pairs on which two estimates of one model's log-probability disagree, 30 people",
        source="Golan et al. (2023)",
        human=read_choices(folder / _EXP2, format="golan2023"),
        figures=_figures(),
    )


def _exp1(folder: Path) -> Benchmark:
    from contstim.benchmarks.choices import ChoiceBenchmark
    from contstim.evaluation.importers import read_choices

    return ChoiceBenchmark(
        name="golan2023/exp1",
        title="Natural and synthetic pairs on which two of nine models disagree, 100 people",
        source="Golan et al. (2023)",
        human=read_choices(folder / _EXP1, format="golan2023"),
    )


def _natural_scores(folder: Path) -> pd.DataFrame:
    """Read the log-probabilities of 231,725 natural sentences under nine models, nats."""
    arrays = {
        model: np.load(folder / _SCORES.format(model), allow_pickle=False).ravel()
        for model in _NATURAL_SCORES
    }
    return pd.DataFrame(arrays)


def _natural_sentences(folder: Path) -> pd.DataFrame:
    return pd.DataFrame({"sentence": (folder / _STARTS).read_text("utf-8").splitlines()})


def _natural_pairs(folder: Path) -> pd.DataFrame:
    """Read the selected natural pairs, sentence 1 being what model 1 accepts."""
    table = read_table(folder / _PAIRS, cells="guessed")
    swapped = {"sentence1": "sentence_2", "sentence2": "sentence_1"}
    return table.rename(columns=swapped)[["model_1", "model_2", "sentence_1", "sentence_2"]]


def _triplets(folder: Path, path: str) -> pd.DataFrame:
    """Read synthetic triplets, in the columns of `contstim.tables.TRIPLETS`."""
    table = read_table(folder / path, cells="guessed")
    names = {"m1": "model_1", "m2": "model_2", "N": "natural"}
    names |= {f"S{k}": f"synthetic_{k}" for k in (1, 2)}
    for k in (1, 2):
        names |= {f"lp_N_given_m{k}": f"natural_lp_{k}"}
        names |= {f"lp_S{i}_given_m{k}": f"synthetic_{i}_lp_{k}" for i in (1, 2)}
    return table.rename(columns=names)[list(TRIPLETS)]


# The repository's data sets have all but their files in common.
_published = partial(DataSet, citation=_CITATION, licence="MIT", terms=_TERMS, source=_SOURCE)

GOLAN2023 = _published(
    name="golan2023",
    title="choices between controversial synthetic sentences, second experiment (2022)",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            _EXP2: (
                "sha256:e1606c56e0cd5227459c5b321bbc0d281cde8a2515fabe50872e062964378b5e",
                1_727_546,
            )
        },
    ),
    benchmarks={"exp2": _exp2},
)

#: Its file is known by the commit's digest alone: what it holds was not tried here.
GOLAN2023_EXP1 = _published(
    name="golan2023-exp1",
    title="choices between controversial sentences, first experiment (2021)",
    files=github_files(
        _REPOSITORY, _COMMIT, {_EXP1: ("git:44e5e44a395eedbc82bec49b663f7b7918e4a987", None)}
    ),
    benchmarks={"exp1": _exp1},
)

GOLAN2023_STIMULI = _published(
    name="golan2023-stimuli",
    title="natural sentences' scores under nine models, and the sentences made and chosen",
    files=github_files(
        _REPOSITORY,
        _COMMIT,
        {
            _SCORES.format(m): (f"sha256:{digits}", 1_853_928)
            for m, digits in _NATURAL_SCORES.items()
        }
        | {
            _STARTS: (
                "sha256:bd3859b64c60b47733b2f6749184fc0230f5d9e99026268deb0c3b5182819533",
                254_590,
            ),
            _PAIRS: (
                "sha256:6f780c7c9bd43dfe86cfaf6d1dc050ac37d2e319dc0b7ddcc5cbddc849d4dc3e",
                66_148,
            ),
            f"{_TRIPLETS_1}.csv": (
                "sha256:c5d099c1f1a17528f91dc8aadafcf561c4c88ffd809dc06ea6c176e4f23ad0ba",
                1_155_730,
            ),
            f"{_TRIPLETS_1}_best10.csv": (
                "sha256:ac9d6488f1a3861dac5edfaca0953a6dcdbb857a9e2ee6fe853f1a2223962f63",
                116_356,
            ),
            f"{_TRIPLETS_2}.csv": (
                "sha256:cba00ffa4817db435003b8ff0497f74c4350d54137420441a76e307545d807f4",
                101_529,
            ),
            f"{_TRIPLETS_2}_best40.csv": (
                "sha256:714be4cf720857d632612d80b7d36ba40de4db1345814893f4e34f362a777459",
                43_235,
            ),
        },
    ),
    tables={
        "natural_scores": _natural_scores,
        "natural_pairs": _natural_pairs,
        "start_sentences": _natural_sentences,
        "triplets_exp1": partial(_triplets, path=f"{_TRIPLETS_1}.csv"),
        "chosen_triplets_exp1": partial(_triplets, path=f"{_TRIPLETS_1}_best10.csv"),
        "triplets_exp2": partial(_triplets, path=f"{_TRIPLETS_2}.csv"),
        "chosen_triplets_exp2": partial(_triplets, path=f"{_TRIPLETS_2}_best40.csv"),
    },
)
