"""Segmentation, joining and comparison of words by language.

Tests `contstim.text.language`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unspaced import segment_by

from contstim.errors import InputError
from contstim.text import Sentence, WordList, find_repeats, tokenize_word
from contstim.text.language import AgreementRule, Language, is_closing, split_word
from contstim.text.languages import ENGLISH, LANGUAGES, get_language
from contstim.text.normalise import normalise_sentence

FRENCH, TURKISH, SPANISH = (get_language(code) for code in ("fr", "tr", "es"))
WORDS = ("上", "上海", "海", "海水", "水", "大", "大水", "去", "猫")


UNSPACED = Language(code="xx", name="Unspaced", segment=segment_by(WORDS), has_case=False)


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        ("en", "Don't  stop, Ann's dog.", ["Don't", "stop,", "Ann's", "dog."]),
        ("de", "Der „alte“ Hund.", ["Der", "„alte“", "Hund."]),
        ("es", "¿Dónde está? ¡Aquí!", ["¿Dónde", "está?", "¡Aquí!"]),
        ("fr", "L'homme d’hier, c'est lui.", ["L'", "homme", "d’", "hier,", "c'", "est", "lui."]),
        ("fr", "Aujourd'hui quelqu'un entre.", ["Aujourd'hui", "quelqu'un", "entre."]),
        ("fr", "Qui ? « Moi » : oui !", ["Qui\u202f?", "«\xa0Moi\xa0»\xa0:", "oui\u202f!"]),
        ("fr", "Il dit : « L'eau ».", ["Il", "dit\xa0:", "«\xa0L'", "eau\xa0»."]),
        ("tr", "Ankara'da ısı var mı?", ["Ankara'da", "ısı", "var", "mı?"]),
        ("he", 'הוא גר ליד צה"ל.', ["הוא", "גר", "ליד", 'צה"ל.']),
    ],
)
def test_split_into_words_by_language(code: str, text: str, words: list[str]) -> None:
    language = get_language(code)
    assert language.split(text) == words
    assert language.split(language.join(words)) == words
    assert language.normalise_spacing(
        language.normalise_spacing(text)
    ) == language.normalise_spacing(text)


def test_french_marks_have_no_break_spaces() -> None:
    text = FRENCH.normalise_spacing("Tu viens ? « Oui » ; viens : là !")
    assert text == "Tu viens\u202f? «\xa0Oui\xa0»\u202f; viens\xa0: là\u202f!"
    assert normalise_sentence(f"  {text} ") == text  # and stay, whoever makes spaces single
    assert normalise_sentence("one\xa0two  three") == "one two three"
    assert Sentence.parse(text, FRENCH).words == ("Tu", "viens", "Oui", "viens", "là")
    # Models of words see the marks alone.
    assert tokenize_word("là\u202f!", "split") == ["là", "!"]
    assert tokenize_word("là\u202f!", "keep") == ["là!"]
    assert tokenize_word("«\xa0Moi\xa0»", "drop") == ["Moi"]


def test_segmentation_without_spaces() -> None:
    assert UNSPACED.split("大水，去上海。") == ["大水，", "去", "上海。"]
    assert UNSPACED.split("“猫”去（上）") == ["“猫”", "去", "（上）"]
    sentence = Sentence.parse("猫去上海。", UNSPACED)
    assert sentence.words == ("猫", "去", "上海")
    assert str(sentence) == "猫去上海。"
    assert UNSPACED.join(["new", "york", "猫"]) == "new york猫"
    # 上 before 海水 would be read as 上海 and 水: the neighbours would change.
    assert UNSPACED.split("去上海水") == ["去", "上海", "水"]
    assert not sentence.replace(1, "上").replace(2, "海水").round_trips
    assert sentence.replace(0, "大水").round_trips


cores = st.text("abcdefghijklm'-éàçñü", min_size=1, max_size=6).filter(str.strip)
french = st.sampled_from("l' d' qu' L' Qu' jusqu' homme eau est aujourd'hui quelqu'un chat".split())  # noqa: SIM905
after = st.sampled_from(["", "", "", ",", ".", "\u202f?", "\u202f!", "\xa0:", "\xa0»"])
before = st.sampled_from(["", "", "", "«\xa0", "("])


@given(st.lists(st.tuples(before, french, after), min_size=1, max_size=9))
def test_french_words_round_trip(parts: list[tuple[str, str, str]]) -> None:
    words = ["".join(part) for part in parts]
    assert FRENCH.split(FRENCH.join(words)) == words
    assert FRENCH.normalise_spacing(FRENCH.join(words)) == FRENCH.join(words)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9))
def test_segmented_text_is_joined_without_spaces(words: list[str]) -> None:
    text = "".join(words)
    assert UNSPACED.join(words) == text
    assert UNSPACED.split(text) == segment_by(WORDS)(text)


@given(st.sampled_from(sorted({*LANGUAGES} - {"zh"})), st.lists(cores, min_size=1, max_size=8))
def test_space_delimited_words_round_trip(code: str, words: list[str]) -> None:
    language = get_language(code)
    if not any(language.is_elided(split_word(word)[1]) or "'" in word for word in words):
        text = language.join(words)
        assert language.split(text) == words
        assert [text[a:b] for a, b in language.word_spans(text)] == words


def test_word_spans_of_french() -> None:
    text = FRENCH.normalise_spacing("L'eau , c'est quoi ?")
    assert [text[a:b] for a, b in FRENCH.word_spans(text)] == FRENCH.split(text)
    with pytest.raises(InputError, match=r"cannot find the word 'quoi\\u202f\?' in 'quoi \?'"):
        FRENCH.word_spans("quoi ?")


def test_case_mapping_of_turkish() -> None:
    assert TURKISH.capitalise("izmir") == "İzmir"
    assert TURKISH.capitalise("ısı") == "Isı"
    assert TURKISH.lower("IŞIK İÇİN") == "ışık için"
    assert TURKISH.fold("İnsan") == TURKISH.fold("insan") != TURKISH.fold("ınsan")
    assert find_repeats(["Işık", "ışık"], (), TURKISH.fold) == ["ışık"]
    words = WordList(("İnsan", "insan", "ısı"))
    assert words.case_insensitive_index(TURKISH)["insan"] == [0, 1]
    assert words.case_insensitive_index(ENGLISH).get("insan") == [1]


def test_sentence_from_words_by_language() -> None:
    assert str(Sentence.from_words(["quién", "viene"], "?", SPANISH)) == "¿Quién viene?"
    assert str(Sentence.from_words(["l'", "eau", "dort"], "!", FRENCH)) == "L'eau dort\u202f!"
    assert str(Sentence.from_words(["izin", "ver"], ".", TURKISH)) == "İzin ver."
    assert str(Sentence.from_words(["the", "dog"])) == "The dog."


def test_space_before_or_after_marks_only() -> None:
    closing = Language(code="zz", name="Z", space_before={"!": "\u202f"})
    assert closing.split("Non ! « Si »") == ["Non\u202f!", "«", "Si", "»"]
    opening = Language(code="zz", name="Z", space_after={"«": "\xa0"})
    assert opening.split("Non ! « Si »") == ["Non", "!", "«\xa0Si", "»"]
    assert opening.normalise_spacing("« Si") == "«\xa0Si"


def test_agreement_errors() -> None:
    language = Language(code="yy", name="Y", agreement=(AgreementRule("a", "[aeio].*", "an"),))
    assert language.agreement_error("A", "Apple") == "an"
    assert language.agreement_error("A", "dog") == ""
    sentence = Sentence.parse("A apple, a dog, a, egg, a egg", language)
    assert sentence.agreement_errors == [("A", "apple", "an"), ("a", "egg", "an")]


def test_is_closing() -> None:
    assert is_closing(".”")
    assert not is_closing("")
    assert not is_closing("a.")
