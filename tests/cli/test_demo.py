"""Test the demonstration with n-gram models, and the bundled tables.

Tests `contstim.cli.demonstration` and `contstim.cli.demo`.
"""

import html
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim import datasets
from contstim.cli import demonstration as demo
from contstim.cli import main
from contstim.models.registry import load_model
from contstim.synthesis.problem import MinScore


@pytest.fixture
def demo_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str, pd.DataFrame]:
    """Run the demonstration; return its printed text, page and triplets."""
    bound = MinScore("contstim:trigram", -1.0, natural=True)
    monkeypatch.setattr(demo, "PAIRS", demo.PAIRS[:1])
    monkeypatch.setattr(
        demo,
        "_REQUESTS",
        [demo.TripletRequest(demo.PAIRS[0], 1, limit, 1.0) for limit in (None, bound)],
    )
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("no terminal, no browser"))
    assert main(["demo", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text("utf-8")
    assert (tmp_path / "results" / "report.html").stat().st_size > 0
    return capsys.readouterr().out, page, pd.read_csv(tmp_path / "triplets.csv")


def test_demo_prints_and_shows_model_scores(
    demo_output: tuple[str, str, pd.DataFrame],
) -> None:
    out, page, triplets = demo_output
    assert len(triplets) == 2
    for row in triplets.itertuples():
        # The models order the two sentences oppositely, and the odds printed are theirs.
        for text, model, nats in (
            (row.synthetic_1, row.model_1, row.synthetic_1_lp_1 - row.synthetic_2_lp_1),
            (row.synthetic_2, row.model_2, row.synthetic_2_lp_2 - row.synthetic_1_lp_2),
        ):
            assert nats > 0
            found = re.findall(
                rf"{re.escape(text)}\n +(\S+) times as probable as sentence \d under {model}\n", out
            )
            told = [math.log(float(t.replace(",", "").replace("10^", "1e"))) for t in found]
            # Both may have led to one sentence, with another beside it.
            assert any(t == pytest.approx(nats, abs=math.log(10) / 2) for t in told)
            assert text in html.unescape(re.sub("</?b>", "", page))
    # The bigram may reject what the trigram accepts, but the floor kept the second one's score.
    kept = triplets.iloc[1]
    for sentence in ("synthetic_1", "synthetic_2"):
        assert kept[f"{sentence}_lp_2"] >= kept["natural_lp_2"] - 1
    # Readable sentences come first, what was searched for a word at a time last.
    first = datasets.readable_triplets()["synthetic_1"][0]
    order = (
        "more likely to be said",
        first,
        "<h2>Which model predicts",
        "<svg",
        "just now",
        "<h2>Next",
    )
    places = [page.index(text) for text in order]
    assert places == sorted(places)
    # Nothing is fetched from elsewhere: addresses are names of XML alone.
    assert not re.search(r"""(src|href|url\()\s*=?\s*["']?https?:""", page)
    for command in ("contstim synthesize", "contstim evaluate", "contstim sentences"):
        assert command in out
        assert command in page


def test_bundled_natural_scores_equal_model_scores() -> None:
    scores = datasets.natural_scores()
    assert len(scores) == 724
    few = scores.iloc[::60]
    for spec in ("contstim:bigram", "contstim:trigram", "contstim:lstm"):
        live = load_model(spec).score(list(few.index))
        np.testing.assert_allclose(few[spec], live, atol=1e-3)


def test_bundled_triplets_satisfy_their_constraints() -> None:
    table = datasets.readable_triplets()
    pairs = table.groupby(["model_1", "model_2"]).size()
    assert set(pairs.index) == set(demo.PAIRS)
    assert pairs.min() >= 17
    for k in (1, 2):
        accepted, rejected = f"synthetic_{k}_lp_{k}", f"synthetic_{3 - k}_lp_{k}"
        assert (table[accepted] >= table[f"natural_lp_{k}"] - 1e-3).all()
        assert (table[rejected] < table[f"natural_lp_{k}"]).all()


def test_simulated_participants_follow_the_stated_model() -> None:
    choices = datasets.simulated_choices()
    assert choices["participant"].nunique() == 30
    texts = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel()).tolist()
    share = {}
    for spec in ("contstim:trigram", datasets.FOLLOWED_MODEL):
        score = pd.Series(load_model(spec).score(texts), index=texts)
        second = score[choices["sentence_2"]].to_numpy() > score[choices["sentence_1"]].to_numpy()
        share[spec] = (second == (choices["rating"] > 0)).mean()
    assert share[datasets.FOLLOWED_MODEL] > 0.7 > share["contstim:trigram"]
