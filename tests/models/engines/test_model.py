"""A model behind an engine is a sentence model, and asks about each text once.

Tests `contstim.models.engines.model` and `contstim.models.engines.answers`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_engines import BOS, Answer, Fake
from tiny_transformers import SENTENCES

from contstim.errors import BudgetError, InputError
from contstim.models.cache import model_identity
from contstim.models.check import check_model
from contstim.models.engines import Echo
from contstim.models.engines import answers as answers_module
from contstim.models.engines.answers import Answers
from contstim.models.engines.model import EngineModel
from contstim.models.registry import load_model

# None of them is one that engines are tried on, whose answers are there.
TEXTS = ["The cat saw a dog.", *SENTENCES[1:]]
Tiny = Callable[[str], Path]


def test_it_keeps_the_contract(fake: Fake, tiny: Tiny) -> None:
    here = load_model(f"hf:{tiny('gpt2')}")
    model = load_model(f"{fake.spec}&prefix={BOS}")
    for one, other in zip(model.score_words(TEXTS), here.score_words(TEXTS), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)
    check_model(model, TEXTS, words=["dog", "saw", "us"])
    assert load_model(model.spec).event == model.event


def test_without_a_prefix_the_first_word_is_a_condition(fake: Fake, tiny: Tiny) -> None:
    here = load_model(f"hf:{tiny('gpt2')}?prefix=none")
    model = load_model(fake.spec)
    assert model.event.start == "none"
    np.testing.assert_allclose(model.score(TEXTS), here.score(TEXTS), atol=1e-3)
    assert np.isnan(model.score_words(TEXTS)[0][0])
    with pytest.raises(InputError) as error:
        model.score(["Dog."])
    assert str(error.value) == (
        f"'Dog.' has one word, and {model.spec} has nothing to predict it from; give a prefix"
    )


def test_a_text_is_asked_about_once_and_beside_what_begins_alike(fake: Fake) -> None:
    model = load_model(f"{fake.spec}&batch=2")
    fake.requests.clear()
    sentences = ["The dog ran.", "A cat ran.", "The dog saw us.", "A cat saw us."]
    scores = model.score([*sentences, *sentences])
    assert fake.asked == [["A cat ran.", "A cat saw us."], ["The dog ran.", "The dog saw us."]]
    np.testing.assert_array_equal(model.score(sentences[::-1]), scores[:4][::-1])
    assert len(fake.requests) == 2


def test_what_and_how_is_asked_is_no_part_of_a_score(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    plain = load_model(fake.spec)
    model = load_model(
        f"{fake.spec}&answers={tmp_path}&requests=100&tokens=9999&timeout=3&key=MY_KEY"
    )
    assert model.spec == plain.spec
    assert model_identity(model) == model_identity(plain)


def test_words_end_where_no_line_may(fake: Fake) -> None:
    model = load_model(fake.spec)
    assert isinstance(model, EngineModel)
    text, tokens = "Dog\u00a0! A cat.", ["<s>", "Dog", "\u00a0", "!", " A", " cat", "."]
    values = [None, -1.0, -2.0, -4.0, -8.0, -16.0, -32.0]
    model.findings = dataclasses.replace(model.findings, opening=("<s>",))
    echo = Echo.spelled(text, tokens, values, [None] * 7)
    assert echo is not None
    model._answers.add([text], [echo])
    np.testing.assert_array_equal(model.score_words([text])[0], [-1, -6, -8, -48])


class _Killed(BaseException):
    pass


def test_kill_and_resume_repeats_no_paid_request(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, served = f"{fake.spec}&batch=1&answers={tmp_path}", list[str]()
    whole = load_model(f"{fake.spec}&batch=1").score(TEXTS)
    model = load_model(spec)
    fake.requests.clear()

    def killed(self: Answers, texts: list[str], echoes: list[Echo], **more: float) -> None:
        if len(fake.requests) == 3:  # it is answered, and then the power goes
            raise _Killed
        keep(self, texts, echoes, **more)

    keep = Answers.add
    monkeypatch.setattr(Answers, "add", killed)
    with pytest.raises(_Killed):
        model.score(TEXTS)
    monkeypatch.setattr(Answers, "add", keep)
    served += [text for (text,) in fake.asked]
    fake.requests.clear()
    resumed = load_model(spec)
    # Three texts tell whether it is the same engine still.
    assert len(fake.requests) == 3
    fake.requests.clear()
    np.testing.assert_array_equal(resumed.score(TEXTS), whole)
    assert [text for (text,) in fake.asked] == sorted(TEXTS)[2:]
    assert served == sorted(TEXTS)[:3]
    assert resumed.resolution == model.resolution


def test_a_budget_that_is_spent_goes_on_with_another(fake: Fake, tmp_path: Path) -> None:
    spec = f"{fake.spec}&batch=1&answers={tmp_path}"
    with pytest.raises(BudgetError):
        load_model(f"{spec}&requests=14").score(TEXTS)
    assert len(fake.requests) == 14
    load_model(f"{spec}&requests=14").score(TEXTS)
    # Three texts tell whether it is the same engine still.
    assert [text for texts in fake.asked[14:] for text in texts][3:] == sorted(TEXTS)[2:]


def test_answers_of_two_engines_share_a_folder(fake: Fake, tmp_path: Path) -> None:
    load_model(f"{fake.spec}&answers={tmp_path}").score(TEXTS)
    fake.requests.clear()
    other = fake.spec.replace("model=tiny", "model=other")
    load_model(f"{other}&answers={tmp_path}").score(TEXTS)
    assert len(fake.requests) == 9
    assert len([*tmp_path.iterdir()]) == 2


def test_a_damaged_answer_is_named(fake: Fake, tmp_path: Path) -> None:
    spec = f"{fake.spec}&answers={tmp_path}"
    load_model(spec)
    (path,) = tmp_path.rglob("*.json")
    path.write_text('{"answers": [{}]}', "utf-8")
    with pytest.raises(InputError) as error:
        load_model(spec)
    assert str(error.value) == f"{path} is no file of answers ('text'); remove it"


def test_memory_holds_the_last_texts(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "_MOST", 2)
    model = load_model(fake.spec)
    scores = model.score(TEXTS)
    fake.requests.clear()
    np.testing.assert_array_equal(model.score(TEXTS), scores)
    model.score(["The man ran.", "The woman ran."])
    model.score(["The woman ran.", *TEXTS])
    assert fake.asked == [["The man ran.", "The woman ran."], sorted(TEXTS)]


def test_a_number_that_is_missing_is_not_made_up(fake: Fake) -> None:
    model = load_model(fake.spec)

    def cut(answers: list[Answer]) -> list[Answer]:
        answers[0].values[-2] = None
        return answers

    fake.fault = cut
    with pytest.raises(InputError, match="gives no log-probability for a token of"):
        model.score(TEXTS)
