"""Make a list of words for synthesis, in any language.

Takes words from texts, from a word list, or by default from the frequency lists of wordfreq (about
forty languages; use a text for German, because wordfreq writes its nouns in lower case). Edit the
CSV file if needed and pass it to `contstim synthesize --vocabulary`. Its columns give the
positions that are allowed for each word, and the language.

examples:
  contstim vocabulary --language es --size 5000 --out spanish.csv
  contstim vocabulary book.txt more.txt.gz --language de --out german.csv
  contstim vocabulary --words bundled --min-zipf 4 --block taboo.txt --out frequent.csv
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

import contstim
from contstim.cli.application import create_application
from contstim.cli.common import print_message, write_output
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    OutputFile,
    PositiveInteger,
    Spec,
    Text,
    float_parameter,
    integer_parameter,
)
from contstim.errors import InputError
from contstim.text.word_rules import WordRules

SOURCE = Group.create_ordered("where words come from")
SELECTION = Group.create_ordered("which words")
OUTPUT = Group.create_ordered("output")

Zipf = Annotated[float | None, float_parameter(0, 10, "ZIPF"), Parameter(group=SELECTION)]
Level = Annotated[int | None, integer_parameter(0, 2, "LEVEL"), Parameter(group=SELECTION)]

app = create_application("vocabulary", __doc__, usage="contstim vocabulary [options] [TEXT ...]")


@app.default
def vocabulary(
    text: Annotated[tuple[File, ...], Parameter(metavar="TEXT")] = (),
    /,
    *,
    words: Annotated[File | None, Parameter(group=SOURCE)] = None,
    language: Annotated[Text | None, Parameter(group=SOURCE, metavar="CODE")] = None,
    size: Annotated[PositiveInteger, Parameter(group=SOURCE)] = 20_000,
    min_zipf: Zipf = None,
    part_of_speech: Annotated[tuple[Text, ...], Parameter(group=SELECTION, metavar="CLASS")] = (),
    names: Annotated[
        Literal["listed", "inside", "none"], Parameter(group=SELECTION, metavar="WHERE")
    ] = "listed",
    casing: Annotated[
        Literal["listed", "sentence", "lower"], Parameter(group=SELECTION, metavar="CASE")
    ] = "listed",
    allow: Annotated[tuple[File, ...], Parameter(group=SELECTION)] = (),
    block: Annotated[tuple[File, ...], Parameter(group=SELECTION)] = (),
    offensive: Level = None,
    model: Annotated[tuple[Spec, ...], Parameter(group=SELECTION)] = (),
    out: Annotated[OutputFile, Parameter(group=OUTPUT)] = STANDARD_OUTPUT,
) -> None:
    """Make a vocabulary.

    Parameters
    ----------
    text
        text files (UTF-8, .gz allowed), preferably with one sentence per line
    words
        word list: one word per line, a CSV with a column 'word', or 'bundled'
    language
        language of the words, as wordfreq names it [language of the text or list]
    size
        number of words, the most frequent ones of the texts or of wordfreq
    min_zipf
        minimum Zipf frequency in wordfreq (3 is once per million words)
    part_of_speech
        class (noun, verb ...) or Penn Treebank tag of the words
    names
        words that always have a capital: as listed, also allowed inside sentences (inside), or none
    casing
        case of the words: as listed; sentence: words inside sentences may also start one; lower
    allow
        words to include regardless of the other options, one per line
    block
        words to exclude in any case, one per line
    offensive
        level from which offensive words are excluded: 2 likely, 1 perhaps, 0 unlikely offensive
    model
        model with the words in its vocabulary
    out
        output table [standard output]
    """
    from contstim.cli.vocabularies import read_vocabulary, resolve_language
    from contstim.text.word_options import offensive_source

    if text and words is not None:
        raise InputError(f"--words {words} and the text {text[0]}: give one of the two")
    if words == "bundled":
        selected = contstim.bundled_vocabulary()
    elif words is not None:
        selected = read_vocabulary(words, contstim.WordOptions(language=language or "en"))
    else:
        source_language = resolve_language(language, text)
        rules = replace(WordRules.for_language(source_language.code), names=names == "inside")
        if text:
            selected = contstim.Vocabulary.from_text(text, size=size, rules=rules)
        else:
            selected = contstim.Vocabulary.from_wordfreq(language or "en", size=size, rules=rules)
    # Texts show which names occur inside sentences, so no other name is allowed there.
    allow_names = True if names == "inside" and not text else None
    options = contstim.WordOptions(
        min_zipf=min_zipf,
        language=language or "en",
        allow=allow,
        block=block,
        offensive=offensive,
        names=False if names == "none" else allow_names,
        casing=casing,
        part_of_speech=part_of_speech,
    )
    selected = options.filter(selected, Path())
    n_unknown: dict[str, int] = {}
    if model:
        selected, n_unknown = selected.restrict(map(contstim.load_model, model))
    with write_output(out, [*text, words, *allow, *block]) as file:
        file.write(selected.to_csv())
    if selected.language.code != "en":
        source = offensive_source(selected.language)
        name = selected.language.name
        print_message(f"offensive words of {name} are not excluded: {source}")
    for spec, n_words in n_unknown.items():
        print_message(f"{n_words:,} words excluded that are not in the vocabulary of {spec}")
    n_first, n_elsewhere = len(selected.first), len(selected.elsewhere)
    print_message(f"{n_first:,} words allowed at the start of sentences, {n_elsewhere:,} elsewhere")
