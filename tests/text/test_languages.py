"""The bundled languages, and detection of the language of a text.

Tests `contstim.text.languages`.
"""

import pickle
import sys
from itertools import pairwise

import pytest

from contstim.errors import MissingExtraError
from contstim.text.language import Language
from contstim.text.languages import (
    ENGLISH,
    LANGUAGES,
    detect_language,
    get_language,
    segment_chinese,
)


@pytest.mark.parametrize(
    ("code", "wrong", "right"),
    [
        ("en", "a apple, an dog", "an apple, a dog, an hour, a unit, a one"),
        (
            "es",
            "la agua, el casa, el canción, la perro, un casas, los gato, y iglesia, o ocho, de el",
            "el agua, la casa, el mapa, la mano, el problema, un día, los gatos, y hielo, el lunes",
        ),
        (
            "fr",
            "le homme, l' chat, ma amie, ce arbre, cet chat, du eau, l' héros, si il, que on, c' a",
            "l' homme, le chat, mon amie, cet arbre, le héros, la haine, si elle, c' est, le onze",
        ),
        (
            "tr",
            "araba mi, geldi mı, okudu mü, gördü mu, araba de, ev da, geldi mıdır",
            "araba mı, geldi mi, okudu mu, gördü mü, araba da, ev de, araba misafir, o müdür",
        ),
    ],
)
def test_agreement_rules_of_languages(code: str, wrong: str, right: str) -> None:
    language = get_language(code)

    def reasons(pair: str) -> list[str]:
        words = pair.split()
        both = pairwise(words)
        return [reason for a, b in both if (reason := language.agreement_error(a, b))]

    for pair in wrong.split(", "):
        assert reasons(pair), pair
    for pair in right.split(", "):
        assert not reasons(pair), pair


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "The dog is here, and no one sees that it was the cat."),
        ("de", "Der Hund ist da und nicht dort."),
        ("es", "El perro no come con la mano."),
        ("fr", "Le chat est dans la maison et il dort."),
        ("tr", "Köpek bu akşam eve geldi ve uyudu."),
        ("he", "הכלב ישן ליד הדלת."),
        ("zh", "我喜欢猫。"),
        ("en", "Zzz."),
    ],
)
def test_detect_language(code: str, text: str) -> None:
    assert detect_language([text]).code == code


def test_get_language_by_code() -> None:
    assert get_language("en-US") is ENGLISH
    assert get_language("de_AT").noun_cues
    other = get_language("fi")
    assert (other.is_space_delimited, other.repeatable, other.offensive_list) == (
        True,
        frozenset(),
        "",
    )
    assert get_language("fi") is other
    for code, language in LANGUAGES.items():
        assert code == language.code
        assert pickle.loads(pickle.dumps(language)) is language
    mine = Language(code="en", name="Mine")
    assert pickle.loads(pickle.dumps(mine)).name == "Mine"


def test_missing_chinese_segmenter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    from contstim.text import languages

    languages._load_jieba.cache_clear()
    with pytest.raises(MissingExtraError) as caught:
        get_language("zh").split("我喜欢猫")
    languages._load_jieba.cache_clear()
    assert str(caught.value) == (
        "Chinese needs the segmenter jieba, which is not installed; run: pip install jieba"
    )


def test_chinese_segmentation() -> None:
    pytest.importorskip("jieba", reason="an optional package, of the extra 'chinese'")
    assert segment_chinese("他用Python3.5写代码") == ["他", "用", "Python3.5", "写", "代码"]
    chinese = get_language("zh")
    words = chinese.split("我喜欢猫，但是他说：“你好！”")
    assert words == ["我", "喜欢", "猫，", "但是", "他", "说：", "“你好！”"]
    # 研究生 before 命 is read as 研究 and 生命: both neighbours change.
    assert chinese.split("研究生命") == ["研究", "生命"]
    assert chinese.split("研究生命") != ["研究生", "命"]
