"""A custom language: in commands, models and Python."""

import pandas as pd
import pytest

from contstim import load_model, synthesize
from contstim.errors import InputError
from contstim.text import Sentence
from contstim.text.languages import detect_language, get_language
from contstim.text.vocabulary import Vocabulary

ARTICLES = ["L'amico", "Un uomo", "L'uomo", "La donna", "Un'amica", "Il cane", "La gatta"]
VERBS = ["vede", "cerca", "trova", "perde", "porta", "sente"]
OBJECTS = ["l'acqua", "il pane", "la porta", "l'isola", "un libro", "un'arancia", "la mela"]
PLACES = ["oggi", "nell'orto", "a casa", "sull'erba", "ieri"]


@pytest.fixture
def italian(add_extension):
    """Install the language `it`, and write a text of it."""
    add_extension("italian", "contstim.languages", "it = ITALIAN")
    text = [
        f"{a} {v} {o} {p}."
        for i, a in enumerate(ARTICLES)
        for j, v in enumerate(VERBS)
        for k, o in enumerate(OBJECTS)
        for n, p in enumerate(PLACES)
        if (i + 2 * j + 3 * k + n) % 4 == 0
    ]
    with open("text.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")
    return text


def test_custom_language_in_commands(italian, run):
    train = ["models", "train", "ngram", "text.txt", "--punctuation", "split", "--language", "it"]
    for order in ("2", "3"):
        ended = run(*train, "--order", order, "--fallback", "0.5,1,1.5", "--out", f"{order}.arpa")
        assert ended.returncode == 0, ended.stderr
    ended = run("vocabulary", "text.txt", "--out", "words.csv")
    assert "text.txt seems to be Italian" in ended.stderr
    words = pd.read_csv("words.csv")
    assert {"L'", "l'", "Un'", "acqua", "nell'"} <= {*words["word"]}
    assert {*words["language"]} == {"it"}
    specs = [f"ngram:{order}.arpa?language=it&punctuation=split" for order in (2, 3)]
    pair = ["--pair", *specs, "--vocabulary", "words.csv", "--edits", "agreement"]
    pair += ["--max-word-share", "1", "--out", "triplets.csv"]
    ended = run("synthesize", *italian[::20], *pair)
    assert ended.returncode == 0, ended.stderr
    language = get_language("it")
    table = pd.read_csv("triplets.csv")
    for text in table[["synthetic_1", "synthetic_2"]].to_numpy().ravel():
        sentence = Sentence.parse(text, language)
        assert sentence.round_trips
        assert not sentence.agreement_errors
        assert "' " not in text


def test_custom_language_in_python(italian, run):
    language = get_language("it")
    assert detect_language(["Il cane non è nella casa, che è della donna."]) is language
    assert language.split("Un'amica dell'uomo.") == ["Un'", "amica", "dell'", "uomo."]
    assert Sentence.parse("L' cane vede una isola.", language).agreement_errors == [
        ("L'", "cane", "no elision"),
        ("una", "isola", "elision"),
    ]
    train = ["models", "train", "ngram", "text.txt", "--punctuation", "split", "--language", "it"]
    for order in ("2", "3"):
        run(*train, "--order", order, "--fallback", "0.5,1,1.5", "--out", f"{order}.arpa")
    two = load_model("ngram:2.arpa?language=it&punctuation=split")
    assert two.event.units == "words of it"
    words = Vocabulary.from_text("text.txt", rules=None)
    blind = load_model("ngram:3.arpa?punctuation=split")
    italian_words = Vocabulary(words.first, words.elsewhere, language=language)
    with pytest.raises(InputError) as error:
        synthesize(italian[0], reject=two, accept=blind, vocabulary=italian_words)
    assert str(error.value) == (
        "'ngram:3.arpa?punctuation=split' splits sentences into words of English, but the "
        "sentences are Italian; add language=it to its spec, or use a model with this option"
    )
