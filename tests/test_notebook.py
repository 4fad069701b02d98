"""Representations of objects in notebooks, and calls that accept and return tables."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import contstim
from contstim import datasets
from contstim.text import highlight_changes

BIGRAM, TRIGRAM = "contstim:bigram", "contstim:trigram"


@pytest.fixture(scope="module")
def models() -> tuple[contstim.SentenceModel, contstim.SentenceModel]:
    return contstim.load_model(BIGRAM), contstim.load_model(TRIGRAM)


def test_highlight_changes_marks_differing_words() -> None:
    assert highlight_changes("a b c", "a x c") == "a <b>x</b> c"
    assert highlight_changes("a b c d", "a <i> & d") == "a <b>&lt;i&gt; &amp;</b> d"
    # Of other lengths: what was put in.
    assert highlight_changes("a b c", "a new b c") == "a <b>new</b> b c"
    assert highlight_changes("a b", "a b") == "a b"


def test_synthesize_triplets_returns_the_scores_of_its_models() -> None:
    table = contstim.synthesize_triplets(
        contstim.pool()[:2], [(contstim.load_model(BIGRAM), contstim.load_model(TRIGRAM))]
    )
    assert isinstance(table, pd.DataFrame)
    assert len(table) == 2
    # Models agree with the table when they score its sentences again.
    scores = contstim.score_sentences([*table["natural"], *table["synthetic_1"]], [BIGRAM, TRIGRAM])
    for kind in ("natural", "synthetic_1"):
        for k, spec in enumerate((BIGRAM, TRIGRAM), start=1):
            np.testing.assert_allclose(table[f"{kind}_lp_{k}"], scores.loc[table[kind], spec])


def test_evaluation_repr_shows_conclusion_and_figure() -> None:
    choices = datasets.simulated_choices()
    result = contstim.evaluate(choices, [TRIGRAM, datasets.FOLLOWED_MODEL])
    values = result.models.query("analysis == 'all' and measure == 'accuracy'")
    assert values.set_index("model")["value"].idxmax() == datasets.FOLLOWED_MODEL
    shown = result._repr_html_()
    assert shown.count("<svg") == 1
    assert f"{datasets.FOLLOWED_MODEL} predicts people best" in shown
    assert "<summary>models: " in shown
    assert len(repr(result)) < 700
    assert str(result).startswith(f"{datasets.FOLLOWED_MODEL} predicts people best")
    assert result.figure("no such analysis") is None


def test_model_repr_shows_name_and_unit(models: tuple[contstim.SentenceModel, ...]) -> None:
    shown = models[0]._repr_html_()
    assert "<b>contstim:bigram</b>" in shown
    assert "log-probability, nats" in shown


def test_package_docstring_names_the_main_functions() -> None:
    text = str(contstim.__doc__)
    for name in ("load_model", "synthesize_triplets", "design_trials", "evaluate", "datasets"):
        assert f"`{name}`" in text
        assert getattr(contstim, name) is not None


def test_import_loads_no_large_package() -> None:
    code = (
        "import contstim, sys; print([m for m in ('pandas', 'numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
