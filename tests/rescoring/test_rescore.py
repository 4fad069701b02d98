"""The whole of a rescoring."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from lists import dog_scores, small, utterance

from contstim import load_model
from contstim.errors import InputError
from contstim.rescoring import Bleu, WordErrorRate
from contstim.rescoring.nbest import NBest, SentenceForm, learn_cases, score_hypotheses
from contstim.rescoring.rescore import Resamples, RescoringOptions, rescore

FEW = RescoringOptions(n_bootstrap=50)


def _lists(seed: int, n: int = 30) -> tuple[NBest, dict[str, float]]:
    """Random lists, and a model that finds errors, mostly."""
    rng = np.random.default_rng(seed)
    rows, scores = [], {}
    for number in range(n):
        reference = " ".join(f"w{number}{k}" for k in range(6))
        hypotheses = {}
        for _ in range(8):
            wrong = rng.random(6) < 0.3
            words = [w + "x" * int(x) for w, x in zip(reference.split(), wrong, strict=True)]
            text = " ".join(words)
            hypotheses[text] = float(rng.normal(0, 3))
            scores[text] = float(-2 * wrong.sum() + rng.normal(0, 1))
        split = "dev" if number < n // 2 else "test"
        rows.append(utterance(f"u{number}", reference, hypotheses, split))
    return NBest(tuple(rows)), scores


def test_a_hand_made_rescoring() -> None:
    nbest = small()
    found = rescore(nbest, {"dogs": dog_scores(nbest)}, WordErrorRate(), FEW)
    test = found.summary[found.summary["split"] == "test"].set_index("system")
    assert test["wer"].to_dict() == {"first pass": 0.25, "rescored": 0.0, "oracle": 0.0}
    assert test.loc["rescored", "difference"] == -0.25
    # The dog is chosen from a weight of 0.25 (u0) and 0.5 (u1) on; the tuning sees these alone.
    assert found.weights["dogs"] == pytest.approx((0.5 + 0.75) / 2)
    row = found.utterances.set_index("id").loc["u3"]
    assert (row["first_pass"], row["first_pass_rank"]) == ("the dock 3 barked", 1)
    assert (row["rescored"], row["rescored_rank"]) == ("the dog 3 barked", 2)
    assert (row["rescored_substitutions"], row["first_pass_words"]) == (0, 4)


@pytest.mark.parametrize("measure", [WordErrorRate(), Bleu()], ids=["wer", "bleu"])
def test_weights_never_see_the_test_part(measure) -> None:
    nbest, scores = _lists(1)
    options = replace(FEW, length=True)
    before = rescore(nbest, {"m": scores}, measure, options)
    # Everything about the test part changes: references, hypotheses, first-pass and model scores.
    changed = [
        u
        if u.split == "dev"
        else utterance(
            u.id, u.texts[-1], {t + " z": 9.0 * i for i, t in enumerate(u.texts)}, "test"
        )
        for u in nbest.utterances
    ]
    other = NBest(tuple(changed))
    tempting = {t: scores.get(t, 1000.0 * len(t)) for t in other.texts}
    after = rescore(other, {"m": tempting}, measure, options)
    assert after.weights == before.weights
    assert any(weight != 0 for weight in before.weights.values())
    # And the development part does decide.
    swapped = NBest(
        tuple(replace(u, split="test" if u.split == "dev" else "dev") for u in nbest.utterances)
    )
    assert rescore(swapped, {"m": scores}, measure, options).weights != before.weights


def test_rescoring_is_never_worse_than_the_first_pass_on_dev_nor_better_than_the_oracle() -> None:
    nbest, scores = _lists(2)
    found = rescore(nbest, {"m": scores}, WordErrorRate(), FEW)
    table = found.summary.set_index(["split", "system"])["wer"]
    assert table["dev", "rescored"] < table["dev", "first pass"]
    for split in ("dev", "test"):
        assert table[split, "oracle"] <= table[split, "rescored"]
    dev = found.summary[found.summary["split"] == "dev"]
    assert dev[["ci_low", "difference_low"]].isna().all(axis=None)


def test_intervals_are_paired_and_resample_groups() -> None:
    draws = Resamples.draw(["a", "a", "b", "c"], 400, seed=1)
    assert draws.n_groups == 3
    np.testing.assert_array_equal(draws.counts[:, 0], draws.counts[:, 1])
    assert set((draws.counts[:, 1:]).sum(axis=1)) == {3.0}
    nbest, scores = _lists(3)
    found = rescore(nbest, {"m": scores}, WordErrorRate(), FEW)
    assert found.difference(found) == (0.0, 0.0, 0.0)
    first = found.summary.set_index(["split", "system"]).loc[("test", "first pass")]
    assert first["difference_low"] == first["difference_high"] == 0.0
    assert first["ci_low"] < first["wer"] < first["ci_high"]
    # Equal words everywhere make the rate a mean, whose interval is known: mean +- t * s / sqrt(n).
    many = Resamples.draw([str(i) for i in range(15)], 4000, seed=0)
    own = found.test["rescored"]
    low, high = many.interval(many.values(WordErrorRate(), own))
    rates = own[:, :3].sum(axis=1) / own[:, 3]
    half = 2.145 * rates.std(ddof=1) / np.sqrt(15)
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)


def test_scores_that_are_missing() -> None:
    nbest = small()
    with pytest.raises(InputError, match="nothing to tune"):
        rescore(nbest, {}, WordErrorRate())
    scores = dog_scores(nbest)
    scores["the dog 2 barked"] = float("-inf")
    with pytest.raises(InputError, match="gives 'the dog 2 barked' the score -inf"):
        rescore(nbest, {"dogs": scores}, WordErrorRate())
    with pytest.raises(InputError, match="may not be called 'length'"):
        rescore(nbest, {"length": dog_scores(nbest)}, WordErrorRate())


def test_forms() -> None:
    cases = learn_cases(
        ["Then I saw Anne.", "She saw anne and I ran.", 'He said, "Then go, Anne."', "", "The end"]
    )
    assert cases == {"i": "I", "anne": "Anne"}
    form = SentenceForm(capitalise=True, final=".", cases=cases)
    assert form("then i met anne") == "Then I met Anne."
    assert str(form) == "case of 2 words as in a text, first letter upper case, '.' at the end"
    assert SentenceForm()("as it is") == "as it is"
    with pytest.raises(InputError, match="holds white space"):
        SentenceForm(final=" .")


class _Counting:
    """A model that counts what it is asked."""

    def __init__(self) -> None:
        self.model = load_model("contstim:trigram?unknown=unk")
        self.spec = self.model.spec
        self.asked: list[str] = []

    def totals(self, sentences: Sequence[str]):
        self.asked += sentences
        return self.model.totals(sentences)


def test_equal_sentences_are_scored_once_and_errors_name_the_utterance() -> None:
    one = utterance("u1", "he came", {"he came": 0.0, "He came": -1.0})
    two = utterance("u2", "he came", {"he came": 0.0, "he went": -1.0}, "test")
    nbest, model = NBest((one, two)), _Counting()
    scores = score_hypotheses(nbest, model, SentenceForm(True, "."))
    assert model.asked == ["He came.", "He went."]
    assert scores["he came"] == scores["He came"] == model.model.score(["He came."])[0]
    strict = load_model("contstim:trigram")
    bad = NBest((one, utterance("u2", "a", {"the zyzzyva": 0.0}, "test")))
    with pytest.raises(InputError, match=r"the utterance 'u2': .* does not know 'zyzzyva'"):
        score_hypotheses(bad, strict)
