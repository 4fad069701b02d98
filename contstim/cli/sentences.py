"""Sample natural sentences from a text, or print the bundled pool.

examples:
  contstim sentences sample book.txt --length 8 --n 500 --seed 1 --out sentences.txt
  contstim sentences pool
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import Annotated

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.common import print_message, resolve_language, write_output
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    Name,
    OutputFile,
    PositiveInteger,
    RandomSeed,
    Text,
)

SAMPLE = """Sample natural sentences from texts.

Reads files of text (UTF-8, .gz allowed) or NLTK corpora that you have (nltk:brown), keeps the
sentences that fit, and prints on standard error how many were dropped and why.

examples:
  contstim sentences sample book.txt --length 8 --n 500 --seed 1 --out sentences.txt
  contstim sentences sample nltk:brown --length 6-12 --distinct --out sentences.txt
  contstim sentences sample text.txt --n 500 --out natural.txt --rest training.txt
"""

SENTENCES = Group.create_ordered("which sentences")
OUTPUT = Group.create_ordered("running and output")

app = create_application("sentences", __doc__)


def pool() -> None:
    """Print the bundled sentences (CC0)."""
    from contstim.text import pool as bundled_pool

    sys.stdout.writelines(sentence + "\n" for sentence in bundled_pool())


def sample(
    text: Annotated[tuple[Text, ...], Parameter(metavar="TEXT")],
    /,
    *,
    length: Annotated[Text, Parameter(group=SENTENCES, metavar="N|A-B")] = "8",
    n: Annotated[PositiveInteger | None, Parameter(group=SENTENCES)] = None,
    vocabulary: Annotated[File | None, Parameter(group=SENTENCES)] = None,
    distinct: Annotated[bool, Parameter(group=SENTENCES)] = False,
    sentence_punctuation: Annotated[Name, Parameter(group=SENTENCES)] = "final-only",
    marks: Annotated[Text, Parameter(group=SENTENCES, metavar="MARKS")] = ".?!。？！",
    split: Annotated[Name, Parameter(group=SENTENCES)] = "lines",
    language: Annotated[Text | None, Parameter(group=SENTENCES, metavar="CODE")] = None,
    rest: Annotated[OutputFile | None, Parameter(group=OUTPUT)] = None,
    seed: Annotated[RandomSeed, Parameter(group=OUTPUT)] = 0,
    out: Annotated[OutputFile, Parameter(group=OUTPUT)] = STANDARD_OUTPUT,
) -> None:
    """Sample sentences.

    Parameters
    ----------
    text
        text files, or nltk:NAME for an NLTK corpus
    length
        number of words of a sentence
    n
        number of sentences [all that fit]
    vocabulary
        words, e.g. from `contstim vocabulary`; sentences with other words are dropped
    distinct
        exclude sentences in which a word occurs twice
    sentence_punctuation
        punctuation of a sentence: final-only (one mark, at the end) or any
    marks
        marks that may end a sentence
    split
        division of the text into sentences: lines (one per line), rule, punkt (NLTK) or auto
    language
        language of the text [recognised]
    rest
        file for all other sentences of the text, e.g. to train a model on
    seed
        random seed
    out
        output file [standard output]
    """
    from contstim.text import parse_length_range
    from contstim.text.corpora import SentenceRules, corpus_sentences, sample_sentences
    from contstim.text.normalise import alphanumeric_key
    from contstim.text.vocabulary import Vocabulary

    shortest, longest = parse_length_range(length)
    spoken = resolve_language(language, text)
    words = Vocabulary.read(vocabulary, language=spoken.code) if vocabulary else None
    rules = SentenceRules(
        min_words=shortest,
        max_words=longest,
        vocabulary=words,
        distinct=distinct,
        punctuation=sentence_punctuation,
        final_marks=marks,
        repeatable=spoken.repeatable,
        language=spoken,
    )
    sentences = chain.from_iterable(corpus_sentences(name, split, spoken) for name in text)
    every = list(sentences) if rest else []
    sampled, report = sample_sentences(every or sentences, n=n, seed=seed, rules=rules)
    with write_output(out, [*text, vocabulary]) as file:
        file.writelines(sentence + "\n" for sentence in sampled)
        if rest:
            taken = {alphanumeric_key(sentence) for sentence in sampled}
            with write_output(rest, [*text, vocabulary]) as others:
                left = (s for s in every if alphanumeric_key(s) not in taken)
                others.writelines(spoken.normalise_spacing(s) + "\n" for s in left)
    print_message(report)


app.command(create_application("pool", "Print the bundled sentences (CC0).", pool))
app.command(create_application("sample", SAMPLE, sample))
