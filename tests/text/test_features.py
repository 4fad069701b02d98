"""Features of sentences, and what in them is flagged."""

import pytest
from wordfreq import zipf_frequency

from contstim import pool
from contstim.text.features import has_distinct_words, sentence_features, sentence_flags


def test_length_and_frequency():
    table = sentence_features(['"Stop!" she said.', "Qqqzzx"])
    assert table.index.tolist() == ['"Stop!" she said.', "Qqqzzx"]
    assert table["words"].tolist() == [3, 1]
    assert table["characters"].tolist() == [17, 6]
    mean = sum(zipf_frequency(word, "en") for word in ("Stop", "she", "said")) / 3
    assert table["zipf"].tolist() == [pytest.approx(mean), 0.0]


@pytest.mark.parametrize("code", ["eu", "et"])
def test_a_language_without_frequencies_has_none(code):
    table = sentence_features(["Txakurra lo dago."], language=code)
    assert table["zipf"].isna().all()
    assert table["words"].tolist() == [3]


def test_distinct_words():
    sentences = ["The cat saw the dog.", "A cat in a hat in May", "One two three"]
    assert has_distinct_words(sentences).tolist() == [False, False, True]
    assert has_distinct_words(sentences, ["The", "in"]).tolist() == [True, False, True]
    assert has_distinct_words(sentences, ["a", "in", "the"]).all()


@pytest.mark.parametrize(
    ("sentence", "flags"),
    [
        ("The dog saw two cats near the gate.", []),
        ("The fire was hot.", ["offensive word: fire"]),
        ("The dog saw the dog.", ["word twice: dog"]),
        ("She lives in the the house.", ["word twice: the the"]),
        ("The tall man met Anna here.", ["name: Anna"]),
        ("He met McZyzzyva there.", ["name: McZyzzyva"]),
        ("It cost 40 pounds.", ["number: 40"]),
        (
            "Those was a apple to went.",
            ["agreement: a apple ('an' before a vowel)", "agreement: to went (not a base form)"],
        ),
        ("He ate these dog.", ["agreement: these dog (singular after a plural)"]),
        ("Every dogs ran.", ["agreement: every dogs (plural after a singular)"]),
        ("We saw his, and went.", []),
        ("The man slept with the.", ["agreement: ends in the"]),
    ],
)
def test_flags(sentence: str, flags: list[str]) -> None:
    assert sentence_flags(sentence) == flags


def test_rare_words() -> None:
    (flag,) = sentence_flags("The old vicar saw a zyzzyva.")
    assert flag == "rare word: zyzzyva (Zipf 0.0)"


def test_few_pool_sentences_have_agreement_flags() -> None:
    flagged = [s for s in pool() if any(f.startswith("agreement") for f in sentence_flags(s))]
    assert len(flagged) <= 5, flagged
