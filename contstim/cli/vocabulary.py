"""Make the list of words that synthetic sentences may be made of, in any language.

From texts, where nouns and names keep their capitals, or without one from the frequency lists of
wordfreq (some forty languages; not German, whose nouns are in lower case there). The CSV file goes
to synthesize --vocabulary and can be edited; columns say where a word may stand, and the language.

Examples:
  contstim vocabulary --language es --size 5000 --out spanish.csv
  contstim vocabulary book.txt more.txt.gz --language de --out german.csv
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from contstim.cli.common import tell, text_language, write_output
from contstim.cli.parsing import CommandParser, positive
from contstim.text.vocabulary import Vocabulary, WordRules
from contstim.text.words import offensive_source


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    what = "text files (UTF-8, .gz allowed), best one sentence per line"
    parser.add_argument("text", nargs="*", help=what)
    parser.add(
        "--language CODE",
        "language, as wordfreq names it (default: that of the text); where contstim knows nothing "
        "else of it no word may stand twice in a sentence",
    )
    parser.add("--size N", "keep the N most frequent words", positive, default=20_000)
    what = "of texts, allow words that come with a capital only inside sentences as well"
    parser.add("--names", what)
    parser.add("--model SPEC", "keep only words that this model knows", several=True)
    parser.add_out()


def run(args: argparse.Namespace) -> int:
    """Make the list and write it."""
    language = text_language(args.language, args.text)
    rules = replace(WordRules.for_language(language.code), names=args.names)
    with write_output(args.out, args.text) as out:
        if args.text:
            words = Vocabulary.from_text(args.text, size=args.size, rules=rules)
        else:
            words = Vocabulary.from_wordfreq(args.language or "en", size=args.size, rules=rules)
        unknown: dict[str, int] = {}
        if args.model:
            from contstim.models.registry import load_model

            words, unknown = words.restrict(map(load_model, args.model))
        out.write(words.table())
    if language.code != "en":
        tell(f"offensive words of {language.name} are not left out: {offensive_source(language)}")
    for spec, number in unknown.items():
        tell(f"{number:,} words left out that {spec} does not know")
    tell(
        f"{len(words.first):,} words may open a sentence, {len(words.elsewhere):,} stand elsewhere",
    )
    return 0
