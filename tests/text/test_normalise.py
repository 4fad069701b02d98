"""The canonical form of sentences and labels, and the matching of sentences."""

from __future__ import annotations

import unicodedata

import pandas as pd
import pytest

import contstim
from contstim.errors import InputError
from contstim.text.normalise import (
    alphanumeric_key,
    check_sentences,
    match_sentences,
    normalise_label,
    normalise_labels,
    normalise_sentence,
)


@pytest.mark.parametrize(
    "text", ["Der Bär schläft früh.", "Tu viens\u202f? «\xa0Oui\xa0»", "Añ  o"]
)
def test_canonical_form_of_sentences(text: str) -> None:
    forms = (text, f" {text}\t", unicodedata.normalize("NFD", text), text.replace(" ", "  "))
    assert {normalise_sentence(form) for form in forms} == {text.replace("  ", " ")}


@pytest.mark.parametrize("label", ["007", "NA", "null", "None", "1e5", "p 1", "Stück 1"])
def test_normalise_label_preserves_spelling(label: str) -> None:
    for form in (label, f"{label} ", unicodedata.normalize("NFD", label)):
        assert normalise_label(form) == label
    column = normalise_labels(pd.Series([label, None], dtype=object))
    assert column.tolist()[0] == label
    assert column.isna().tolist() == [False, True]


def test_whole_number_labels_have_no_decimal_point() -> None:
    assert normalise_labels(pd.Series([7.0, None, 7.5])).tolist()[::2] == ["7", "7.5"]


def test_sentences_match_without_a_final_period() -> None:
    assert match_sentences(["We left"], ["We left."]) == {"We left": "We left."}
    assert match_sentences(["We left."], ["We left"]) == {"We left.": "We left"}
    both = ["We left", "We left."]
    assert match_sentences(both, both) == dict(zip(both, both, strict=True))
    assert match_sentences(both, ["We left."]) == {"We left.": "We left."}


@pytest.mark.parametrize(
    "spelling",
    [
        *("He’s well-known.", "He's well known", "HE'S WELL-KNOWN!", '"He\'s well-known."'),
        *("He's  well\u2013known .", "He's well\u00ad-known.", "He\u200b's well-known."),
    ],
)
def test_alphanumeric_key_ignores_spelling(spelling: str) -> None:
    assert alphanumeric_key(spelling) == alphanumeric_key("He's well-known.")


def test_alphanumeric_key_composes_accents() -> None:
    spelling = unicodedata.normalize("NFD", "Der Bär schläft")
    assert alphanumeric_key(spelling) == alphanumeric_key("Der Bär schläft.")
    assert alphanumeric_key(spelling) != alphanumeric_key("Der Bar schlaft.")


def test_scores_are_equal_for_all_spellings() -> None:
    model = contstim.load_model("contstim:trigram?unknown=unk")
    text = "He saw the café."
    forms = [text, unicodedata.normalize("NFD", text), "He  saw the café."]
    assert len(set(model.score(forms).tolist())) == 1


def test_check_sentences_rejects_strings_and_empty_sentences() -> None:
    with pytest.raises(InputError, match="give a list of sentences, not the single string 'a b'"):
        check_sentences("a b")
    with pytest.raises(InputError, match="sentence 2 is empty; a sentence needs at least one word"):
        check_sentences(["a", " "])
    assert check_sentences(["the \U0001f600 dog"]) == ["the \U0001f600 dog"]
