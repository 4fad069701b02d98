"""Suites that are judged by their own rules: CoLA and SyntaxGym."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from contstim.benchmarks.datasets.dataset import DataSet, github_files
from contstim.tables import read_table
from contstim.text.cola import read_cola

if TYPE_CHECKING:
    from contstim.benchmarks import Benchmark

_COLA, _COLA_COMMIT = "alexwarstadt/acceptability", "d1ba9fb86fc11362d8ecadad8405b9b83943bc7b"
_RAW = "acceptability_corpus/raw/{}.tsv"
_PARTS = ("in_domain_train", "in_domain_valid", "out_of_domain_valid")
_GYM, _GYM_COMMIT = "cpllab/syntactic-generalization", "43f1f86b746254406dafc89bd17b9d4976607ef6"
_SUITE = "test_suites/json/{}.json"
_ANSWERS = "data/raw/sg_results/syntaxgym_results_{}.csv"
# The publication's models: each file's, and what they are called here.
_MODELS = {
    "gpt-2-pretrained_": "GPT-2",
    "gpt-2-xl-pretrained_": "GPT-2-XL",
    "transformer-xl_": "Transformer-XL",
    "grnn_": "GRNN",
    "jrnn_": "JRNN",
    "gpt-2_bllip-lg-gptbpe": "GPT-2, BLLIP-LG",
    "vanilla_bllip-lg": "LSTM, BLLIP-LG",
}
_RESULTS = {
    "gpt-2-pretrained_": (
        "sha256:2abc9cd1d16712ffef7e1a4b635b3fec1ea509d9df0d090ac351b72d26433a42",
        34_582,
    ),
    "gpt-2-xl-pretrained_": (
        "sha256:4a6057cb89ce64e4425a3ada7a1975180d7d272f8c57907177419b5af611c041",
        37_063,
    ),
    "transformer-xl_": (
        "sha256:39f7065be9e2d152b74189c1c4b4cc705f41f60e2b728aebf49f572b981a8e96",
        33_101,
    ),
    "grnn_": ("sha256:c2aa594a9c10be635be3c828fb486d71591d76995143052a6bce2ae86dac4902", 24_698),
    "jrnn_": ("sha256:bbfa979a0f51c3709d92421b0a7094d3910f308af540b23992b52c1351562a8e", 24_643),
    "gpt-2_bllip-lg-gptbpe": (
        "sha256:ffa4b9ba95cb38a49ddc0aed517b760513301455c4a40b49344af0e8caf8b742",
        45_556,
    ),
    "vanilla_bllip-lg": (
        "sha256:37acec671139b1af5f59190c3560ce4abdee409c667b12abf3d0993418ef8675",
        109_792,
    ),
}
# What suites are of, by what their names begin with.
_CIRCUITS = {
    "npi": "Licensing",
    "reflexive": "Licensing",
    "fgd": "Long-Distance Dependencies",
    "cleft": "Long-Distance Dependencies",
    "number": "Agreement",
    "npz": "Garden-Path Effects",
    "mvrr": "Garden-Path Effects",
    "subordination": "Gross Syntactic State",
    "center": "Center Embedding",
}
# What the notebook prints of the GPT-2 that was trained on BLLIP-LG.
_FIGURES = {
    "Agreement": 0.701754,
    "Center Embedding": 0.910714,
    "Garden-Path Effects": 0.855159,
    "Gross Syntactic State": 0.967391,
    "Licensing": 0.586842,
}
_SUITES = {
    "center_embed": (
        "sha256:cc8b60e34eff4ec723a295d0378af07cceaf9bdccddd5a9508a1284e40d3390c",
        68_895,
    ),
    "center_embed_mod": (
        "sha256:9688aebd2c4a8ff68ca25873fb9039304e3c70996488b74ffb69681dd236e8d7",
        78_070,
    ),
    "cleft": ("sha256:b6e19bedec743fc8af079638d145e4af224efa4d671e403d2d7ff4a395d10713", 169_883),
    "cleft_modifier": (
        "sha256:d9823123e538ea8d3150c7f584881e1e7137339e9a136077d033c7cd5ae4f2a3",
        199_953,
    ),
    "fgd-embed3": (
        "sha256:35db2d0535f2b4f896157149b3aa625e5fd08694480b4978fcc31a34156462ba",
        108_837,
    ),
    "fgd-embed4": (
        "sha256:6933e47b9bc5e0635412bfa3dc89d44b34889e73f780f615ba6575dd069ab20b",
        110_548,
    ),
    "fgd_hierarchy": (
        "sha256:ed5ddf73c04fc0bf577f6fcd4aef62b660b01c4fecb5b69216b1164128924693",
        224_609,
    ),
    "fgd_object": (
        "sha256:64045162cd8158f07bcf9efc9b2ba9ad60324009f71bae8d58bb9a841e72eee5",
        133_880,
    ),
    "fgd_pp": ("sha256:8baa56588f01f9807d465d910159ad0c89829a211088de88d8a9d2cb4df574ff", 133_709),
    "fgd_subject": (
        "sha256:bb641e69be1e4ad4d4077ceeb5fd86c87fcd1df69795b8654702bf7746386746",
        133_832,
    ),
    "mvrr": ("sha256:5201adc7f9019caffc0bc54ca2d71db601f187d5a0dce55df0e90fd5592b2581", 123_524),
    "mvrr_mod": (
        "sha256:e6f7cea18cd1b5d22faaae0f2f9a08fecab53665dfc2926fabb1c6841637d2d2",
        141_633,
    ),
    "nn-nv-rpl": ("sha256:7b06181fe8aa7cc6d3c3a224485b3023be2be638ca2ae16ef2dc1ee2c74d4dec", 4_246),
    "npi_orc_any": (
        "sha256:96f6bd4ab779633f4837132d2a17d89568e46b154a7052636da208ac360f7685",
        228_769,
    ),
    "npi_orc_ever": (
        "sha256:7c69bb7c2d01df8107a650703ab12dfb900a09afb2d8e9c54da8ac82eaefd99d",
        228_557,
    ),
    "npi_src_any": (
        "sha256:3ce002cc8a88beb0012dba511fff56edb60c58b5934275dbf4f8d36274505f75",
        228_760,
    ),
    "npi_src_ever": (
        "sha256:cd7735f62dc7a301e0c48c825fb93b1824add388c7337954971f7da4bc2523f2",
        228_557,
    ),
    "npz_ambig": (
        "sha256:2b46dd51f5985e62527e59e7f536656e28f462e33de9e3459cd635f73d5ca5e3",
        104_837,
    ),
    "npz_ambig_mod": (
        "sha256:3cac79834de52d9cc4ff9b3ab0c8c8160cd9d602f1be2e503b6b622a4a2a582a",
        120_603,
    ),
    "npz_obj": ("sha256:6852eddee888fce984dbe7734f90bfccd185e8b4d11affb8141434d5362b5cb6", 105_377),
    "npz_obj_mod": (
        "sha256:2c7d32dbf0167750510b6d7c30788665537210246024b30d9aa6545228ecb3bc",
        121_149,
    ),
    "number_orc": (
        "sha256:b5c96cb8ed8306cc2c90f3bb65a4ba1c4d27c004bdb34855bfc7ec2973c934ac",
        103_660,
    ),
    "number_prep": (
        "sha256:5c6a54fa244df2962b0700a2a6d6e03b8c0db8a1482cccfe64d16d01f8b3eeca",
        92_583,
    ),
    "number_src": (
        "sha256:8c3a1db336d275fe7d10dac418450f83fc40c5456e94beb3a547ce314753f6df",
        103_660,
    ),
    "reflexive_orc_fem": (
        "sha256:d18ce6a3a970b1356721ed8415e400b89020b5e0d76a3017d6be28689404b7b7",
        103_872,
    ),
    "reflexive_orc_masc": (
        "sha256:03d31c93a4225e94decf38fe0c28cd01e869da2f209ae1ef7fb1d5c310323e7c",
        103_845,
    ),
    "reflexive_prep_fem": (
        "sha256:e192369294f0780b1133349ec3d9a75532b0bce310ae50ddab9b2e2d394137e9",
        92_927,
    ),
    "reflexive_prep_masc": (
        "sha256:81934e17431b72a553ab3a501471cb0b0eaa101ca7f78799abc48905a21f16ca",
        92_936,
    ),
    "reflexive_src_fem": (
        "sha256:4e821bfd260762d996a72989fa350e64802e4f22e2188c0d5f58abcce2160a58",
        103_844,
    ),
    "reflexive_src_masc": (
        "sha256:645ef6786dc63433c407de9d0085233df3b212579bef7b04f6e20493d37ec312",
        103_845,
    ),
    "subordination": (
        "sha256:065fc960d7346cd96f152c389c36816bf330b415661319e7dc6022ff610855b4",
        60_306,
    ),
    "subordination_orc-orc": (
        "sha256:91232f6eb5247b5fdccb399af642eb86411e099db2ba91b45b434401326a3497",
        92_607,
    ),
    "subordination_pp-pp": (
        "sha256:e9eb380ba720048c4b6a503c23ccef2680db55bdd4093b41afb0d281ae0bb912",
        92_423,
    ),
    "subordination_src-src": (
        "sha256:f0b84b08402fbde49b9e2ae07db0a3e663ff149a4dcffc4c8c931ef8bbc843a5",
        92_541,
    ),
}


def _cola(folder: Path) -> Benchmark:
    from contstim.benchmarks.labels import LabelBenchmark

    train, *parts = (read_cola(folder / _RAW.format(part)) for part in _PARTS)
    return LabelBenchmark(
        name="cola/dev",
        title="1,043 sentences labelled by linguists, half of them from books of their own",
        source="Warstadt et al. (2019)",
        train=train,
        parts=dict(zip(("in domain", "out of domain"), parts, strict=True)),
    )


def _part(folder: Path, part: str) -> pd.DataFrame:
    data = read_cola(folder / _RAW.format(part))
    return pd.DataFrame({"sentence": list(data.sentences), "label": list(data.labels)})


COLA = DataSet(
    name="cola",
    title="the corpus of linguistic acceptability: sentences labelled by linguists",
    citation=(
        "Warstadt A, Singh A, Bowman SR (2019). Neural network acceptability judgments. TACL 7, "
        "625-641, doi 10.1162/tacl_a_00290"
    ),
    licence="research use",
    terms="The sentences are quoted from published works; do not pass them on.",
    source=f"https://github.com/{_COLA}/tree/{_COLA_COMMIT}",
    files=github_files(
        _COLA,
        _COLA_COMMIT,
        {
            _RAW.format("in_domain_train"): (
                "sha256:cb368ebeb9f27d7ad03720d27ddc95687a311bdb100781a2fe59a5f5b1bc0624",
                428_590,
            ),
            _RAW.format("in_domain_valid"): (
                "sha256:c99caeee2fc18872dc2e82253dd7fb70964d2f9774972d49ad74de74f28e1781",
                25_958,
            ),
            _RAW.format("out_of_domain_valid"): (
                "sha256:201b9c57b2a20f1282242eec0ed8995729e3be19c29a46c047b3727338836c05",
                27_754,
            ),
        },
    ),
    benchmarks={"dev": _cola},
    tables={part: partial(_part, part=part) for part in _PARTS},
    missing="The labels of its test sets were never published.",
)


def _circuit(suite: str) -> str | None:
    """Return what a suite is of, None of those that the publication's analyses leave out."""
    left_out = suite.startswith(("fgd-embed", "nn-nv"))
    return None if left_out else _CIRCUITS[re.split("[-_]", suite)[0]]


