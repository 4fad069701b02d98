"""Test commands in other languages, and vocabularies made by a command.

Tests `contstim.cli.vocabulary` and `contstim.cli.vocabularies`.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from contstim.cli import main
from contstim.text.vocabulary import Vocabulary

TEXT = """\
Der Hund sah die Katze im Garten.
Die Katze lief schnell nach Hause zurück.
Ein Mann ging langsam durch den Wald.
Die Frau las ein Buch am Fenster.
"""
START = "Die Katze sah den Mann im Garten."


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_bytes(TEXT.replace("\n", "\r\n").encode())  # as saved on Windows
    for order in "23":
        train = ["models", "train", "ngram", "text.txt", "--order", order, "--min-count", "1"]
        out = ["--fallback", "0.5,1,1.5", "--out", f"{order}.arpa"]
        assert main([*train, *out]) == 0
    return ["--pair", "ngram:2.arpa", "ngram:3.arpa"]


def test_missing_vocabulary_is_reported_and_can_be_made(
    pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["synthesize", *pair, START]) == 1
    said = capsys.readouterr().err
    assert (
        "the vocabulary has 1 of the 7 different words of the sentences; if they are in another "
        "language, make a vocabulary with 'contstim vocabulary' and give it as --vocabulary\n"
    ) in said
    assert "ngram:3.arpa and ngram:2.arpa know 0 of the 12,313 words that may replace" in said

    make = ["vocabulary", "text.txt", "--language", "de", "--names", "inside", "--out", "words.csv"]
    assert main(make) == 0
    made = Vocabulary.read("words.csv")
    assert set(made.first) == {"Der", "Die", "Ein"}
    assert {"Hund", "sah", "die", "Katze", "zurück"} <= set(made.elsewhere)
    assert "Der" not in made.elsewhere  # seen first only
    assert capsys.readouterr().err == (
        "offensive words of German are not excluded: one list is LDNOOBW (npm "
        "naughty-words, CC BY 4.0)\n"
        f"3 words allowed at the start of sentences, {len(made.elsewhere)} elsewhere\n"
    )
    out = ["--vocabulary", "words.csv", "--out", "triplets.csv"]
    assert main(["synthesize", *pair, START, *out]) in (0, 1)
    assert "vocabulary has" not in capsys.readouterr().err
    assert list(pd.read_csv("triplets.csv")["natural"]) in ([START], [])


def test_wordfreq_vocabulary_contains_words_of_the_models(
    pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    make = ["vocabulary", "--language", "nl", "--size", "400", "--model", pair[1]]
    assert main(make) == 0
    printed, said = capsys.readouterr()
    words = [line.split(",")[0] for line in printed.splitlines()[1:]]
    assert "die" in words
    assert "en" not in words
    assert "words excluded that are not in the vocabulary of ngram:2.arpa\n" in said
    assert main(["vocabulary", "--language", "klingon"]) == 2
    assert "unknown wordfreq language 'klingon'" in capsys.readouterr().err
    assert main(["vocabulary", "--language", "de"]) == 2
    assert capsys.readouterr().err == (
        "contstim: wordfreq lists the words of German in lower case, nouns too; make the "
        "vocabulary from a text, which has their capitals\n"
    )


def test_vocabulary_options_filter_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taboo.txt").write_text("house\n", "utf-8")
    options = ["--min-zipf", "4.5", "--part-of-speech", "noun", "--block", "taboo.txt"]
    more = ["--offensive", "0", "--casing", "sentence", "--out", "words.csv"]
    assert main(["vocabulary", "--words", "bundled", *options, *more]) == 0
    words = Vocabulary.read("words.csv")
    assert "water" in words.elsewhere
    assert "Water" in words.first
    assert not {"house", "fire", "went", "umbrella"} & {*words.elsewhere}
    assert words.tags["water"][0] == "NN"
    assert main(["vocabulary", "--words", "words.csv", "--names", "none"]) == 0
    assert main(["vocabulary", "taboo.txt", "--words", "bundled"]) == 2
    assert "--words bundled and the text taboo.txt: give one" in capsys.readouterr().err


def test_english_catch_trials_in_a_german_study_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = TEXT.splitlines()
    pair = {"model_1": ["a"], "model_2": ["b"]}
    natural = pair | {"sentence_1": lines[:1], "sentence_2": lines[1:2]}
    pd.DataFrame(natural).to_csv("pairs.csv", index=False)
    Path("pool.txt").write_text(TEXT, encoding="utf-8")
    design = ["design", "trials", "--natural", "pairs.csv", "--groups", "1", "--catch", "1"]
    told = (
        "catch trials and random pairs are made of the bundled English sentences, and the bundled "
        "vocabulary has 1 of the 12 words of your pairs and triplets; if they are in another "
        "language, give natural sentences in that language with --sentences\n"
    )
    assert main([*design, "--out", "trials.csv"]) == 0
    assert told in capsys.readouterr().err
    assert main([*design, "--sentences", "pool.txt", "--out", "german.csv"]) == 0
    assert "--sentences" not in capsys.readouterr().err
    assert set(pd.read_csv("german.csv")["sentence_1"]) <= {*lines}
    assert main([*design[:-2], "--out", "none.csv"]) == 0  # no trial is of the pool
    assert "--sentences" not in capsys.readouterr().err
