"""The registered languages, and detection of the language of a text.

Sources of the spelling rules: *Lexique des règles typographiques en usage à l'Imprimerie nationale*
for French spaces, *Ortografía* of the Real Academia Española (2010) for Spanish articles, and
Göksel and Kerslake (2005) for Turkish suffixes.
"""

from __future__ import annotations

import copyreg
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

from contstim.errors import MissingExtraError
from contstim.plugins import Registry
from contstim.text.language import AgreementRule, Language

_MAX_SENTENCES = 1000  # read to detect a language
_MIN_SHARE_OF_SCRIPT = 0.3  # of the letters of a text
_MIN_SHARE_OF_SPECIAL_LETTERS = 0.01

_WORD_LISTS = tomllib.loads((files("contstim") / "data" / "languages.toml").read_text("utf-8"))


def _word_lists(code: str) -> dict[str, Any]:
    """Return the bundled word lists of a language, by the fields of `Language` that they fill."""
    return {name: frozenset(text.split()) for name, text in _WORD_LISTS[code].items()}


ENGLISH = Language(
    code="en",
    name="English",
    **_word_lists("en"),
    agreement=(
        AgreementRule("a", "(?!u|eu|one|once)[aeiou].*", "'an' before a vowel"),
        AgreementRule("an", "(?![aeiouh]).*", "'a' before a consonant"),
    ),
    offensive_list="bundled",
)

GERMAN = Language(
    code="de",
    name="German",
    **_word_lists("de"),
    offensive_list="LDNOOBW (npm naughty-words, CC BY 4.0)",
)

# Negative lookahead for nouns in -a or -as that are not feminine.
_FEMININE = "(?!día|días|mapa|mapas|planeta|planetas|clima|climas|idioma|idiomas|sofá|sofás|tranvía"
_FEMININE += "|tranvías|guardia|guardias|cometa|cometas|poeta|poetas|pirata|piratas|atleta|atletas"
_FEMININE += "|[^ ]*[mp]ama?s?$|problemas?|sistemas?|temas?|poemas?|dilemas?|síntomas?|[^ ]*istas?$"
_FEMININE += "|pijamas?|panoramas?|dramas?|programas?|a$|para$)"
# Feminine nouns with a stressed initial a, which take the article el in the singular.
_STRESSED = "agua|águila|alma|arma|ala|alba|ancla|área|arpa|aula|ave|hacha|hada|hambre|habla|ama"

SPANISH = Language(
    code="es",
    name="Spanish",
    **_word_lists("es"),
    opening_marks={"?": "¿", "!": "¡"},
    agreement=(
        AgreementRule("la|una", _STRESSED, "'el', 'un' before stressed a"),
        AgreementRule("el|un|del|al", f"(?!{_STRESSED}){_FEMININE}[^ ]+a", "feminine noun"),
        AgreementRule("el|un|del|al", "[^ ]+(ción|sión|dad|tad|tud|umbre)", "feminine noun"),
        AgreementRule(
            "la|una", "(?!mano$|foto$|moto$|radio$|libido$)[^ ]+(o|aje)", "masculine noun"
        ),
        AgreementRule("el|un|la|una", "(?!lunes$|martes$)[^ ]+(as|os)", "plural after a singular"),
        AgreementRule("los|las|unos|unas", "[^ ]+[aeo]", "singular after a plural"),
        AgreementRule("y", "(?!hi[ae])h?i[^ ]*", "'e' before i"),
        AgreementRule("o", "h?o[^ ]*", "'u' before o"),
        AgreementRule("de|a", "el", "'del', 'al'"),
    ),
    offensive_list="LDNOOBW (npm naughty-words, CC BY 4.0)",
)

# Words with an aspirated h, and others before which French does not elide.
_ASPIRATED = (
    "hache|hacher|haie|haies|haine|haïr|hall|halle|halles|halte|hameau|hamster|hanche|hanches"
    "|handicap|hangar|hanter|harceler|hardi|hardie|harem|hareng|haricot|haricots|harnais|harpe"
    "|hasard|hasards|hâte|hausse|hausser|haut|haute|hauts|hautes|hauteur|hauteurs|hérisson|hernie"
    "|héron|hérons|héros|hêtre|heurter|hibou|hiboux|hideux|hiérarchie|hisser|hobby|hocher|hockey"
    "|hollandais|homard|homards|honte|honteux|hors|housse|huit|huitième|hurler|hurlement|hutte|onze"
    "|onzième|oui|ouistiti|uhlan|yacht|yaourt|yeti|yoga|yacht"
)
_VOWEL = f"(?!(?:{_ASPIRATED})$)[aeiouyàâäéèêëîïôöùûüœæh][^ ]*"
_CONSONANT = f"(?:{_ASPIRATED}|[^aeiouyàâäéèêëîïôöùûüœæh][^ ]*)"

