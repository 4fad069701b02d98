"""Acceptability classifiers: restarts, votes, scores and rejected uses.

Tests `contstim.training.encoders` and `contstim.training.encoders.network`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiny_transformers import SENTENCES

from contstim import check_model, load_model, select_triplets
from contstim.errors import InputError, SpecError
from contstim.models.reductions import corpus_perplexity, surprisal
from contstim.models.registry import score_kind
from contstim.pipeline.plan import StudyOptions, StudyPlan
from contstim.pipeline.stages.triplets import TripletOptions
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.synthesis.triplets import synthesize_triplets
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary
from contstim.training.cola import matthews_correlation, read_cola
from contstim.training.encoders.classifier import majority_vote, score_logits


def test_scores_of_logits_computed_by_hand() -> None:
    # The softmax of logits 0 and log 3 is 1/4, 3/4; of 2 log 3 apart it is 1/10, 9/10.
    three = np.log(3.0)
    logits = np.array([[0.0, three], [2 * three, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(score_logits(logits, "confidence"), [0.75, -0.9, -0.5])
    np.testing.assert_allclose(score_logits(logits, "margin"), [three, -2 * three, 0.0])


def test_confidence_of_the_published_example() -> None:
    # Vazquez Martinez (2021), sections 2.3 and 2.4: 0.168 for unacceptable, 0.832 for acceptable.
    logits = np.log(np.array([[0.168, 0.832], [0.832, 0.168]]))
    np.testing.assert_allclose(score_logits(logits, "confidence"), [0.832, -0.832])


def test_majority_vote_has_the_sign_of_the_majority() -> None:
    members = [
        np.array([0.9, 0.6, -0.9]),
        np.array([0.6, -0.6, -0.6]),
        np.array([0.6, -0.99, 0.99]),
    ]
    # By hand: (0.9 + 0.6 + 0.6) / 3, -(0.6 + 0.99) / 3, -(0.9 + 0.6) / 3. The mean of the last
    # would be -0.17 and of (0.6, -0.6, -0.99) -0.33: the losers' votes are not counted at all.
    np.testing.assert_allclose(majority_vote(members), [0.7, -0.53, -0.5])


@pytest.mark.parametrize("options", ["", "?output=margin", "?members=majority&output=margin"])
def test_classifier_passes_check_model(classifier: Path, options: str) -> None:
    model = load_model(f"classifier:{classifier}{options}")
    lines = check_model(model, SENTENCES)
    assert "word scores are refused, since the score is not a sum over words" in lines
    again = load_model(model.spec)
    assert (again.spec, again.event, again.fingerprint) == (
        model.spec,
        model.event,
        model.fingerprint,
    )


def test_stored_accuracy_is_that_of_the_loaded_model(classifier: Path, cola: Path) -> None:
    record = json.loads((classifier / "contstim.json").read_text("utf-8"))
    ranked = sorted(record["restarts"], key=lambda row: -row["out_of_domain_dev"])
    assert record["best"] == f"restart-{ranked[0]['seed']}"
    names = [f"restart-{row['seed']}" for row in record["restarts"]]
    assert len(names) == 3
    assert sorted(record["majority"]) == names
    # The stored figures are those of the model that is loaded, on both sets.
    for part, figures in record["mcc"].items():
        assert figures["best"] > 0.3
        labelled = read_cola(cola / f"{part}.tsv")
        for members, name in (("best", "best"), ("majority", "majority")):
            model = load_model(f"classifier:{classifier}?members={members}")
            found = matthews_correlation(labelled.labels, model.score(labelled.sentences))
            assert found == pytest.approx(figures[name])


def test_confidence_and_margin_agree_in_label_and_order(classifier: Path, cola: Path) -> None:
    texts = read_cola(cola / "in_domain_dev.tsv").sentences
    sure = load_model(f"classifier:{classifier}").score(texts)
    margin = load_model(f"classifier:{classifier}?output=margin").score(texts)
    assert (np.abs(sure) >= 0.5).all()
    assert (np.abs(sure) <= 1).all()
    np.testing.assert_array_equal(sure > 0, margin > 0)
    np.testing.assert_array_equal(
        np.argsort(sure, kind="stable"), np.argsort(margin, kind="stable")
    )
    np.testing.assert_allclose(np.abs(sure), 1 / (1 + np.exp(-np.abs(margin))), atol=1e-6)


def test_classifier_score_is_not_a_log_probability(classifier: Path) -> None:
    spec = f"classifier:{classifier}"
    model = load_model(spec)
    assert "not a probability of the sentence" in str(model.event)
    assert model.kind.highest == 1
    assert score_kind(spec) == model.kind
    assert score_kind(f"{spec}?output=margin") == load_model(f"{spec}?output=margin").kind
    assert load_model(f"{spec}?output=margin").kind.highest == np.inf
    for measure in (surprisal, corpus_perplexity):
        with pytest.raises(InputError):
            measure(model, SENTENCES)
    with pytest.raises(SpecError, match="'confidence' scores are not sums of log-probabilities"):
        load_model(f"{spec}?reduction=mean")


def _triplets(classifier: Path) -> pd.DataFrame:
    names = [f"{k}_lp_{m}" for k in ("natural", "synthetic_1", "synthetic_2") for m in (1, 2)]
    texts = {k: [f"{k} {i}" for i in range(4)] for k in ("natural", "synthetic_1", "synthetic_2")}
    rng = np.random.default_rng(1)
    values = {name: rng.uniform(-1, 1, size=4) for name in names}
    models = {"model_1": f"classifier:{classifier}", "model_2": "contstim:trigram"}
    return pd.DataFrame({**models, **texts, **values})


def test_sums_of_scores_in_different_units_are_refused(classifier: Path) -> None:
    table = _triplets(classifier)
    with pytest.raises(InputError, match="classifier' does not score in nats; use the objective"):
        select_triplets(table, 2, strata=2)
    assert len(select_triplets(table, 2, "worst-rank", strata=2)) == 2
    with pytest.raises(InputError, match="does not score in nats"):
        StudyPlan(
            models=(f"classifier:{classifier}", "contstim:trigram"),
            study=StudyOptions(name="x"),
            stages=(SynthesisOptions(), TripletOptions()),
        )


@pytest.mark.parametrize("strategy", ["edit?candidates=all", "edit"])
def test_triplets_with_a_masked_model_satisfy_constraints(
    classifier: Path, bert: Path, strategy: str
) -> None:
    words = Vocabulary(
        WordList.from_words(["The", "A", "the", "a"]),
        WordList.from_words(["dog", "dogs", "cat", "saw", "ran", "old", "man", "fast"]),
    )
    specs = [f"classifier:{classifier}?output=margin", f"hf:{bert}?metric=pll"]
    (row,) = synthesize_triplets(
        ["The old man saw the cat."],
        [(specs[0], specs[1])],
        vocabulary=words,
        strategy=strategy,
        max_word_share=1,
    ).to_dict("records")
    texts = [row["natural"], row["synthetic_1"], row["synthetic_2"]]
    one, two = (load_model(spec).score(texts) for spec in specs)
    # Sentence k is accepted by model k and rejected by the other.
    assert one[1] >= one[0]
    assert two[2] >= two[0]
    assert two[1] < two[0]
    assert one[2] < one[0]
    wanted = [row["synthetic_1_lp_1"], row["synthetic_2_lp_1"]]
    np.testing.assert_allclose(one[1:], wanted, atol=1e-3)
    wanted = [row["synthetic_1_lp_2"], row["synthetic_2_lp_2"]]
    np.testing.assert_allclose(two[1:], wanted, atol=1e-3)
