"""The readers of Golan et al.'s files, on made files in their columns.

Of `contstim.benchmarks.datasets.golan2023`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from contstim.benchmarks.datasets import DATA_SETS, FetchedData, golan2023
from contstim.tables import TRIPLETS


@pytest.fixture
def folder(tmp_path):
    def put(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    rows = []
    for subject in range(4):
        for trial in range(6):
            codes = ("resp2", "resp5") if trial % 2 else ("resp5", "resp1")
            first, second = (f"Able {trial}", f"Zed {trial}")
            scores = (-2, -9, -8, -3)
            kinds = ("S1", "S2", "bert", "bert_has_a_mouth")
            rows.append((subject, trial, codes[subject % 2], 900, first, second, *kinds, *scores))
    columns = ["subject", "Trial Number", "Zone Name", "Reaction Time", "sentence1", "sentence2"]
    columns += ["sentence1_type", "sentence2_type", "sentence1_model", "sentence2_model"]
    columns += [f"sentence{s}_{m}_prob" for m in ("bert", "bert_has_a_mouth") for s in (1, 2)]
    for path in (golan2023._EXP1, golan2023._EXP2):
        put(path, pd.DataFrame(rows, columns=columns).to_csv(index=False))
    for number, model in enumerate(golan2023._NATURAL_SCORES):
        path = tmp_path / golan2023._SCORES.format(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.array([-1.5, -np.inf]) - number)
    put(golan2023._STARTS, "He left.\nShe stayed.\n")
    put(golan2023._PAIRS, ",sentence1,sentence2,model_1,model_2\n0,Rejected,Accepted,gpt2,rnn\n")
    names = "m1,m2,N,S1,S2,lp_N_given_m1,lp_S1_given_m1,lp_N_given_m2,lp_S1_given_m2"
    text = f"{names},lp_S2_given_m2,lp_S2_given_m1\ngpt2,rnn,N n,S s,T t,-1,-2,-3,-4,-5,-6\n"
    for path in (golan2023._TRIPLETS_1, golan2023._TRIPLETS_2):
        for ending in (".csv", "_best10.csv", "_best40.csv"):
            put(f"{path}{ending}", text)
    return tmp_path


def test_the_benchmarks(folder):
    second = FetchedData(DATA_SETS["golan2023"], folder).benchmark()
    judged = second.judge()
    assert set(judged.results["model"]) >= {"bert", "bert_has_a_mouth"}
    compared = second.compared(judged.results)
    assert len(compared) == 36
    assert compared.loc[compared["model"].str.startswith("bert"), "here"].notna().all()
    first = FetchedData(DATA_SETS["golan2023-exp1"], folder).benchmark("exp1")
    assert len(first.sentences) == 12
    assert first.figures.empty


def test_the_tables(folder):
    data = FetchedData(DATA_SETS["golan2023-stimuli"], folder)
    scores = data.table("natural_scores")
    assert scores.shape == (2, 9)
    assert scores["bert"].tolist() == [-1.5, -np.inf]
    assert data.table("start_sentences")["sentence"].tolist() == ["He left.", "She stayed."]
    pair = data.table("natural_pairs").iloc[0]
    assert (pair["model_1"], pair["sentence_1"]) == ("gpt2", "Accepted")
    for name in ("triplets_exp1", "chosen_triplets_exp1", "triplets_exp2", "chosen_triplets_exp2"):
        triplets = data.table(name)
        assert list(triplets) == list(TRIPLETS)
        expected = {"natural_lp_2": -3, "synthetic_1_lp_2": -4, "synthetic_2_lp_1": -6}
        assert triplets.iloc[0][list(expected)].to_dict() == expected
