"""The report: its page, figures and files.

Tests `contstim.evaluation.report`, `contstim.evaluation.wording`, `contstim.report.model_figure`,
`contstim.report.page`, `contstim.report.pair_figures` and `contstim.report.style`.
"""

import html
import itertools
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError, OutputError, UnknownNameError
from contstim.evaluation import Analysis, ExclusionRules, evaluate
from contstim.evaluation.answer import answer_sentences, result_sentences
from contstim.evaluation.report import _ranges, _relations, result_table, write_report
from contstim.evaluation.wording import scope_sentence
from contstim.report import (
    dominance,
    feature_figure,
    matrix_figure,
    model_figure,
    normalisation_figure,
    percentile_figure,
    recovery_figure,
    save_figure,
    triplet_figure,
)
from contstim.report.page import Page
from contstim.report.pair_figures import TRIPLET_COLOURS
from contstim.report.style import sheet, short, short_names, svg_text


@pytest.fixture(autouse=True)
def no_figure_is_left():
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
            "expected": (2.0 if (truth[p] > 0) == (i > 0) else 1.0) if p < 4 else np.nan,
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
    features = pd.DataFrame(
        {"log_frequency": rng.normal(size=32)},
        index=[t for p in range(16) for t in (f"First <{p}> & co", f"Second {p}")],
    )
    return pd.DataFrame(rows), scores, features


@pytest.fixture(scope="module")
def evaluation(study):
    choices, scores, features = study
    rules = ExclusionRules(min_catch_correct=0.9)
    return evaluate(choices, scores, features=features, n_bootstrap=50, exclusions=rules)


def rows_of(evaluation, analysis="all", measure="accuracy"):
    tables = (evaluation.models, evaluation.comparisons, evaluation.details.participants)
    return [t[(t["analysis"] == analysis) & (t["measure"] == measure)] for t in tables]


def test_the_columns_of_many_winners_fit_on_the_sheet():
    """Twenty models, each of which beats all that are worse."""
    names = [f"organisation/some-model-{i}" for i in range(20)]
    value = np.linspace(0.8, 0.5, 20)
    models = pd.DataFrame({"model": names, "measure": "accuracy", "value": value})
    models = models.assign(ci_low=value - 0.05, ci_high=value + 0.05, unit="participant")
    models = models.assign(ceiling_lower=0.8, ceiling_upper=0.9, q_ceiling=1.0, effect_ceiling=0.0)
    models = models.assign(test="crossed")
    pairs = pd.DataFrame(itertools.combinations(names, 2), columns=["model_1", "model_2"])
    pairs = pairs.assign(difference=0.1, q=0.01, effect=1.0)
    units = pd.DataFrame({"model": np.repeat(names, 3), "value": np.repeat(value, 3)})
    (ax,) = sheet()
    model_figure(models, pairs, units, ax=ax)
    figure = ax.figure
    svg_text(ax)
    (side,) = ax.child_axes
    right = side.get_window_extent().x1 / figure.bbox.width
    assert 0.9 < right <= 1.0
    assert len(side.lines) >= 3 * 19


