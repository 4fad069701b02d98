"""Test the report of an evaluation: page, figure and files.

Tests `contstim.evaluation.report`, `contstim.evaluation.figure`, `contstim.evaluation.methods`,
`contstim.page` and `contstim.drawing`.
"""

import html
import re
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.drawing import (
    create_axes,
    prepare_axes,
    render_svg,
    save_figure,
    shorten_name,
    shorten_names,
)
from contstim.errors import InputError, OutputError
from contstim.evaluation import Analysis, ExclusionRules, evaluate
from contstim.evaluation.figure import dominance, model_figure
from contstim.evaluation.methods import methods_paragraphs
from contstim.evaluation.summary import summarize
from contstim.page import Page


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(0)
    truth = rng.choice([-1, 1], size=16) * (0.4 + rng.random(16))
    rows = [
        {
            "participant": f"s{i}",
            "condition": "catch" if p < 4 else "main",
            "sentence_1": f"First <{p}> & co",
            "sentence_2": f"Second {p}",
            "model_1": np.nan if p < 4 else "good",
            "model_2": np.nan if p < 4 else "bad",
            "rating": float(np.sign(truth[p] + 0.3 * rng.normal()) * rng.choice([0.5, 1.5, 2.5])),
            "expected": (2.0 if truth[p] > 0 else 1.0) if p < 4 else np.nan,
            "rt_ms": 1000.0,
        }
        for i in range(14)
        for p in range(16)
    ]
    values = {
        "good": truth,
        "fair": truth + 1.5 * rng.normal(size=16),
        "bad": -truth,
    }
    scores = pd.DataFrame(
        [
            {"sentence": text, "model": model, "log_prob": lp, "n_tokens": tokens}
            for p in range(16)
            for model, v in values.items()
            for text, lp, tokens in (
                (f"First <{p}> & co", -30.0, 8),
                (f"Second {p}", -30 + v[p], 7 + p % 3),
            )
        ]
    )
    return pd.DataFrame(rows), scores


@pytest.fixture(scope="module")
def evaluation(study):
    choices, scores = study
    rules = ExclusionRules(min_catch_correct=0.9)
    return evaluate(choices, scores, exclusions=rules)


def test_the_report_states_the_event_of_each_model(tmp_path, study):
    choices, scores = study
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("\n".join(scores["sentence"].unique()), "utf-8")
    models = ["contstim:trigram?unknown=unk", "mean=contstim:trigram?unknown=unk&reduction=mean"]
    command = ["score", str(sentences), "--out", str(tmp_path / "scores.csv")]
    assert main([*command, *(f"--model={model}" for model in models)]) == 0
    sources = {
        "table": pd.read_csv(tmp_path / "scores.csv"),
        "models": {"one": models[0], "mean": models[1].partition("=")[2]},
    }
    for name, source in sources.items():
        page = evaluate(choices, source).report(tmp_path / name).read_text("utf-8")
        rows = [row for row in page.split("<tr") if "metric chain, reduction" in row]
        assert len(rows) == 2, name
        for row in rows:
            assert ("reduction mean" in row) == (">mean<" in row), name


def select_rows(evaluation, analysis="all", measure="accuracy"):
    tables = (evaluation.models, evaluation.comparisons, evaluation.details.participants)
    return [t[(t["analysis"] == analysis) & (t["measure"] == measure)] for t in tables]


def test_model_figure_shows_each_model_best_first(evaluation):
    models, comparisons, people = select_rows(evaluation)
    ax = model_figure(models, comparisons, people, label="accuracy of predicting choices")
    order = models.sort_values("value", ascending=False)["model"].tolist()
    assert order[0] == "good"
    assert [label.get_text() for label in ax.get_yticklabels()] == order
    assert ax.get_xlabel() == "accuracy of predicting choices"
    drawn = {artist.get_gid(): artist for artist in (*ax.lines, *ax.collections)}
    for place, row in enumerate(models.set_index("model").loc[order].itertuples()):
        model, y = row.Index, place
        assert drawn[f"mean-{model}"].get_xydata() == pytest.approx(np.array([[row.value, y]]))
        ends = drawn[f"interval-{model}"].get_xydata()
        assert ends == pytest.approx(np.array([[row.ci_low, y], [row.ci_high, y]]))
        dots = drawn[f"units-{model}"]
        assert sorted(dots.get_xdata()) == sorted(people.loc[people["model"] == model, "value"])
        # Dots lie beside their own row, none hides another, and none is on the next row.
        assert (np.abs(dots.get_ydata() - y) < 0.4).all()
        assert len(np.unique(dots.get_xydata().round(9), axis=0)) == len(dots.get_xdata())
        band = drawn[f"ceiling-{model}"].get_paths()[0].get_extents()
        assert (band.x0, band.x1) == pytest.approx(sorted((row.ceiling_lower, row.ceiling_upper)))
        assert (band.y0, band.y1) == pytest.approx((y - 0.4, y + 0.4))
    stars = [text for text in ax.texts if text.get_text() == "*"]
    below = (models["q_ceiling"] < 0.05) & (models["value"] < models["ceiling_lower"])
    assert len(stars) == below.sum() > 0
    beats = dominance(comparisons, order)
    filled = [line for line in ax.lines if str(line.get_gid()).startswith("winner-")]
    opened = [line for line in ax.lines if str(line.get_gid()).startswith("beaten-by-")]
    assert len(filled) == beats["model"].nunique()
    assert sum(len(line.get_xdata()) for line in opened) == len(beats)


