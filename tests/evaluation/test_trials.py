"""Test which trials are analysed: catch trials, fillers and selected pairs."""

import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError
from contstim.evaluation import Analysis, align_choices, check_choices, evaluate
from contstim.evaluation.trials import TrialData, default_analyses


@pytest.fixture
def with_catch(make_study):
    """Return choices with correct catch trials and fillers, and scores of all sentences."""
    study, scores = make_study(n_people=12, n_pairs=24)
    rare = study["trial"].map({1: "catch", 2: "catch", 3: "catch", 4: "filler"})
    study["condition"] = rare.fillna(study["condition"])
    catch = study["condition"] == "catch"
    study.loc[catch, ["model_1", "model_2"]] = None
    study.loc[catch, "rating"] = 2.5
    wide = scores.set_index("sentence")
    wide.loc[study.loc[catch, "sentence_2"].unique()] += 100.0
    return study, wide.reset_index()


def select_analyses(result, *names):
    tables = []
    for table in (result.models, result.comparisons):
        here = table[table["analysis"].isin(names)]
        tables.append(here.reset_index(drop=True))
    return tables


def test_scores_of_catch_trials_affect_only_their_analysis(with_catch):
    study, scores = with_catch
    catch = study[study["condition"] == "catch"]
    without = scores[~scores["sentence"].isin([*catch["sentence_1"], *catch["sentence_2"]])]
    full, partial = evaluate(study, scores), evaluate(study, without)
    assert "catch" not in set(partial.models["analysis"])
    same = partial.models["analysis"].unique()
    for one, two in zip(select_analyses(full, *same), select_analyses(partial, *same), strict=True):
        pd.testing.assert_frame_equal(one, two)
    agreement = full.details.model_agreement.query("condition == 'all'")
    pd.testing.assert_frame_equal(
        agreement, partial.details.model_agreement.query("condition == 'all'")
    )


def test_single_condition_is_not_analysed_twice(with_catch):
    study, _ = with_catch
    study["condition"] = study["condition"].replace({"natural": "synthetic"})
    data = TrialData.from_choices(align_choices(check_choices(study)))
    assert [a.name for a in default_analyses(data.pairs)] == ["all", "targeted", "catch", "fillers"]


def test_choices_with_only_catch_trials_are_analysed(with_catch):
    study, scores = with_catch
    result = evaluate(study[study["condition"] == "catch"], scores)
    assert set(result.models["analysis"]) == {"catch"}
    assert set(result.details.agreement["condition"]) == {"catch"}


def test_analysis_has_trials_of_one_kind(with_catch):
    study, scores = with_catch
    analyses = Analysis("checks", ("catch",), kind="catch"), Analysis("critical")
    result = evaluate(study, scores, analyses=analyses)
    counts = result.models.drop_duplicates("analysis").set_index("analysis")["n_trials"]
    assert counts.to_dict() == {"checks": 3, "critical": 20}
    with pytest.raises(InputError, match="has no experimental trials.*: set kind = 'catch'"):
        evaluate(study, scores, analyses=(Analysis("checks", ("catch",)),))


def test_select_pairs_keeps_participants_and_ratings(with_catch):
    study, scores = with_catch
    data = TrialData.from_choices(align_choices(check_choices(study)), scores.set_index("sentence"))
    chosen = np.arange(data.n_pairs) % 3 == 0
    part = data.select_pairs(chosen)
    rows = chosen[data.pair]
    whole = data.pairs["sentence_1"].to_numpy()[data.pair[rows]]
    assert list(part.pairs["sentence_1"].to_numpy()[part.pair]) == list(whole)
    np.testing.assert_array_equal(part.rating, data.rating[rows])
    np.testing.assert_array_equal(part.log_ratio, data.log_ratio[chosen])


def test_catch_trials_and_fillers_are_analysed_separately(with_catch):
    study, scores = with_catch
    result = evaluate(study, scores)
    rest = evaluate(study[~study["condition"].isin(["catch", "filler"])], scores)
    names = ["all", "targeted", "catch", "fillers", "synthetic", "natural"]
    assert [name for name in result.models["analysis"].unique() if "/" not in name] == names
    same = [name for name in result.models["analysis"].unique() if name not in ("catch", "fillers")]
    for with_them, without in zip(
        select_analyses(result, *same), select_analyses(rest, *same), strict=True
    ):
        pd.testing.assert_frame_equal(with_them, without)
    catch = result.models.query("analysis == 'catch' and measure == 'accuracy'")
    assert set(catch["n_trials"]) == {3}
    assert set(catch["value"]) == {1.0}
