"""The languages that contstim knows, a record each, and which of them a text is of.

What the records say of spelling is from grammars and style guides: for French spaces the *Lexique
des règles typographiques en usage à l'Imprimerie nationale*; for Spanish articles the *Ortografía*
of the Real Academia Española (2010); for Turkish suffixes Göksel and Kerslake (2005).
"""

from __future__ import annotations

import copyreg
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from contstim.errors import MissingExtraError
from contstim.plugins import Registry
from contstim.text.language import AgreementRule, Language


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _any(text: str) -> str:
    """Return a regular expression of any of some words."""
    return "|".join(map(re.escape, text.split()))


ENGLISH = Language(
    code="en",
    name="English",
    frequent_words=_words(
        "the and of to is was that with they have he she it you not this are were"
    ),
    # What keeps its capital inside a sentence without being a name.
    capitals=_words("I I'm I'll I've I'd I’m I’ll I’ve I’d"),
    # Single letters, and pieces of contractions that were cut in two.
    fragments=_words(
        """
        b c d e f g h j k l m n o p q r s t u v w x y z ll re ve
        ain aren couldn daren didn doesn don hadn hasn haven isn mayn mightn mustn needn oughtn shan
        shouldn wasn weren wouldn
        """
    ),
    # Determiners and prepositions (Golan et al. 2023 allow 42 such words; this list is our own).
    repeatable=_words(
        """
        the a an this these those each every some any
        of in on at by for from with without within into onto to toward towards upon over under
        above below beneath between among through throughout during before after since until
        against about across along around behind beside beyond near inside outside up down off past
        """
    ),
    agreement=(
        AgreementRule("a", "(?!u|eu|one|once)[aeiou].*", "'an' before a vowel"),
        AgreementRule("an", "(?![aeiouh]).*", "'a' before a consonant"),
    ),
    offensive_list="bundled",
)

GERMAN = Language(
    code="de",
    name="German",
    frequent_words=_words(
        "der die das und ist nicht ein eine mit auf den dem von sich wir ich auch"
    ),
    noun_cues=_words(
        """
        der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner
        mein meine meinen meinem meiner dein deine deinen sein seine seinen seinem seiner ihr ihre
        ihren ihrem ihrer unser unsere unseren euer eure dieser diese dieses diesen diesem jeder
        jede jedes jeden jedem jener jene jenes jenen welcher welche welches alle alles viele
        wenige einige mehrere manche beide zum zur im am beim vom ins ans
        """
    ),
    capitals=_words("Sie Ihnen"),
    fragments=_words("b c d e f g h i j k l m n o p q r s t u v w x y z"),
    repeatable=_words(
        """
        der die das den dem des ein eine einen einem einer eines dieser diese dieses diesen diesem
        jeder jede jedes jeden jedem in im ins an am ans auf aus bei beim mit nach seit von vom zu
        zum zur durch für gegen ohne um bis über unter vor hinter neben zwischen während wegen
        """
    ),
    offensive_list="LDNOOBW (npm naughty-words, CC BY 4.0)",
)

_FEMININE = "(?!día|días|mapa|mapas|planeta|planetas|clima|climas|idioma|idiomas|sofá|sofás|tranvía"
_FEMININE += "|tranvías|guardia|guardias|cometa|cometas|poeta|poetas|pirata|piratas|atleta|atletas"
_FEMININE += "|[^ ]*[mp]ama?s?$|problemas?|sistemas?|temas?|poemas?|dilemas?|síntomas?|[^ ]*istas?$"
_FEMININE += "|pijamas?|panoramas?|dramas?|programas?|a$|para$)"
# Nouns in stressed a, which take el in the singular though they are feminine.
_STRESSED = "agua|águila|alma|arma|ala|alba|ancla|área|arpa|aula|ave|hacha|hada|hambre|habla|ama"