FRENCH = Language(
    code="fr",
    name="French",
    **_word_lists("fr"),
    elision_pattern="(?:l|d|j|m|t|s|c|n|qu|jusqu|lorsqu|puisqu|quoiqu)['’]",
    space_before={";": "\u202f", "!": "\u202f", "?": "\u202f", ":": "\u00a0", "»": "\u00a0"},
    space_after={"«": "\u00a0"},
    agreement=(
        AgreementRule("(?:l|d|j|m|t|s|n|qu|jusqu|lorsqu|puisqu|quoiqu)'", _CONSONANT, "no elision"),
        AgreementRule("c'", "(?!e|é)[^ ]*", "no elision"),
        AgreementRule("le|la|de|je|me|te|se|ne|que|jusque|lorsque|puisque", _VOWEL, "elision"),
        AgreementRule("du|au", _VOWEL, "'de l'', 'à l''"),
        AgreementRule("ce", "(?!est$|était$)" + _VOWEL, "'cet' before a vowel"),
        AgreementRule("cet", _CONSONANT, "'ce' before a consonant"),
        AgreementRule("ma|ta|sa", _VOWEL, "'mon', 'ton', 'son' before a vowel"),
        AgreementRule("beau|nouveau|vieux|fou|mou", _VOWEL, "'bel', 'nouvel', 'vieil'"),
        AgreementRule("bel|nouvel|vieil|fol|mol", _CONSONANT, "'beau', 'nouveau', 'vieux'"),
        AgreementRule("de|à", "les?", "'du', 'des', 'au', 'aux'"),
        AgreementRule("si", "ils?", "elision"),
    ),
    offensive_list="LDNOOBW (npm naughty-words, CC BY 4.0)",
)


def _harmony_rule(particle: str, vowels: str, endings: str = "") -> AgreementRule:
    """Return a rule that checks Turkish vowel harmony for one form of a particle.

    The form is ungrammatical unless the last vowel of the preceding word harmonises with it.

    Parameters
    ----------
    particle
        Form of the particle, for example "de".
    vowels
        Vowels that harmonise with the form, for example "eiöü".
    endings
        Regular expression for the suffixes that can follow the form.
    """
    harmonic = f"[^ ]*[{vowels}][^aeıioöuü ]*"
    has_other_vowel = f"(?!{harmonic}$)[^ ]*[aeıioöuü][^ ]*"
    # "müdür" (director) is a noun, not a form of the particle "mü".
    with_ending = f"(?!müdür$){particle}(?:{endings})"
    return AgreementRule(has_other_vowel, with_ending, f"vowel of {particle}")


def _question_rule(vowel: str, vowels: str) -> AgreementRule:
    """Return the rule of vowel harmony for a form of the Turkish question particle, "mi".

    The form has the vowel `vowel` and optionally an ending of verbs. It may only follow words in
    which the last vowel is one of `vowels`.
    """
    endings = f"|y{vowel}m|s{vowel}n|y{vowel}z|s{vowel}n{vowel}z|d{vowel}r|yd{vowel}.*|ym{vowel}ş.*"
    return _harmony_rule(f"m{vowel}", vowels, endings)


TURKISH = Language(
    code="tr",
    name="Turkish",
    **_word_lists("tr"),
    script_pattern="[ıİğĞşŞ]",
    upper={"i": "İ", "ı": "I"},
    agreement=(
        _question_rule("ı", "aı"),
        _question_rule("i", "ei"),
        _question_rule("u", "ou"),
        _question_rule("ü", "öü"),
        _harmony_rule("da", "aıou"),
        _harmony_rule("de", "eiöü"),
    ),
    offensive_list="LDNOOBW (npm naughty-words, CC BY 4.0)",
)

HEBREW = Language(
    code="he",
    name="Hebrew",
    **_word_lists("he"),
    direction="rtl",
    script_pattern="[\u05d0-\u05ea]",
    has_case=False,
)


