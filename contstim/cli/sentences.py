"""Sample natural sentences from a text, or print the bundled pool.

Reads files of text (UTF-8, .gz allowed) or NLTK corpora that you have (nltk:brown), keeps the
sentences that fit, and says on standard error how many were dropped and why.

Examples:
  contstim sentences sample book.txt --length 8 --n 500 --seed 1 --out sentences.txt
  contstim sentences sample nltk:brown --length 6-12 --distinct --out sentences.txt
  contstim sentences pool
"""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from pathlib import Path

from contstim.cli.common import (
    add_out,
    add_seed,
    add_word_options,
    positive,
    word_options,
    write_output,
)
from contstim.errors import InputError
from contstim.text.corpora import (
    PUNCTUATION,
    SPLITTERS,
    SentenceRules,
    corpus_sentences,
    sample_sentences,
)
from contstim.text.sentence import length_range, pool
from contstim.text.vocabulary import Vocabulary


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("pool", help="print the sentences that come with contstim (CC0)")
    sample = actions.add_parser("sample", help="sample sentences from texts")
    sample.add_argument("text", nargs="+", help="text files, or nltk:NAME for an NLTK corpus")
    sample.add_argument(
        "--split",
        choices=SPLITTERS,
        default=SPLITTERS[0],
        help=f"how sentences are found in the text (default: {SPLITTERS[0]})",
    )
    sample.add_argument(
        "--length", default="8", metavar="N|A-B", help="words in a sentence (default: 8)"
    )
    sample.add_argument("--n", type=positive, help="how many sentences (default: all that fit)")
    sample.add_argument(
        "--vocabulary", metavar="FILE", help="word list; sentences with other words are dropped"
    )
    sample.add_argument(
        "--distinct", action="store_true", help="drop sentences in which a word occurs twice"
    )
    sample.add_argument(
        "--punctuation",
        choices=PUNCTUATION,
        default=PUNCTUATION[0],
        help="final-only: one mark, at the end (default); any: as it comes",
    )
    sample.add_argument("--marks", default=".?!", help="marks that may end a sentence (.?!)")
    sample.add_argument("--block", metavar="FILE", help="words that no sentence may hold")
    add_word_options(sample)
    add_out(sample, "FILE")
    add_seed(sample)


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    if args.action == "pool":
        sys.stdout.writelines(sentence + "\n" for sentence in pool())
        return 0
    shortest, longest = length_range(args.length)
    words = word_options(args)
    if words.given.keys() - {"block", "offensive"} and args.vocabulary is None:
        raise InputError(
            "options that choose the words of a vocabulary need one; give --vocabulary"
        )
    own = Vocabulary.read(args.vocabulary) if args.vocabulary else None
    rules = SentenceRules(
        min_words=shortest,
        max_words=longest,
        vocabulary=None if own is None else words.choose(own, Path()),
        distinct=args.distinct,
        punctuation=args.punctuation,
        final_marks=args.marks,
        block=words.blocked(Path()),
    )
    sentences = chain.from_iterable(corpus_sentences(text, args.split) for text in args.text)
    sample, report = sample_sentences(sentences, n=args.n, seed=args.seed, rules=rules)
    lists = [args.vocabulary, args.block, *(args.allow or ())]
    with write_output(args.out, [*args.text, *lists]) as out:
        out.writelines(sentence + "\n" for sentence in sample)
    print(report, file=sys.stderr)
    return 0
