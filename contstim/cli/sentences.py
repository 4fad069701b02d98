"""Sample natural sentences from texts, or print the bundled sentences.

examples:
  contstim sentences sample book.txt --length 8 --n 500 --out sentences.txt
  contstim sentences pool
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import Annotated

from cyclopts import Group, Parameter

import contstim
from contstim.cli.application import create_application
from contstim.cli.common import print_message, write_output
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    Name,
    OutputFile,
    PositiveInteger,
    RandomSeed,
    Text,
)
from contstim.text import parse_length_range
from contstim.text import pool as bundled_pool
from contstim.text.normalise import alphanumeric_key

SAMPLE = """Sample natural sentences from texts.

Reads text files (UTF-8, .gz allowed) or corpora that NLTK has downloaded, e.g. nltk:brown. Standard
error reports how many sentences were excluded, and why.

examples:
  contstim sentences sample book.txt --length 8 --n 500 --out sentences.txt
  contstim sentences sample nltk:brown --length 6-12 --distinct --out sentences.txt
  Sentences for the study, and all others for training a model:
    contstim sentences sample text.txt --n 500 --out natural.txt --unsampled training.txt
"""

SENTENCES = Group.create_ordered("which sentences")
TEXTS = Group.create_ordered("how to read the texts")
OUTPUT = Group.create_ordered("running and output")

app = create_application("sentences", __doc__)


def pool() -> None:
    """Print the bundled natural sentences (CC0)."""
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
    split: Annotated[Name, Parameter(group=TEXTS)] = "lines",
    language: Annotated[Text | None, Parameter(group=TEXTS, metavar="CODE")] = None,
    unsampled: Annotated[OutputFile | None, Parameter(group=OUTPUT)] = None,
    seed: Annotated[RandomSeed, Parameter(group=OUTPUT)] = 0,
    out: Annotated[OutputFile, Parameter(group=OUTPUT)] = STANDARD_OUTPUT,
) -> None:
    """Sample sentences.

    Parameters
    ----------
    text
        text files, or nltk:NAME for an NLTK corpus
    length
        number of words of a sentence, or its range
    n
        number of sentences [all that match]
    vocabulary
        words that sentences may contain, e.g. from `contstim vocabulary` [any]
    distinct
        exclude sentences in which a word occurs twice
    sentence_punctuation
        punctuation of a sentence: final-only (one mark, at the end) or any
    marks
        marks that may end a sentence
    split
        how to split the text into sentences: lines (one per line), rule, punkt (NLTK) or auto
    language
        language of the text [recognised]
    unsampled
        output file for all other sentences of the texts, e.g. to train a model on
    seed
        random seed
    out
        output file [standard output]
    """
    from contstim.cli.vocabularies import resolve_language
    from contstim.text.corpora import SentenceRules, corpus_sentences

    min_words, max_words = parse_length_range(length)
    text_language = resolve_language(language, text)
    rules = SentenceRules(
        min_words=min_words,
        max_words=max_words,
        vocabulary=(
            contstim.Vocabulary.read(vocabulary, language=text_language.code)
            if vocabulary
            else None
        ),
        distinct=distinct,
        punctuation=sentence_punctuation,
        final_marks=marks,
        repeatable=text_language.repeatable,
        language=text_language,
    )
    sentences = chain.from_iterable(corpus_sentences(name, split, text_language) for name in text)
    all_sentences = list(sentences) if unsampled else []
    sampled, report = contstim.sample_sentences(
        all_sentences or sentences, n=n, seed=seed, rules=rules
    )
    with write_output(out, [*text, vocabulary]) as file:
        file.writelines(sentence + "\n" for sentence in sampled)
        if unsampled:
            sampled_keys = {alphanumeric_key(sentence) for sentence in sampled}
            with write_output(unsampled, [*text, vocabulary]) as unsampled_file:
                for sentence in all_sentences:
                    if alphanumeric_key(sentence) not in sampled_keys:
                        unsampled_file.write(text_language.normalise_spacing(sentence) + "\n")
    print_message(report)


app.command(create_application("pool", "Print the bundled natural sentences (CC0).", pool))
app.command(
    create_application(
        "sample", SAMPLE, sample, usage="contstim sentences sample [options] TEXT [TEXT ...]"
    )
)