def test_dominance_by_hand():
    comparisons = pd.DataFrame(
        {
            "model_1": ["a", "a", "b"],
            "model_2": ["b", "c", "c"],
            "difference": [-0.1, 0.2, 0.3],
            "q": [0.01, 0.2, 0.001],
        }
    )
    table = dominance(comparisons, ["b", "a", "c"])
    assert table.to_numpy().tolist() == [["b", "a"], ["b", "c"]]
    assert dominance(comparisons.assign(q=np.nan), ["b", "a", "c"]).empty


def test_figure_uses_given_or_new_axes(evaluation):
    figure, (own, other) = plt.subplots(1, 2, figsize=(9, 3))
    assert evaluation.figure(ax=own) is own
    assert own.has_data()
    assert not other.has_data()
    assert figure.get_size_inches().tolist() == [9, 3]
    new = evaluation.figure()
    assert len(plt.get_fignums()) == 2  # shown by a notebook
    (alone,) = create_axes()
    assert evaluation.figure(ax=alone) is alone
    assert len(plt.get_fignums()) == 2  # made without pyplot
    same = new.figure.get_size_inches().tolist()
    assert alone.figure.get_size_inches().tolist() == same
    with pytest.raises(InputError, match="the figure needs 1 axes, got 2"):
        prepare_axes([own, other], 3, 3)


def test_report_page_contains_all_sections(evaluation, tmp_path):
    path = evaluation.report(tmp_path / "out")
    page = html.unescape(path.read_text(encoding="utf-8"))
    n, out = evaluation.summary.n_participants, 14 - evaluation.summary.n_participants
    assert out > 0
    first, *rest = summarize(evaluation)
    texts = (
        f"Analysed: {n} participants, {16 * n} choices on 16 sentence pairs.",
        "Excluded: catch trials (",
        f" choices of {out} participant",
        first,
        " ".join(rest),
        "<svg",
        "<h2>Models (all; 95 % intervals)</h2>",
        "<h2>Comparisons (all)</h2>",
        "<h2>Other analyses and conditions</h2>",
        "<h2>Exclusions</h2>",
        "<h2>Methods</h2>",
        f"{n} participants in 1 group made {16 * n} choices on 16 sentence pairs",
        "closed form (Golan et al. 2023, Eq. 8 to 11)",
        "treat participants and items as random",
        "Benjamini-Hochberg",
        f"scipy {evaluation.provenance.versions['scipy']}",
    )
    places = [page.index(text) for text in texts]
    assert places == sorted(places)
    assert not re.search(r'(src|href)="https?:', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for used in re.findall(r"url\(#([^)]+)\)", page):
        assert used in ids
    for ending, start in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        assert (tmp_path / "out" / f"figure.{ending}").read_bytes().startswith(start)
    for name in ("models", "comparisons", "excluded"):
        assert (tmp_path / "out" / f"{name}.csv").stat().st_size > 0


def test_report_page_shows_models_and_comparisons(evaluation, tmp_path):
    page = evaluation.report(tmp_path).read_text(encoding="utf-8")
    models, comparisons, _ = select_rows(evaluation)
    shown = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in page.split("<tr>")]
    for row in models.itertuples():
        value = f"{row.value:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]"
        ceiling = f"{row.ceiling_lower:.3f} to {row.ceiling_upper:.3f}"
        assert ["accuracy", row.model, value, ceiling] in [cells[:4] for cells in shown]
    for row in comparisons.itertuples():
        value = f"{row.difference:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]"
        assert ["accuracy", row.model_1, row.model_2, value] in [cells[:4] for cells in shown]