def _published(folder: Path, suites: Collection[str]) -> pd.DataFrame:
    """Return the accuracies of published models by suite, the mean of those trained alike."""
    columns = {}
    for name, model in _MODELS.items():
        answers = read_table(folder / _ANSWERS.format(name), ["suite", "correct"], cells="guessed")
        columns[model] = answers.groupby("suite")["correct"].mean()
    return pd.DataFrame(columns).loc[list(suites)]


def _gym(folder: Path) -> Benchmark:
    from contstim.benchmarks.syntaxgym import read_suites
    from contstim.benchmarks.words import SuiteBenchmark

    circuits = {name: kind for name in _SUITES if (kind := _circuit(name)) is not None}
    suites = (read_suites(folder / _SUITE.format(name))[0] for name in circuits)
    # One suite has a second prediction, that surprisals are equal, which no network meets: by the
    # published answers it was not asked for.
    asked = tuple(replace(suite, formulas=suite.formulas[:1]) for suite in suites)
    figures = pd.DataFrame({"analysis": list(_FIGURES), "value": list(_FIGURES.values())})
    what = {"measure": "accuracy", "model": "GPT-2, BLLIP-LG", "quantity": "value"}
    place = "Hu et al. (2020), notebooks/main.ipynb"
    return SuiteBenchmark(
        name="syntaxgym/suites",
        title="31 suites of predictions about the surprisal of regions, of six circuits",
        source="Hu et al. (2020)",
        suites=asked,
        circuits=circuits,
        accuracies=_published(folder, circuits),
        figures=figures.assign(**what, place=place),
    )


SYNTAXGYM = DataSet(
    name="syntaxgym",
    title="34 suites of predictions about the surprisal of regions",
    citation=(
        "Hu J, Gauthier J, Qian P, Wilcox E, Levy RP (2020). A systematic assessment of syntactic "
        "generalization in neural language models. ACL, 1725-1744, doi "
        "10.18653/v1/2020.acl-main.158"
    ),
    licence="MIT",
    terms="Whoever passes the files on keeps the notice and the licence's text with them.",
    source=f"https://github.com/{_GYM}/tree/{_GYM_COMMIT}",
    files=github_files(
        _GYM,
        _GYM_COMMIT,
        {_SUITE.format(name): facts for name, facts in _SUITES.items()}
        | {_ANSWERS.format(name): facts for name, facts in _RESULTS.items()},
    ),
    benchmarks={"suites": _gym},
    missing=(
        "Its publication leaves three of the suites out of its analyses, and so does the benchmark."
    ),
)
