"""Ensembles against what their members say, and in a search against one of these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim import Vocabulary, check_model, load_model, pool, synthesize
from contstim.arrays import BoolArray
from contstim.errors import InputError, SpecError
from contstim.models import ModelSpec
from contstim.models.base import Event, SentenceModel, SentenceParts
from contstim.models.ensemble import EnsembleModel
from contstim.models.registry import score_kind
from contstim.synthesis.targets import standard_deviations
from contstim.text import Sentence, WordList
from contstim.text.languages import language_called

MEMBERS = ["contstim:bigram", "contstim:trigram", "contstim:trigram?reduction=mean"]
SENTENCES = ["The dog slept.", "Every child in the village knew that song.", "We saw it here."]


@pytest.fixture
def spec(tmp_path: Path) -> str:
    models = [load_model(member) for member in MEMBERS]
    scales = standard_deviations(models, pool())
    path = tmp_path / "three.csv"
    pd.DataFrame({"model": MEMBERS, "scale": scales}).to_csv(path, index=False)
    return f"ensemble:{path}"


def test_the_mean_of_the_members(spec: str) -> None:
    model = load_model(spec)
    assert isinstance(model, EnsembleModel)
    table = pd.read_csv(model.spec.removeprefix("ensemble:"))
    scores = [load_model(m).score(SENTENCES) / s for m, s in table.itertuples(index=False)]
    np.testing.assert_allclose(model.score(SENTENCES), np.mean(scores, axis=0), rtol=1e-12)
    check_model(model, SENTENCES, words=["dog", "child", "here"])
    assert load_model(model.spec).event == model.event
    assert model.event.members.count("trigram") == 2
    assert score_kind(spec) == model.kind
    with pytest.raises(InputError, match="words have no shares"):
        model.parts(SENTENCES)
    with pytest.raises(SpecError, match="reduction=mean"):
        load_model(f"{spec}?reduction=mean")


def test_its_language_is_that_of_its_members(tmp_path: Path) -> None:
    french, text = language_called("fr"), ["L'homme dort."]
    for others, refused in (("language=fr&", False), ("", True)):
        path = tmp_path / f"{refused}.csv"
        members = [
            "contstim:bigram?language=fr&unknown=unk",
            f"contstim:trigram?{others}unknown=unk",
        ]
        pd.DataFrame({"model": members, "scale": [1.0, 1.0]}).to_csv(path, index=False)
        model = load_model(f"ensemble:{path}")
        assert model.language is french
        assert model.totals(text).n_words == [3]
        if refused:
            with pytest.raises(
                InputError, match="'contstim:trigram.*write its spec with language=fr"
            ):
                model.check_language(french, text)
        else:
            model.check_language(french, text)


class Vague(SentenceModel):
    """Knows some words, and says -1 of a sentence, give or take 3."""

    event = Event("words", "none", "none", "keep")
    fingerprint = "vague"
    resolution = 0.5

    def __init__(self, words: str) -> None:
        super().__init__(ModelSpec.parse(f"vague:{words.replace(' ', '-')}"))
        self.words = words.split()

    def knows(self, words: Sequence[str]) -> BoolArray:
        return np.isin(words, self.words)

    def holds(self, sentences: Sequence[str]) -> BoolArray:
        return np.array([bool(self.knows(text.split()).all()) for text in sentences])

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        one = np.array([-1.0]), np.array([0])
        return [SentenceParts(("a",), *one, n_words=1, stderr=3.0) for _ in sentences]


def test_what_is_uncertain_and_unknown(spec: str) -> None:
    model = load_model(spec)
    assert isinstance(model, EnsembleModel)
    model.members, model.scales = [Vague("a b"), Vague("b c")], [1.0, 2.0]
    assert model.knows(["a", "b", "c"]).tolist() == [False, True, False]
    assert model.holds(["a b", "b", "b c"]).tolist() == [False, True, False]
    totals = model.totals(["b"])
    assert totals.score.tolist() == [-0.75]
    assert totals.stderr.tolist() == pytest.approx([np.hypot(3.0, 1.5) / 2])
    assert model.resolution == pytest.approx(0.375)
    before = model.fingerprint
    model.scales = [1.0, 3.0]
    assert model.fingerprint != before
    # What one member knows at once the mean does not.
    model.members = [load_model(MEMBERS[0]), Vague("dog cat")]
    assert not model.replacements(Sentence.parse("dog ran"), 0, WordList.of(["cat"])).exact


def test_an_ensemble_against_a_member(spec: str) -> None:
    ensemble, member = load_model(spec), load_model(MEMBERS[0])
    words = Vocabulary.from_words(
        ["The", "A", "dog", "cat", "sat", "ran", "away", "here", "child", "song"]
    )
    result = synthesize("The cat sat here.", reject=ensemble, accept=member, vocabulary=words)
    assert result.loss < 0
    before, after = member.score(["The cat sat here.", result.sentence])
    assert after >= before
    before, after = ensemble.score(["The cat sat here.", result.sentence])
    assert after - before == pytest.approx(result.loss)


def test_lists_that_make_no_ensemble(tmp_path: Path) -> None:
    def refused(models: list[str], scales: list[float]) -> str:
        path = tmp_path / "list.csv"
        pd.DataFrame({"model": models, "scale": scales}).to_csv(path, index=False)
        with pytest.raises(SpecError) as error:
            load_model(f"ensemble:{path}")
        return str(error.value).replace(str(path), "list.csv")

    assert refused(MEMBERS[:1], [1.0]) == (
        "'ensemble:list.csv' lists 1 model; list two or more, a row each"
    )
    assert refused(MEMBERS[:2], [1.0, 0.0]) == (
        "the scale of 'contstim:trigram' in 'ensemble:list.csv' is 0; give the standard deviation "
        "of its scores of natural sentences"
    )
    assert "the lower score is the better" in refused(
        [MEMBERS[0], "contstim:trigram?reduction=ppl"], [1.0, 1.0]
    )