@pytest.mark.parametrize(("test", "stars"), [("crossed", 0), ("exact", 1)])
def test_figure_stars_follow_the_ceiling_test(evaluation, test, stars):
    models, comparisons, people = select_rows(evaluation)
    # The means are above, the ranks below.
    models = models.iloc[:1].assign(q_ceiling=0.01, effect_ceiling=-0.2, test=test)
    models = models.assign(ceiling_lower=models["value"] - 0.1)
    ax = model_figure(models, comparisons, people)
    assert [text.get_text() for text in ax.texts].count("*") == stars
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend.count("below the ceiling") == stars


def test_methods_text_of_signed_rank_inference(study, tmp_path):
    choices, scores = study
    result = evaluate(choices, scores, inference="signed-rank", n_bootstrap=20)
    page = result.report(tmp_path).read_text(encoding="utf-8")
    assert "Wilcoxon signed-rank tests across groups (participants if there are fewer" in page
    assert "20 bootstrap samples of participants and pairs" in page


def test_methods_text_names_changed_preset_options(study):
    for changes, text in [
        ({}, "Preset 'default';"),
        ({"seed": 3}, "Preset 'default'; seed 3;"),
        ({"min_others": 2}, "Preset 'default' with changes in min_others;"),
        ({"preset": "golan2023"}, "Preset 'golan2023';"),
        ({"preset": "golan2023", "fdr": "all"}, "Preset 'golan2023' with changes in fdr;"),
    ]:
        assert text in methods_paragraphs(evaluate(*study, **changes))[-1]


def test_methods_text_names_the_jackknife_of_each_measure(study):
    choices, scores = study
    jackknives = {"signed_rank_cosine": "infinitesimal", "speed": "delete-one"}
    for measures in (("accuracy",), ("signed_rank_cosine",), ("speed", "accuracy")):
        result = evaluate(
            choices.assign(rt_ms=range(1, 1 + len(choices))), scores, measures=measures
        )
        text = " ".join(methods_paragraphs(result))
        assert "quasi-F tests that treat participants and items as random (Clark 1973)" in text
        for measure, jackknife in jackknives.items():
            assert (f"{jackknife} jackknife" in text) == (measure in measures)


def test_figures_are_valid_svg_and_reproducible(evaluation):
    one, two = (render_svg(model_figure(*select_rows(evaluation))) for _ in range(2))
    assert one == two
    words = "".join(ElementTree.fromstring(one).itertext())
    assert "good" in words  # text stays text


def test_report_without_models_and_unwritable_outputs(study, tmp_path):
    choices, _ = study
    page = evaluate(choices).report(tmp_path / "a").read_text(encoding="utf-8")
    assert "No model was evaluated: no scores of models were given." in page
    assert "Nothing was excluded." in page
    assert "<th>ceiling lower</th>" in page
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(OutputError, match=r"cannot write .*models.csv"):
        evaluate(choices).report(blocked / "sub")
    with pytest.raises(OutputError, match=r"cannot write .*x.png: Not a directory"):
        save_figure(create_axes()[0], blocked / "x.png")


def test_report_of_targeted_trials_only(study, tmp_path):
    choices, scores = study
    result = evaluate(choices, scores, analyses=(Analysis("mine", target="either"),))
    page = result.report(tmp_path).read_text(encoding="utf-8")
    assert "Analyses: mine (each model on the trials that target it)." in page


def test_text_is_escaped_and_numbers_are_formatted():
    page = Page("T & t")
    page.paragraph("<b>")
    page.bullets(["a & b"])
    page.table(
        pd.DataFrame({"a_b": [1234], "p": [0.0000123], "q": [0.5], "s": ["<x>"], "n": [None]})
    )
    text = str(page)
    assert "<title>T &amp; t</title>" in text
    assert "<p>&lt;b&gt;</p>" in text
    assert "<li>a &amp; b</li>" in text
    assert "<th>a b</th>" in text
    for cell in ('"n">1,234<', '"n">1.2e-05<', '"n">0.500<', "<td>&lt;x&gt;</td>", "<td></td>"):
        assert cell in text


def test_long_names_are_shortened_in_the_middle():
    assert shorten_name("x" * 50, 11) == "xxxxx…xxxxx"
    assert shorten_name("abc") == "abc"
    # Those that would look alike begin where they differ.
    assert shorten_names(["abcdefgh-1-z", "abcdefgh-2-z", "n"], 5) == ["…1-z", "…2-z", "n"]
    assert shorten_names(["same-model-name"] * 2, 5) == ["sa…me"] * 2


def test_report_does_not_import_pyplot():
    code = "import sys, contstim.evaluation.report; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
