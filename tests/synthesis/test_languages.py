"""Synthesis in languages without spaces between words or with rules of agreement."""

from __future__ import annotations

from pathlib import Path

import pytest
from unspaced import segment_by

from contstim import load_model, synthesize
from contstim.errors import InputError
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import Problem
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence
from contstim.text.language import Language
from contstim.text.languages import LANGUAGES, get_language
from contstim.text.vocabulary import Vocabulary
from contstim.text.word_rules import WordRules
from contstim.training.ngram import train_ngram

WORDS = ("猫", "狗", "上海", "上", "海水", "水", "去", "喝")


@pytest.fixture
def unspaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Language:
    """A language without spaces, and two models of it in the working folder."""
    language = Language(code="xx", name="Unspaced", segment=segment_by(WORDS), has_case=False)
    monkeypatch.setitem(LANGUAGES._objects, "xx", language)
    monkeypatch.chdir(tmp_path)
    ends = ("海水", "水", "上海", "猫")
    texts = [*(f"{a}{b}{c}。" for a in "猫狗" for b in "去喝" for c in ends), "猫上狗。"]
    Path("text.txt").write_text("\n".join(texts) + "\n", "utf-8")
    for order in (1, 2):
        train_ngram(
            "text.txt", f"{order}.arpa", order=order, punctuation="split", language=language,
            fallback=(0.5, 1, 1.5),
        )  # fmt: skip
    return language


def spec(order: int, language: str = "&language=xx") -> str:
    return f"ngram:{order}.arpa?punctuation=split{language}"


@pytest.mark.parametrize("strategy", ["edit?candidates=all", "edit"])
def test_replacements_that_change_word_boundaries_are_rejected(
    unspaced: Language, strategy: str
) -> None:
    models = [load_model(spec(order)) for order in (1, 2)]
    vocabulary = Vocabulary.from_words(WORDS, rules=WordRules(language=unspaced))
    start = "猫去海水。"
    # 上 would do, were it not that 上海水 is read as 上海 and 水.
    together = Sentence.parse(start, unspaced).replace(1, "上")
    assert str(together) == "猫上海水。"
    assert not together.round_trips
    scores = models[1].score([start, str(together), "猫狗海水。"])
    assert scores[1] < scores[0]
    assert scores[2] < scores[0]
    for words, expected in ((("上", "去"), start), (("上", "狗"), "猫狗海水。")):
        edits = Edits(fixed=(0, 2), words=((1, words),))
        problem = Problem((models[1],), (models[0],), 100.0, edits=edits)
        result = synthesize(start, problem=problem, vocabulary=vocabulary, strategy=strategy)
        assert result.sentence == expected
        assert Sentence.parse(result.sentence, unspaced).round_trips


def test_models_of_other_languages_are_rejected_before_scoring(
    unspaced: Language,
) -> None:
    vocabulary = Vocabulary.from_words(WORDS, rules=WordRules(language=unspaced))
    models = load_model(spec(1)), load_model(spec(2, ""))
    with pytest.raises(InputError) as error:
        synthesize("猫去海水。", reject=models[0], accept=models[1], vocabulary=vocabulary)
    assert str(error.value) == (
        "'ngram:2.arpa?punctuation=split' splits sentences into words of English, but the "
        "sentences are Unspaced; add language=xx to its spec, or use a model with this option"
    )
    assert models[0].event.units == "words of xx"
    assert [len(values) for values in models[0].score_words(["猫去海水。"])] == [3]


def test_agreement_edits_require_matching_neighbours() -> None:
    french = get_language("fr")
    natural = Sentence.parse("L'homme voit le ami.", french)
    edits = Edits(adjacent_agreement=True)
    assert edits.permits(natural, natural)  # what the natural sentence has may stay
    assert edits.permits(natural, natural.replace(1, "ami"))
    assert not edits.permits(natural, natural.replace(1, "chat"))
    assert not edits.permits(natural, natural.replace(3, "l'").replace(4, "chat"))
    assert edits.permits(natural, natural.replace(3, "l'"))
    assert Edits().permits(natural, natural.replace(1, "chat"))
    english = Sentence.parse("He saw a dog.")
    assert not edits.permits(english, english.replace(3, "apple"))
    assert edits.permits(english, english.replace(2, "an").replace(3, "apple"))


def test_excluded_words_are_case_folded_in_turkish() -> None:
    vocabulary = Vocabulary.from_words(
        ["için", "İçin", "ve", "Ve"], rules=WordRules.for_language("tr")
    )
    remaining = SharedVocabulary(vocabulary, ()).exclude(["için"]).vocabulary
    assert "ve" in remaining.elsewhere
    assert not {"için", "İçin"} & {*remaining.first, *remaining.elsewhere}