def test_model_figure_shows_each_model_best_first(evaluation):
    models, comparisons, people = rows_of(evaluation)
    ax = model_figure(models, comparisons, people, label="accuracy of predicting choices")
    (side,) = ax.child_axes
    order = models.sort_values("value", ascending=False)["model"].tolist()
    assert order[0] == "good"
    assert [label.get_text() for label in ax.get_yticklabels()] == order
    assert ax.get_xlabel() == "accuracy of predicting choices"
    drawn = {artist.get_gid(): artist for artist in (*ax.lines, *ax.collections)}
    for place, row in enumerate(models.set_index("model").loc[order].itertuples()):
        model, y = row.Index, place + 0.15  # under its name
        assert drawn[f"mean-{model}"].get_xydata() == pytest.approx(np.array([[row.value, y]]))
        ends = drawn[f"interval-{model}"].get_xydata()
        assert ends == pytest.approx(np.array([[row.ci_low, y], [row.ci_high, y]]))
        dots = drawn[f"units-{model}"]
        assert sorted(dots.get_xdata()) == sorted(people.loc[people["model"] == model, "value"])
        # Dots lie beside their own row, none hides another, and none is on the next row.
        assert (np.abs(dots.get_ydata() - y) < 0.3).all()
        assert len(np.unique(dots.get_xydata().round(9), axis=0)) == len(dots.get_xdata())
        band = drawn[f"ceiling-{model}"].get_paths()[0].get_extents()
        assert (band.x0, band.x1) == pytest.approx(sorted((row.ceiling_lower, row.ceiling_upper)))
        assert (band.y0, band.y1) == pytest.approx((y - 0.23, y + 0.29))
    stars = [text for text in ax.texts if text.get_text() == "*"]
    below = (models["q_ceiling"] < 0.05) & (models["value"] < models["ceiling_lower"])
    assert len(stars) == below.sum() > 0
    beats = dominance(comparisons, order)
    filled = [line for line in side.lines if str(line.get_gid()).startswith("winner-")]
    opened = [line for line in side.lines if str(line.get_gid()).startswith("beaten-by-")]
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


def test_percentile_figure_draws_the_pairs_that_pit_the_two(evaluation):
    ax = percentile_figure(evaluation.people.trials, evaluation.provenance.scores, "good", "bad")
    joins = [line for line in ax.lines if len(line.get_xdata()) == 2]
    assert len(joins) == 12 + 1  # one a pair, and the diagonal
    assert ax.get_xlabel() == "percentile under good"
    assert ax.get_title().startswith("12 pairs")
    unpitted = percentile_figure(
        evaluation.people.trials, evaluation.provenance.scores, "good", "fair"
    )
    assert unpitted.get_title().startswith("16 pairs")
    with pytest.raises(UnknownNameError, match="unknown model 'god'"):
        percentile_figure(evaluation.people.trials, evaluation.provenance.scores, "god", "bad")


def test_matrix_figure_prints_each_cell():
    table = pd.DataFrame({"model_1": ["a"], "model_2": ["b"], "agreement": [0.256]})
    arguments = (table, "model_1", "model_2", "agreement", ["a", "b", "c"], "alike")
    texts = [t.get_text() for t in matrix_figure(*arguments).texts]
    assert texts == ["26"]
    both = matrix_figure(*arguments, symmetric=True)
    assert [t.get_text() for t in both.texts] == ["26", "26"]
    assert [t.get_text() for t in both.get_yticklabels()] == ["a", "b", "c"]


def test_control_figures(evaluation):
    normalisation = normalisation_figure(evaluation.controls.normalisation)
    assert sorted(t.get_text() for t in normalisation.texts) == ["bad", "fair", "good"]
    feature = feature_figure(evaluation.controls.features, "log_frequency")
    labels = [t.get_text() for t in feature.get_yticklabels()]
    assert labels == ["good", "fair", "bad"]