SPANISH = Language(
    code="es",
    name="Spanish",
    frequent_words=_words("el la los las que y en un una por con para es se del al su lo como más"),
    opening_marks={"?": "¿", "!": "¡"},
    fragments=_words("b c d f g h i j k l m n p q r s t v w x z"),
    repeatable=_words(
        """
        el la los las un una unos unas este esta estos estas ese esa esos esas cada todo toda
        de del en a al por para con sin sobre bajo entre desde hasta hacia contra según ante tras
        durante
        """
    ),
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

# French words begin with a vowel or a silent h, but for those with h aspiré and a few others.
_ASPIRATED = (
    "hache hacher haie haies haine haïr hall halle halles halte hameau hamster hanche hanches"
    " handicap hangar hanter harceler hardi hardie harem hareng haricot haricots harnais harpe"
    " hasard hasards hâte hausse hausser haut haute hauts hautes hauteur hauteurs hérisson hernie"
    " héron hérons héros hêtre heurter hibou hiboux hideux hiérarchie hisser hobby hocher hockey"
    " hollandais homard homards honte honteux hors housse huit huitième hurler hurlement hutte onze"
    " onzième oui ouistiti uhlan yacht yaourt yeti yoga yacht"
)
_VOWEL = f"(?!(?:{_any(_ASPIRATED)})$)[aeiouyàâäéèêëîïôöùûüœæh][^ ]*"
_CONSONANT = f"(?:{_any(_ASPIRATED)}|[^aeiouyàâäéèêëîïôöùûüœæh][^ ]*)"

FRENCH = Language(
    code="fr",
    name="French",
    frequent_words=_words(
        "le la les et des une est dans que qui pour pas sur avec il elle nous ce du"
    ),
    elision_pattern="(?:l|d|j|m|t|s|c|n|qu|jusqu|lorsqu|puisqu|quoiqu)['’]",
    space_before={";": "\u202f", "!": "\u202f", "?": "\u202f", ":": "\u00a0", "»": "\u00a0"},
    space_after={"«": "\u00a0"},
    fragments=_words("b c d e f g h i j k l m n o p q r s t u v w x z qu jusqu lorsqu puisqu"),
    repeatable=_words(
        """
        le la les l' l’ un une des du de d' d’ ce cet cette ces chaque quelques au aux à en dans
        sur sous par pour avec sans chez vers entre contre avant après depuis pendant
        """
    ),
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


def _harmony(particle: str, vowels: str, endings: str = "") -> AgreementRule:
    """Return the rule that a particle written apart has the vowel of the word before it."""
    last, forms = f"[^ ]*[{vowels}][^aeıioöuü ]*", f"(?!müdür$){particle}(?:{endings})"
    return AgreementRule(f"(?!{last}$)[^ ]*[aeıioöuü][^ ]*", forms, f"vowel of {particle}")


def _asking(vowel: str, vowels: str) -> AgreementRule:
    """Return that rule for the particle of questions, which takes the endings of a verb."""
    endings = f"|y{vowel}m|s{vowel}n|y{vowel}z|s{vowel}n{vowel}z|d{vowel}r|yd{vowel}.*|ym{vowel}ş.*"
    return _harmony(f"m{vowel}", vowels, endings)


TURKISH = Language(
    code="tr",
    name="Turkish",
    script_pattern="[ıİğĞşŞ]",
    frequent_words=_words("bir ve bu için ile çok daha gibi ama var değil kadar olan olarak"),
    upper={"i": "İ", "ı": "I"},
    fragments=_words("b c ç d e f g ğ h ı i j k l m n ö p r s ş t u ü v y z"),
    repeatable=_words("bir bu şu o her de da ile için gibi kadar göre doğru karşı sonra önce"),
    agreement=(
        _asking("ı", "aı"),
        _asking("i", "ei"),
        _asking("u", "ou"),
        _asking("ü", "öü"),
        _harmony("da", "aıou"),
        _harmony("de", "eiöü"),
    ),
    offensive_list="LDNOOBW (npm naughty-words, CC BY 4.0)",
)

HEBREW = Language(
    code="he",
    name="Hebrew",
    direction="rtl",
    script_pattern="[\u05d0-\u05ea]",
    has_case=False,
    # Prefixes such as ה, ב and ו are written with their word and are part of it.
    repeatable=_words("של את על אל עם מן בין לפני אחרי עד כל זה זאת"),
)


@cache
def _jieba() -> Any:
    """Return jieba's segmenter with its own dictionary, in whatever process."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its use of old interfaces
            import jieba
    except ImportError as error:
        raise MissingExtraError(
            "Chinese is cut into words by jieba, which is not installed; run: pip install jieba"
        ) from error
    jieba.setLogLevel(60)
    return jieba.Tokenizer()


# Words and numbers of Latin letters stay whole.
_LATIN = re.compile(r"([A-Za-z0-9]+(?:[.,:/'’-][A-Za-z0-9]+)*%?)")


def segment_chinese(text: str) -> Sequence[str]:
    """Cut a Chinese text into words and marks: the most probable path through jieba's dictionary.

    Words that the dictionary does not have are cut into characters, so that what becomes of a text
    depends on nothing but the text and the dictionary.

    Raises
    ------
    MissingExtraError
        If jieba is not installed.
    """
    words: list[str] = []
    for part in _LATIN.split(text):
        words += [part] if _LATIN.fullmatch(part) else _jieba().lcut(part, HMM=False)
    return words


CHINESE = Language(
    code="zh",
    name="Chinese",
    script_pattern="[\u4e00-\u9fff]",
    segment=segment_chinese,
    has_case=False,
    repeatable=_words("的 了 在 是 一 个 这 那 每 和 从 到 对 把 被 给 向 用 以 于 上 下 里 中 着"),
    offensive_list="LDNOOBW (npm naughty-words, CC BY 4.0)",
)

#: Languages by code. Of others that wordfreq has nothing is known but how often words come.
LANGUAGES = Registry[Language](
    "language",
    "contstim.languages",
    {
        language.code: language
        for language in (ENGLISH, GERMAN, SPANISH, FRENCH, TURKISH, HEBREW, CHINESE)
    },
    Language,
)


@cache
def _unrecorded(code: str) -> Language:
    return Language(code=code, name=code)


def get_language(code: str) -> Language:
    """Return the language of a code such as ``de`` or ``de-AT``.

    One without a record has its words between white space, and no lists of any kind.

    Examples
    --------
    >>> get_language("tr").capitalise("izmir")
    'İzmir'
    """
    short = code.replace("_", "-").partition("-")[0].lower()
    return LANGUAGES[short] if short in LANGUAGES else _unrecorded(short)


def _reduced(language: Language) -> str | tuple[Any, ...]:
    """Return how a language is pickled: by its code, if that is what stands for it."""
    if get_language(language.code) is language:
        return get_language, (language.code,)
    return object.__reduce_ex__(language, 2)


copyreg.pickle(Language, _reduced)  # equal languages are one object in worker processes, too


def language_from_script(text: str) -> Language:
    """Return what cuts a text of which nothing is known: spaces, but where its script has none.

    Examples
    --------
    >>> language_from_script("El perro duerme.").code
    'en'
    """
    if not text.isascii():
        for _, language in LANGUAGES.items():
            if language.segment is not None and re.search(language.script_pattern or "(?!)", text):
                return language
    return ENGLISH


def detect_language(sentences: Iterable[str], most: int = 1000) -> Language:
    """Return the language that sentences seem to be of; English if nothing tells.

    Letters tell (Hebrew, Chinese, Turkish), and then how many of a language's frequent words come.

    Parameters
    ----------
    sentences
        Of which the first are read.
    most
        How many of them.

    Examples
    --------
    >>> detect_language(["Der Hund schläft nicht, und das ist gut."]).name
    'German'
    """
    text = " ".join(sentence for sentence, _ in zip(sentences, range(most), strict=False))
    records = [language for _, language in LANGUAGES.items()]
    n_letters = max(1, sum(map(str.isalpha, text)))
    for language in records:
        share = (
            len(re.findall(language.script_pattern, text)) / n_letters
            if language.script_pattern
            else 0.0
        )
        if share > (0.01 if language.has_case else 0.3):
            return language
    counts = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    scores = [sum(counts[word] for word in language.frequent_words) for language in records]
    return records[scores.index(max(scores))]
