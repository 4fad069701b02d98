"""Texts of six languages, made by small grammars: free of rights, and right to the letter.

    python experiments/languages/texts.py --language fr --n 3000 --seed 1 --out french.txt

A pattern is a sentence with slots; what fills a slot has its article and its form already, so that
nothing has to agree that is not written so. Elision and the particle of Turkish questions are
written by hand beside each word, not by the rules that the texts are to test.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

_SLOT = re.compile(r"\{(\w+)\}")


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split("|")]


GERMAN = {
    "S": _list(
        "der Hund|die Katze|das Kind|der alte Mann|die Lehrerin|mein Bruder|"
        "unsere Nachbarin|ein Fremder|die junge Ärztin|der Gärtner|meine Tante|"
        "der König|eine Malerin|der Bäcker"
    ),
    "V": _list(
        "sieht|sucht|malt|kauft|verliert|findet|vergisst|zeigt|versteckt|holt|bringt|braucht"
    ),
    "O": _list(
        "den Apfel|die Tür|das Buch|einen Brief|eine Lampe|den Schlüssel|das Brot|"
        "die Übung|einen Mantel|das alte Haus|ein Geschenk|den großen Löffel|die Straße|"
        "kein Geld|viele Äpfel"
    ),
    "A": _list(
        "am Abend|im Garten|heute|jeden Morgen|ohne Grund|am Bahnhof|in der Küche|"
        "gestern|nach dem Essen|im Winter|auf dem Markt|zum Glück"
    ),
    "": [
        "{S} {V} {O} {A}.",
        "{A} {V} {S} {O}.",
        "{V} {S} {A} {O}?",
        "Warum {V} {S} {O}?",
        "{S} {V} {O}, aber {S} {V} {O}.",
        "„{S} {V} {O}“, sagt {S}.",
        "{S} {V} {A} {O}!",
        "Wer {V} {A} {O}?",
    ],
}

SPANISH = {
    "S": _list(
        "el perro|la gata|el niño|la maestra|mi hermano|nuestra vecina|un extraño|"
        "la médica joven|el jardinero|mi tía|el rey|una pintora|el panadero|el águila"
    ),
    "V": _list("ve|busca|pinta|compra|pierde|encuentra|olvida|enseña|esconde|trae|necesita|lleva"),
    "O": _list(
        "la manzana|la puerta|el libro|una carta|una lámpara|la llave|el pan|el agua|"
        "un abrigo|la casa vieja|un regalo|la cuchara grande|la mano|el problema|"
        "las manzanas|los libros"
    ),
    "A": _list(
        "por la noche|en el jardín|hoy|cada mañana|sin razón|en la estación|"
        "en la cocina|ayer|después de comer|en invierno|en el mercado|con cuidado"
    ),
    "": [
        "{S} {V} {O} {A}.",
        "{A} {S} {V} {O}.",
        "¿Por qué {V} {S} {O}?",
        "¿Quién {V} {O} {A}?",
        "¡{S} {V} {O} {A}!",
        "{S} {V} {O}, pero {S} {V} {O}.",
        "«{S} {V} {O}», dice {S}.",
    ],
}

FRENCH = {
    "S": _list(
        "le chien|la chatte|l'enfant|l'homme|la maîtresse|mon frère|notre voisine|"
        "un inconnu|l'avocate|le jardinier|ma tante|mon amie|le roi|une artiste|"
        "le boulanger|le héros|cet élève|l'oiseau"
    ),
    "Q": _list(
        "que le chien|que la chatte|que l'enfant|que l'homme|que mon frère|que ma tante|"
        "qu'un inconnu|qu'une artiste|que le héros|que l'oiseau|qu'elle|qu'il|qu'on"
    ),
    "V": _list(
        "voit|cherche|peint|achète|perd|trouve|oublie|montre|cache|apporte|aime|attend|écoute"
    ),
    "O": _list(
        "la pomme|la porte|le livre|une lettre|une lampe|la clé|l'eau|l'école|"
        "un manteau|l'arbre|la vieille maison|un cadeau|l'orange|le haricot|l'île|"
        "les étoiles|l'histoire|l'été"
    ),
    "A": _list(
        "le soir|dans le jardin|aujourd'hui|chaque matin|sans raison|à l'école|"
        "dans la cuisine|hier|après l'orage|en hiver|au marché|d'habitude|jusqu'à midi|"
        "avec quelqu'un"
    ),
    "": [
        "{S} {V} {O} {A}.",
        "{A}, {S} {V} {O}.",
        "Pourquoi est-ce {Q} {V} {O}\u202f?",
        "Est-ce {Q} {V} {O} {A}\u202f?",
        "{S} {V} {O} {A}\u202f!",
        "{S} {V} {O}\u202f; {S} {V} {O}.",
        "{S} dit\u00a0: «\u00a0{S} {V} {O}\u202f!\u00a0»",
        "Je crois {Q} {V} {O} {A}.",
        "C'est {S} qui {V} {O} {A}.",
    ],
}

TURKISH = {
    "S": _list(
        "köpek|kedi|çocuk|yaşlı adam|öğretmen|kardeşim|komşumuz|bir yabancı|"
        "genç doktor|bahçıvan|teyzem|kral|bir ressam|fırıncı|İpek|Işık|"
        "ırmaktaki balıkçı|ihtiyar usta"
    ),
    "O": _list(
        "elmayı|kapıyı|kitabı|bir mektubu|lambayı|anahtarı|ekmeği|ısıyı|bir paltoyu|"
        "eski evi|hediyeyi|büyük kaşığı|ırmağı|iğneyi|İstanbul'u|Ankara'yı"
    ),
    "V": _list(
        "gördü|aradı|çizdi|aldı|kaybetti|buldu|unuttu|gösterdi|sakladı|getirdi|sevdi|bekledi"
    ),
    "M": _list(
        "gördü mü|aradı mı|çizdi mi|aldı mı|kaybetti mi|buldu mu|unuttu mu|"
        "gösterdi mi|sakladı mı|getirdi mi|sevdi mi|bekledi mi"
    ),
    "A": _list(
        "akşam|bahçede|bugün|her sabah|nedensiz yere|istasyonda|mutfakta|dün|"
        "yemekten sonra|kışın|çarşıda|İzmir'de|ıssız yolda|iki gün önce"
    ),
    "": [
        "{S} {A} {O} {V}.",
        "{A} {S} {O} {V}.",
        "{S} {O} {M}?",
        "{A} {S} {O} {M}?",
        "{S} {O} {V} ama {S} {A} {O} {V}.",
        "“{S} {O} {V},” dedi {S}.",
        "{S} neden {A} {O} {V}?",
        "{S} {A} {O} {V}!",
    ],
}

HEBREW = {
    "S": _list('הכלב|הילד|הזקן|אחי|שכננו|אדם זר|הרופא הצעיר|הגנן|דודי|המלך|הצייר|האופה|ד"ר כהן'),
    "V": _list("ראה|חיפש|צייר|קנה|איבד|מצא|שכח|הראה|הסתיר|הביא|אהב"),
    "F": _list("החתולה|הילדה|המורה שלנו|אחותי|השכנה|אישה זרה|הרופאה הצעירה|דודתי|המלכה|הציירת"),
    "W": _list("ראתה|חיפשה|ציירה|קנתה|איבדה|מצאה|שכחה|הראתה|הסתירה|הביאה|אהבה"),
    "O": _list(
        "את התפוח|את הדלת|את הספר|מכתב|מנורה|את המפתח|את הלחם|את המים|מעיל|את הבית הישן|מתנה"
        '|את הכף הגדולה|את בית־הספר|תנ"ך'
    ),
    "A": _list("בערב|בגינה|היום|בכל בוקר|בלי סיבה|בתחנה|במטבח|אתמול|אחרי האוכל|בחורף|בשוק|ליד הים"),
    "": [
        "{S} {V} {O} {A}.",
        "{F} {W} {O} {A}.",
        "{A} {S} {V} {O}.",
        "{A} {F} {W} {O}.",
        "למה {S} {V} {O} {A}?",
        "מתי {F} {W} {O}?",
        "{S} {V} {O}, אבל {F} {W} {O}.",
        '"{F} {W} {O}", אמר {S}.',
        "{S} {V} {A} {O}!",
    ],
}

CHINESE = {
    "S": _list("我|他|她|老师|医生|我们|孩子|农民|国王|画家|邻居|妈妈|爸爸|姐姐|弟弟|朋友|学生"),
    "A": _list("今天|昨天|晚上|早上|经常|已经|每天|刚才|一直|从来没有|慢慢地|突然"),
    "P": _list("在花园里|在厨房里|在车站|在市场上|在学校|在北京|在海边|在家里|在公司"),
    "V": _list("看见|寻找|喜欢|需要|忘记|找到|讨论|介绍|准备|保护|研究|画|买|送"),
    "O": _list(
        "苹果|一封信|钥匙|面包|大衣|老房子|礼物|水|这本书|那个问题|电脑|音乐|历史|新衣服|自行车|生命"
    ),
    "": [
        "{S}{A}{P}{V}{O}。",
        "{A}{S}{P}{V}{O}。",
        "{S}{V}{O}吗？",
        "{S}为什么{A}{V}{O}？",
        "{S}{V}{O}，但是{S}{V}{O}。",
        "{S}说：“{S}{A}{V}{O}！”",
        "{S}{P}{V}{O}，{S}也{V}{O}。",
        "{S}知道{S}{A}{V}{O}。",
    ],
}

GRAMMARS = {
    "de": GERMAN,
    "es": SPANISH,
    "fr": FRENCH,
    "tr": TURKISH,
    "he": HEBREW,
    "zh": CHINESE,
}

# Capitals of the letters that these texts begin with; the Turkish i has its dot.
_UPPER = {"tr": {"i": "İ", "ı": "I"}}


def sentences(code: str, seed: int = 0) -> Iterator[str]:
    """Yield sentences of a language, each once, for as long as there are new ones."""
    grammar = GRAMMARS[code]
    rng = np.random.default_rng([seed, *code.encode()])
    seen: set[str] = set()
    failed = 0
    while failed < 10_000:
        pattern = str(rng.choice(grammar[""]))
        used: set[str] = set()

        def fill(match: re.Match[str], used: set[str] = used) -> str:
            choices = [part for part in grammar[match.group(1)] if part not in used]
            used.add(part := str(rng.choice(choices)))
            return part

        text = _SLOT.sub(fill, pattern)
        first = re.search(r"[^\W\d_]", text)
        assert first is not None
        at, letter = first.start(), first.group()
        text = text[:at] + _UPPER.get(code, {}).get(letter, letter.upper()) + text[at + 1 :]
        # What is quoted is a sentence of its own.
        text = re.sub(r"(: «\u00a0|:\u00a0«\u00a0)(\w)", lambda m: m[1] + m[2].upper(), text)
        failed = failed + 1 if text in seen else 0
        if text not in seen:
            seen.add(text)
            yield text


def main() -> None:
    """Write a text, one sentence a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", choices=sorted(GRAMMARS), required=True)
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    lines = islice(sentences(args.language, args.seed), args.n)
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
