"""Make the list of words that synthetic sentences may be made of, in any language.

From texts, where names and nouns keep their capitals, or without one from the frequency lists of
wordfreq (some forty languages), all in lower case. The CSV file goes to synthesize --vocabulary and
can be edited; a column says where a word may stand.

Examples:
  contstim vocabulary --language de --size 5000 --out german.csv
  contstim vocabulary book.txt more.txt.gz --language de --names --out german.csv
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from contstim.cli.common import tell, write_output
from contstim.cli.parsing import CommandParser, positive
from contstim.text.vocabulary import Vocabulary, WordRules


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    what = "text files (UTF-8, .gz allowed), best one sentence per line"
    parser.add_argument("text", nargs="*", help=what)
    parser.add(
        "--language CODE",
        "language, as wordfreq names it (default: en); for others no word may stand twice in a "
        "sentence",
        default="en",
    )
    parser.add("--size N", "keep the N most frequent words", positive, default=20_000)
    what = "of texts, allow words that come with a capital only inside sentences as well"
    parser.add("--names", what)
    parser.add("--model SPEC", "keep only words that this model knows", several=True)
    parser.add_out()


def run(args: argparse.Namespace) -> int:
    """Make the list and write it."""
    rules = replace(WordRules.for_language(args.language), names=args.names)
    with write_output(args.out, args.text) as out:
        if args.text:
            words = Vocabulary.from_text(args.text, size=args.size, rules=rules)
        else:
            words = Vocabulary.from_wordfreq(args.language, size=args.size, rules=rules)
        unknown: dict[str, int] = {}
        if args.model:
            from contstim.models.registry import load_model

            words, unknown = words.restrict(map(load_model, args.model))
        out.write(words.table())
    for spec, number in unknown.items():
        tell(f"{number:,} words left out that {spec} does not know")
    tell(
        f"{len(words.first):,} words may open a sentence, {len(words.elsewhere):,} stand elsewhere",
    )
    return 0