def _drawings(evaluation):
    """Each figure function as a call that takes axes, with how many."""
    natural, written = [-40.0, -50.0, -60.0], {"model_1": ["a"], "model_2": ["b"]}
    written |= {f"{k}_lp_{m}": [-50.0] for k in TRIPLET_COLOURS for m in (1, 2)}
    curve = pd.DataFrame({"n_trials": [1, 2], "recovery": [0.5, 0.9], "low": 0.4, "high": 1.0})
    pairs = pd.DataFrame({"model_1": ["a"], "model_2": ["b"], "log_bayes_factor": [0.1]})
    matrix = pd.DataFrame({"row": ["a"], "column": ["b"], "value": [0.2]})
    people, controls = evaluation.people.trials, evaluation.controls
    scores = evaluation.provenance.scores
    one = {
        "models": lambda ax: model_figure(*rows_of(evaluation), ax=ax),
        "evaluation": lambda ax: evaluation.figure(ax=ax),
        "normalisation": lambda ax: normalisation_figure(controls.normalisation, ax=ax),
        "features": lambda ax: feature_figure(controls.features, "log_frequency", ax=ax),
        "percentiles": lambda ax: percentile_figure(people, scores, "good", "bad", ax=ax),
        "triplets": lambda ax: triplet_figure(pd.DataFrame(written), natural, natural, ax=ax),
        "matrix": lambda ax: matrix_figure(matrix, *matrix, ["a", "b"], "share", ax=ax),
    }
    designs = [curve.assign(design=d) for d in "xy"], [pairs.assign(design=d) for d in "xy"]
    several = {
        "recovery": (3, lambda axes: recovery_figure(*map(pd.concat, designs), axes=axes)),
    }
    return {
        name: (1, lambda axes, draw=draw: [draw(axes and axes[0])]) for name, draw in one.items()
    } | several


@pytest.mark.parametrize(
    "name",
    [
        *("models", "evaluation", "normalisation", "features", "percentiles", "triplets"),
        *("matrix", "recovery"),
    ],
)
def test_figure_functions_draw_on_the_axes_they_get_and_return_them(evaluation, name):
    number, draw = _drawings(evaluation)[name]
    figure, axes = plt.subplots(1, number + 1, figsize=(9, 3), squeeze=False)
    *own, other = axes[0]
    assert draw(own) == own
    assert all(ax.has_data() for ax in own)
    assert not other.has_data()
    assert figure.get_size_inches().tolist() == [9, 3]
    assert plt.get_fignums() == [figure.number]
    new = draw(None)
    assert len(plt.get_fignums()) == 2  # which a notebook shows
    assert [ax.figure.number for ax in new] == [plt.get_fignums()[1]] * number
    # For pages and files, outside of pyplot, of a size by what is drawn.
    alone = sheet(number)
    assert draw(alone) == alone
    assert len(plt.get_fignums()) == 2
    assert svg_text(alone[0]).startswith("<svg")
    same = new[0].figure.get_size_inches().tolist()
    assert alone[0].figure.get_size_inches().tolist() == same


def test_a_figure_of_several_panels_needs_as_many_axes(evaluation):
    _, draw = _drawings(evaluation)["recovery"]
    with pytest.raises(InputError, match=r"the figure needs 3 axes, got 2; give as many"):
        draw(sheet(2))


