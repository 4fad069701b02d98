"""Sample natural sentences from a text, or print the bundled pool.

Reads files of text (UTF-8, .gz allowed) or NLTK corpora that you have (nltk:brown), keeps the
sentences that fit, and says on standard error how many were dropped and why.

Examples:
  contstim sentences sample book.txt --length 8 --n 500 --seed 1 --out sentences.txt
  contstim sentences sample nltk:brown --length 6-12 --distinct --out sentences.txt
  contstim sentences sample text.txt --n 500 --out natural.txt --rest training.txt
  contstim sentences pool
"""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from pathlib import Path

from contstim.cli.common import tell, text_language, word_options, write_output
from contstim.cli.parsing import CommandParser, output_file, positive
from contstim.errors import InputError
from contstim.text import length_range, pool
from contstim.text.corpora import (
    PUNCTUATION,
    SPLITTERS,
    SentenceRules,
    corpus_sentences,
    sample_sentences,
)
from contstim.text.normalise import letters_of
from contstim.text.vocabulary import Vocabulary
from contstim.text.words import WordOptions


def configure(parser: CommandParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("pool", help="print the sentences that come with contstim (CC0)")
    sample = actions.add_parser("sample", help="sample sentences from texts")
    sample.add_argument("text", nargs="+", help="text files, or nltk:NAME for an NLTK corpus")
    what = "how sentences are found in the text"
    sample.add("--split", what, choices=SPLITTERS, default=SPLITTERS[0])
    sample.add("--length N|A-B", "words in a sentence", default="8")
    sample.add("--n N", "how many sentences (default: all that fit)", positive)
    what = "word list; sentences with other words are dropped"
    sample.add("--vocabulary FILE", what)
    sample.add("--distinct", "drop sentences in which a word occurs twice")
    sample.add(
        "--punctuation",
        "final-only: one mark, at the end (default); any: as it comes",
        choices=PUNCTUATION,
        default=PUNCTUATION[0],
    )
    sample.add("--marks MARKS", "marks that may end a sentence", default=".?!。？！")
    sample.add("--block FILE", "words that no sentence may hold", several=True, default=[])
    sample.add(
        "--language CODE",
        "language of text and frequencies, which says what a word is (default: as it seems)",
    )
    sample.add_fields(WordOptions, "min_zipf", "allow", "offensive", "names", "casing")
    sample.add_fields(WordOptions, "part_of_speech")
    what = "where to write all other sentences of the text, e.g. for a model to be trained on"
    sample.add("--rest FILE", what, output_file)
    sample.add_out("FILE")
    sample.add_seed()


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    if args.action == "pool":
        sys.stdout.writelines(sentence + "\n" for sentence in pool())
        return 0
    shortest, longest = length_range(args.length)
    words = word_options(args)
    if words.given.keys() - {"block", "offensive", "language"} and args.vocabulary is None:
        raise InputError(
            "options that choose the words of a vocabulary need one; give --vocabulary"
        )
    language = text_language(args.language, args.text)
    vocabulary = (
        Vocabulary.read(args.vocabulary, language=language.code) if args.vocabulary else None
    )
    rules = SentenceRules(
        min_words=shortest,
        max_words=longest,
        vocabulary=None if vocabulary is None else words.choose(vocabulary, Path()),
        distinct=args.distinct,
        punctuation=args.punctuation,
        final_marks=args.marks,
        block=words.blocked(Path(), language),
        repeatable=language.repeatable,
        language=language,
    )
    sentences = chain.from_iterable(
        corpus_sentences(text, args.split, language) for text in args.text
    )
    every = list(sentences) if args.rest else []
    sample, report = sample_sentences(every or sentences, n=args.n, seed=args.seed, rules=rules)
    lists = [args.vocabulary, *args.block, *(args.allow or ())]
    with write_output(args.out, [*args.text, *lists]) as out:
        out.writelines(sentence + "\n" for sentence in sample)
        if args.rest:
            taken = {letters_of(sentence) for sentence in sample}
            with write_output(args.rest, [*args.text, *lists]) as rest:
                left = (s for s in every if letters_of(s) not in taken)
                rest.writelines(language.tidy(s) + "\n" for s in left)
    tell(report)
    return 0