@cache
def _load_jieba() -> Any:
    """Return a new jieba segmenter with the default dictionary."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jieba uses deprecated interfaces
            import jieba
    except ImportError as error:
        raise MissingExtraError(
            "Chinese needs the segmenter jieba, which is not installed; run: pip install jieba"
        ) from error
    jieba.setLogLevel(60)  # no messages: the highest standard level is 50
    return jieba.Tokenizer()


# Words and numbers in Latin script, which are not segmented.
_LATIN = re.compile(r"([A-Za-z0-9]+(?:[.,:/'’-][A-Za-z0-9]+)*%?)")


def segment_chinese(text: str) -> Sequence[str]:
    """Segment a Chinese text into words and punctuation marks with jieba's dictionary.

    The text is divided into words of the dictionary in the most probable way. Words outside the
    dictionary are split into characters.

    Raises
    ------
    MissingExtraError
        If jieba is not installed.
    """
    words: list[str] = []
    for part in _LATIN.split(text):
        words += [part] if _LATIN.fullmatch(part) else _load_jieba().lcut(part, HMM=False)
    return words


CHINESE = Language(
    code="zh",
    name="Chinese",
    **_word_lists("zh"),
    script_pattern="[\u4e00-\u9fff]",
    segment=segment_chinese,
    has_case=False,
    offensive_list="LDNOOBW (npm naughty-words, CC BY 4.0)",
)

_BUNDLED = (ENGLISH, GERMAN, SPANISH, FRENCH, TURKISH, HEBREW, CHINESE)

#: Registered languages by code.
LANGUAGES = Registry[Language](
    "language", "contstim.languages", {language.code: language for language in _BUNDLED}, Language
)
_UNREGISTERED: dict[str, Language] = {}


def get_language(code: str) -> Language:
    """Return the writing conventions of the language with a code such as ``de`` or ``de-AT``.

    If the language is not registered, default conventions are returned: words are separated by
    white space, and there are no word lists.

    Examples
    --------
    >>> get_language("tr").capitalise("izmir")
    'İzmir'
    """
    short = code.replace("_", "-").partition("-")[0].lower()
    if short in LANGUAGES:
        return LANGUAGES[short]
    return _UNREGISTERED.setdefault(short, Language(code=short, name=short))


def _reduce(language: Language) -> str | tuple[Any, ...]:
    """Return how to pickle a language: by its code, so that each process has one object per code.

    Languages that are not registered are pickled by their attributes.
    """
    if get_language(language.code) is language:
        return get_language, (language.code,)
    return object.__reduce_ex__(language, 2)


copyreg.pickle(Language, _reduce)


def language_from_script(text: str) -> Language:
    """Choose a language for splitting a text of unknown language into words.

    If the text contains a letter of a script without spaces between words, such as Chinese, its
    language is returned. Otherwise, English is returned, which splits a text at spaces.

    Examples
    --------
    >>> language_from_script("El perro duerme.").code
    'en'
    """
    if not text.isascii():
        for _, language in LANGUAGES.items():
            has_segmenter = language.segment is not None and language.script_pattern
            if has_segmenter and re.search(language.script_pattern, text):
                return language
    return ENGLISH


def detect_language(sentences: Iterable[str]) -> Language:
    """Detect the language of sentences from the first 1000 of them.

    The language is identified by its letters (Hebrew, Chinese, Turkish) or otherwise as the
    language with the most occurrences of its frequent words. The default is English.

    Examples
    --------
    >>> detect_language(["Der Hund schläft nicht, und das ist gut."]).name
    'German'
    """
    text = " ".join(islice(sentences, _MAX_SENTENCES))
    # First, look for a language with special letters, such as Chinese or Turkish.
    languages = [language for _, language in LANGUAGES.items()]
    n_letters = max(1, sum(map(str.isalpha, text)))
    for language in languages:
        if language.script_pattern:
            share = len(re.findall(language.script_pattern, text)) / n_letters
            # A text in Hebrew or Chinese consists mostly of letters of the script. A Turkish text
            # contains few letters that other languages lack.
            min_share = _MIN_SHARE_OF_SPECIAL_LETTERS if language.has_case else _MIN_SHARE_OF_SCRIPT
            if share > min_share:
                return language
    # Otherwise, choose the language with the most occurrences of its frequent words in the text.
    counts = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    return max(languages, key=lambda language: sum(counts[w] for w in language.frequent_words))