def test_report_is_one_page_that_says_what_was_done(evaluation, tmp_path):
    path = evaluation.report(tmp_path / "out")
    page = path.read_text(encoding="utf-8")
    assert path.name == "report.html"
    for name in ("models.csv", "comparisons.csv", "excluded.csv", "figure.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    n, out = evaluation.summary.n_participants, 14 - evaluation.summary.n_participants
    assert out > 0
    assert f"{n} participants in 1 group made {16 * n} choices on 16 sentence pairs" in page
    assert f"catch trials: {16 * out} choices of {out} participant" in page
    for phrase in (
        "tests that take both participants and sentences as samples",
        "Benjamini-Hochberg",
        "all: every model on every trial but catch trials and fillers",
        "targeted: a model on the trials made to target it",
        "closed form (Golan et al. 2023, Eq. 8 to 11)",
        f"scipy {evaluation.provenance.versions['scipy']}",
        "&lt;",
        "Control: length normalisation",
        "Control: token counts",
        "Control: word features",
    ):
        assert phrase in page, phrase
    assert "First <" not in page
    assert not re.search(r'(src|href)="https?:', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for used in re.findall(r"url\(#([^)]+)\)", page):
        assert used in ids


def result_words(choices, scores, **options):
    evaluation = evaluate(choices, scores, **options)
    return " ".join(result_sentences(evaluation, "all", "accuracy"))


def test_models_that_tie_are_not_called_best(study):
    choices, scores, _ = study
    wide = scores.pivot_table(index="sentence", columns="model", values="log_prob")
    alone = result_words(choices, wide, n_bootstrap=0)
    assert alone.startswith("The highest value is 0.")
    assert ", of good; its noise ceiling runs from 0." in alone
    wide["twin"] = wide["good"] * 2
    words = result_words(choices, wide, n_bootstrap=0)
    value = re.match("The highest value is (0.[0-9]{3})", alone).group(1)
    assert words.startswith(f"The highest value, {value}, is shared by good and twin; ")


@pytest.mark.parametrize(
    ("gap", "q", "words"),
    [
        (0.8, 0.01, "significantly above"),
        (0.8, 0.2, "not significantly above"),
        (-0.8, 0.01, "significantly below"),
        (-0.8, 0.2, "not significantly below"),
        (0.0, 1.0, "not significantly different from"),
    ],
)
@pytest.mark.parametrize("test", ["crossed", "exact"])
def test_the_test_against_the_ceiling_says_its_direction(evaluation, gap, q, words, test):
    models = evaluation.models.assign(p_ceiling=0.004, q_ceiling=q, test=test)
    # Of means and of ranks, which need not agree: said is what was tested.
    of_means, of_ranks = (gap, -gap) if test == "crossed" else (-gap, gap)
    models = models.assign(ceiling_lower=models["value"] - of_means, effect_ceiling=of_ranks)
    said = result_sentences(replace(evaluation, models=models), "all", "accuracy")[0]
    name = "test over people and sentences" if test == "crossed" else "signed-rank test"
    end = f"; the model is {words} its lower bound ({name}: p = 0.004, q = {q:g})."
    assert said.endswith(end)


@pytest.mark.parametrize(("test", "stars"), [("crossed", 0), ("exact", 1)])
def test_a_star_is_below_the_ceiling_by_what_was_tested(evaluation, test, stars):
    models, comparisons, people = rows_of(evaluation)
    # The means are above, the ranks below.
    models = models.iloc[:1].assign(q_ceiling=0.01, effect_ceiling=-0.2, test=test)
    models = models.assign(ceiling_lower=models["value"] - 0.1)
    ax = model_figure(models, comparisons, people)
    assert [text.get_text() for text in ax.texts].count("*") == stars
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend.count("below the ceiling") == stars


def test_the_published_analysis_says_what_it_did(study, tmp_path):
    choices, scores, _ = study
    result = evaluate(choices, scores, inference="signed-rank", n_bootstrap=20)
    page = result.report(tmp_path).read_text(encoding="utf-8")
    assert "Wilcoxon signed-rank tests across participants" in page
    assert "bootstrap samples over participants and pairs" in page
    assert "These tests hold for these sentences only, not for others like them." in page


def test_a_notebook_shows_the_answer_its_figure_and_the_table(evaluation):
    shown = evaluation._repr_html_()
    first = answer_sentences(evaluation)[0]
    assert shown.startswith(f"<p>{html.escape(first)}</p>")
    answer = shown[: shown.index("<details>")]
    assert answer.count("<svg") == answer.count("<table") == 1
    assert answer.count("<tr") == 1 + len(result_table(evaluation))
    # All tables, folded, of which the comparisons are.
    summaries = re.findall(r"<summary>(\w+): ", shown)
    assert summaries == list(evaluation.tables())


def test_the_answer_comes_first(evaluation, tmp_path):
    said = answer_sentences(evaluation)
    best = evaluation.models.iloc[:4].sort_values("value", ascending=False).iloc[0]
    assert said[0].startswith(f"{best['model']} predicts people best (accuracy {best['value']:.3f}")
    assert re.match(
        r"At a false discovery rate of 0.05 it is better than (both|(\d of|all) \d) other models",
        said[1],
    )
    assert f"noise ceiling of {best['ceiling_lower']:.3f}" in said[2]
    page = html.unescape(evaluation.report(tmp_path).read_text(encoding="utf-8"))
    texts = (said[0], " ".join(said[1:]), "<svg", "<thead>", "Methods</h2>", "<details id=")
    main = page[page.index("<main>") :]
    places = [main.index(text) for text in texts]
    assert places == sorted(places)
    # What a paper prints is open, the rest folded, and each section is in the list of contents.
    folded = main.index("<details id=")
    assert "<h2" not in re.sub(r"<summary>.*</summary>", "", main[folded:])
    anchors = re.findall(r'<a href="#(part-\d+)">', page[: page.index("<main>")])
    assert anchors == re.findall(r'id="(part-\d+)"', main)
    for stem in ("figure", "figure-narrow"):
        for ending, start in (("svg", b"<svg"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
            assert f'<a href="{stem}.{ending}">' in main
            assert (tmp_path / f"{stem}.{ending}").read_bytes().startswith(start)


def test_captions_speak_of_what_is_there_only(study, tmp_path):
    choices, scores, _ = study
    alone = evaluate(choices, scores[scores["model"] == "good"], analyses=(Analysis("all"),))
    page = alone.report(tmp_path).read_text(encoding="utf-8")
    assert "Accuracy of predicting choices of each model, on" in page
    assert "The grey band is the noise ceiling" in page
    assert "the open dots are those it beats" not in page
    assert "better than: numbers" not in page


def test_the_table_of_a_paper_by_hand(evaluation):
    table = result_table(evaluation)
    models, comparisons, _ = rows_of(evaluation)
    rows = models.sort_values("value", ascending=False, kind="stable")
    assert table["model"].tolist() == rows["model"].tolist()
    assert table["#"].tolist() == [1, 2, 3]
    cosine = rows_of(evaluation, measure="signed_rank_cosine")[0].set_index("model")
    number = dict(zip(table["model"], table["#"], strict=True))
    for row, shown in zip(rows.itertuples(), table.to_dict("records"), strict=True):
        assert shown["accuracy"].value == row.value
        assert shown["accuracy"].below == f"[{row.ci_low:.3f}, {row.ci_high:.3f}]"
        assert shown["signed rank cosine"].value == cosine.loc[row.model, "value"]
        assert shown["from ceiling"].value == pytest.approx(row.value - row.ceiling_lower)
        beaten = dominance(comparisons, rows["model"].tolist()).query("model == @row.model")
        expected = ", ".join(str(n) for n in sorted(beaten["beats"].map(number)))
        assert shown["better than"].value == expected
    assert table["better than"].iloc[0].value  # somebody beats somebody


def test_runs_of_models_are_written_as_ranges():
    verdicts = [("a", "b", "model 1"), ("a", "c", "model 1"), ("d", "a", "model 2")]
    verdicts += [("e", "a", "equivalent"), ("a", "g", "model 1"), ("b", "c", "undecided")]
    pairs = pd.DataFrame(verdicts, columns=["model_1", "model_2", "verdict"])
    better, alike = _relations(pairs, list("abcdefg"))
    assert _ranges(better["a"]) == "2\u20134, 7"
    assert (_ranges(better["d"]), _ranges(alike["a"], "= "), _ranges(alike["e"])) == (
        "",
        "= 5",
        "1",
    )


def test_several_analyses_have_a_lane_each(evaluation):
    models, comparisons = evaluation.models, evaluation.comparisons
    both = [t[t["measure"] == "accuracy"] for t in (models, comparisons)]
    ax = model_figure(*both, evaluation.details.participants, width=90 / 25.4)
    names = [label.get_text() for label in ax.get_yticklabels()]
    drawn = {artist.get_gid(): artist for artist in ax.lines}
    here = both[0][both[0]["value"].notna()]
    analyses = list(dict.fromkeys(here["analysis"]))
    assert len(analyses) > 1
    for row in here.itertuples():
        ((x, y),) = drawn[f"mean-{row.model}-{row.analysis}"].get_xydata()
        assert x == row.value
        # Within the model's row, the analyses below each other.
        lane = (y - names.index(row.model) + 0.5) * len(analyses)
        assert analyses.index(row.analysis) < lane < analyses.index(row.analysis) + 1.3
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend[: len(analyses)] == [name.replace("_", " ") for name in analyses]
    assert ax.figure.get_size_inches()[0] == pytest.approx(90 / 25.4)


@pytest.mark.parametrize("n_models", [2, 20])
def test_a_column_of_a_journal_holds_the_figure(n_models):
    """All that is drawn lies on the sheet, and no letter is smaller than six points."""
    names = [f"hf:organisation/some-model-with-a-long-name-{i}?metric=pll" for i in range(n_models)]
    value = np.linspace(0.8, 0.5, n_models)
    models = pd.DataFrame({"model": names, "measure": "accuracy", "value": value})
    models = models.assign(ci_low=value - 0.05, ci_high=value + 0.05, unit="participant")
    models = models.assign(ceiling_lower=0.8, ceiling_upper=0.9, q_ceiling=0.01)
    models = models.assign(effect_ceiling=-0.5, test="crossed")
    pairs = pd.DataFrame(itertools.combinations(names, 2), columns=["model_1", "model_2"])
    pairs = pairs.assign(difference=0.1, q=0.01)
    units = pd.DataFrame({"model": np.repeat(names, 3), "value": np.repeat(value, 3)})
    (ax,) = sheet()
    model_figure(models, pairs, units, ax=ax, width=90 / 25.4)
    svg_text(ax)
    drawn = ax.figure.get_tightbbox()  # inches
    assert 0 <= drawn.x0 <= drawn.x1 <= 90 / 25.4 + 0.01
    assert drawn.y0 >= -0.01
    texts = [*ax.get_yticklabels(), *ax.get_xticklabels(), *ax.get_legend().get_texts()]
    assert min(text.get_fontsize() for text in texts) >= 6
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert len(set(shown)) == n_models  # shortened names stay apart


def test_intervals_with_zero_are_counted_beside_significance(evaluation):
    table = evaluation.comparisons.copy()
    here = (table["analysis"] == "all") & (table["measure"] == "accuracy")
    table.loc[here, "q"] = [0.01, 0.02, 0.2]
    table.loc[here, "ci_low"] = [-0.1, 0.1, -0.1]
    table.loc[here, "ci_high"] = [0.2, 0.2, 0.2]
    words = " ".join(result_sentences(replace(evaluation, comparisons=table), "all", "accuracy"))
    assert (
        "2 of 3 comparisons of models differ at a false discovery rate of 0.05; the interval of 1 "
        "of them includes zero, so that one is not certain."
    ) in words


def test_every_test_says_what_it_holds_for(evaluation, tmp_path):
    page = evaluation.report(tmp_path).read_text(encoding="utf-8")
    only = scope_sentence(evaluation, "participant and sentence")
    assert "both are taken as samples" in only
    assert page.count(only) == 1
    first_table = page.index("<thead>")
    assert page.index(only) < first_table  # before any test is shown
    pieces = re.sub(r'<p class="notes">.*</p>', "", page[first_table:]).split("</table></div>")
    across_pairs = "<p>This test is across sentence pairs, not people.</p>"
    told = [after.strip().startswith(across_pairs) for _, after in itertools.pairwise(pieces)]
    shown = ["Control: token counts" in page, "Control: word features" in page]
    assert sum(told) == sum(shown) == 2


@pytest.mark.parametrize("own", [True, False])
def test_groups_with_pairs_of_their_own_speak_for_more(own):
    rng = np.random.default_rng(0)
    rows = [
        {
            "participant": f"s{g}-{i}",
            "group": f"g{g}",
            "sentence_1": f"A {p} {g * own}",
            "sentence_2": f"B {p} {g * own}",
            "rating": rng.choice([-0.5, 0.5]),
        }
        for g in range(6)
        for i in range(2)
        for p in range(8)
    ]
    choices = pd.DataFrame(rows)
    sentences = sorted({*choices["sentence_1"], *choices["sentence_2"]})
    scores = pd.DataFrame(rng.normal(size=(len(sentences), 2)), sentences, columns=["a", "b"])
    result = evaluate(choices, scores, n_bootstrap=0)
    expected = (
        "Each group saw pairs of its own, so these tests hold for sentences like these, not for "
        "these only."
    )
    assert (scope_sentence(result, "group") == expected) == own
    assert "for these sentences only" in scope_sentence(result, "participant")


def test_drawings_are_well_formed_and_repeat(evaluation):
    one, two = (svg_text(model_figure(*rows_of(evaluation))) for _ in range(2))
    assert one == two
    words = "".join(ElementTree.fromstring(one).itertext())
    assert "good" in words  # text stays text


def test_report_without_models_and_unwritable_places(study, tmp_path):
    choices, _, _ = study
    page = write_report(evaluate(choices), tmp_path / "a").read_text(encoding="utf-8")
    assert "Noise ceilings" in page
    assert "No participant and no trial was left out." in page
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(OutputError, match="cannot write .*models.csv"):
        write_report(evaluate(choices), blocked / "sub")
    table = pd.DataFrame({"model_1": ["a"], "model_2": ["b"], "agreement": [0.2]})
    figure = matrix_figure(table, "model_1", "model_2", "agreement", ["a", "b"], "x")
    with pytest.raises(OutputError, match="cannot write .*x.png: Not a directory"):
        save_figure(figure, blocked / "x.png")


def test_models_whose_names_differ_in_case_have_files_of_their_own(study, tmp_path):
    choices, scores, _ = study
    renamed = scores.replace({"model": {"good": "My:model", "bad": "my-MODEL", "fair": "other"}})
    # Two pairs of models, whose figures would have one name where case does not count.
    number = choices["sentence_1"].str.extract(r"<(\d+)>", expand=False).astype(int)
    own = choices["condition"] == "main"
    choices = choices.assign(model_2=np.where(own, "other", None))
    choices["model_1"] = np.where(number < 10, "My:model", "my-MODEL")
    choices["model_1"] = choices["model_1"].where(own)
    evaluate(choices, renamed, n_bootstrap=0).report(tmp_path)
    drawn = sorted(path.name.casefold() for path in tmp_path.glob("percentiles-*.svg"))
    assert drawn == ["percentiles-my-model-other-2.svg", "percentiles-my-model-other.svg"]


def test_a_report_on_targeted_trials_alone(study, tmp_path):
    choices, scores, _ = study
    targeted = (Analysis("mine", target="either"),)
    result = evaluate(choices, scores, n_bootstrap=0, analyses=targeted)
    page = result.report(tmp_path).read_text(encoding="utf-8")
    assert "mine: a model on the trials made to target it" in page


def test_page_escapes_and_formats():
    page = Page("T & t")
    page.paragraph("<b>")
    page.table(
        pd.DataFrame({"a_b": [1234], "p": [0.0000123], "q": [0.5], "s": ["<x>"], "n": [None]})
    )
    text = str(page)
    assert "<title>T &amp; t</title>" in text
    assert "<p>&lt;b&gt;</p>" in text
    assert '<th class="n">a b</th>' in text
    for cell in ('"n">1,234<', '"n">1.2e-05<', '"n">0.500<', "<td>&lt;x&gt;</td>", "<td></td>"):
        assert cell in text


def test_names_are_shortened_in_the_middle():
    assert short("x" * 50, 11) == "xxxxx…xxxxx"
    assert short("abc") == "abc"
    # Those that would look alike begin where they differ.
    assert short_names(["abcdefgh-1-z", "abcdefgh-2-z", "n"], 5) == ["…1-z", "…2-z", "n"]
    assert short_names(["same-model-name"] * 2, 5) == ["sa…me"] * 2


def test_pyplot_is_never_loaded():
    code = "import sys, contstim.report; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
