"""A custom language, Italian: elided articles precede vowels, `un` most consonants."""

from contstim.text.language import AgreementRule, Language

VOWEL = "[aeiouàèéìòù]|h[aeo]"

ITALIAN = Language(
    code="it",
    name="Italian",
    frequent_words=frozenset("il la un gli che di è non per sono della nel alla".split()),  # noqa: SIM905
    elision_pattern="(?:l|un|d|c|dell|all|nell|sull|dall|quest|quell)['’]",
    fragments=frozenset(["l", "d", "dell", "all", "nell", "sull", "dall"]),
    repeatable=frozenset("il lo la i gli le l' un una un' di a da in con su per".split()),  # noqa: SIM905
    agreement=(
        AgreementRule("(?:l|un|d|dell|all|nell)'", f"(?!{VOWEL}).*", "no elision"),
        AgreementRule("lo|la|una|della|alla|nella", f"(?:{VOWEL}).*", "elision"),
    ),
)
