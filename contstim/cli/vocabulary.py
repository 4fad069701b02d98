"""Make the list of words that synthetic sentences may be made of, in any language.

Takes words from texts, from a word list, or without either from the frequency lists of wordfreq
(some forty languages; not German, whose nouns are in lower case there). The CSV file goes to
synthesize --vocabulary and can be edited; columns say where a word may stand, and the language.

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

from contstim.cli.application import create_application
from contstim.cli.common import print_message, read_vocabulary, resolve_language, write_output
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

SOURCE = Group.create_ordered("where words come from")
CHOICE = Group.create_ordered("which words")
OUTPUT = Group.create_ordered("output")

app = create_application("vocabulary", __doc__)


@app.default
def vocabulary(
    text: Annotated[tuple[File, ...], Parameter(metavar="TEXT")] = (),
    /,
    *,
    words: Annotated[File | None, Parameter(group=SOURCE)] = None,
    language: Annotated[Text | None, Parameter(group=SOURCE, metavar="CODE")] = None,
    size: Annotated[PositiveInteger, Parameter(group=SOURCE)] = 20_000,
    min_zipf: Annotated[
        float | None, float_parameter(0, 10, "ZIPF"), Parameter(group=CHOICE)
    ] = None,
    part_of_speech: Annotated[tuple[Text, ...], Parameter(group=CHOICE, metavar="CLASS")] = (),
    names: Annotated[
        Literal["listed", "inside", "none"], Parameter(group=CHOICE, metavar="WHERE")
    ] = "listed",
    casing: Annotated[
        Literal["listed", "sentence", "lower"], Parameter(group=CHOICE, metavar="CASE")
    ] = "listed",
    allow: Annotated[tuple[File, ...], Parameter(group=CHOICE)] = (),
    block: Annotated[tuple[File, ...], Parameter(group=CHOICE)] = (),
    offensive: Annotated[
        int | None, integer_parameter(0, 2, "LEVEL"), Parameter(group=CHOICE)
    ] = None,
    model: Annotated[tuple[Spec, ...], Parameter(group=CHOICE)] = (),
    out: Annotated[OutputFile, Parameter(group=OUTPUT)] = STANDARD_OUTPUT,
) -> None:
    """Make a vocabulary.

    Parameters
    ----------
    text
        text files (UTF-8, .gz allowed), preferably one sentence per line
    words
        word list: one word per line, a CSV with a column 'word', or 'bundled'
    language
        language of the words, as wordfreq names it [that of the text or list]
    size
        number of words, the most frequent ones of texts or of wordfreq
    min_zipf
        minimum Zipf frequency in wordfreq (3 is once per million words)
    part_of_speech
        class (noun, verb ...) or Penn Treebank tag that a word can have
    names
        words with a capital only: as listed, allowed inside sentences too, or none
    casing
        words as listed; sentence: those inside sentences may also open one; lower: in lower case
    allow
        words to keep whatever the other options say, one per line
    block
        words to leave out, one per line, whatever their case
    offensive
        level from which offensive words are left out: 2 likely, 1 perhaps, 0 unlikely offensive
    model
        model that must know the words
    out
        output table [standard output]
    """
    from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
    from contstim.text.word_options import WordOptions, offensive_source
    from contstim.text.word_rules import WordRules

    if text and words is not None:
        raise InputError(f"--words {words} and the text {text[0]}: give one of the two")
    if words == "bundled":
        made = bundled_vocabulary()
    elif words is not None:
        made = read_vocabulary(words, WordOptions(language=language or "en"))
    else:
        spoken = resolve_language(language, text)
        rules = replace(WordRules.for_language(spoken.code), names=names == "inside")
        if text:
            made = Vocabulary.from_text(text, size=size, rules=rules)
        else:
            made = Vocabulary.from_wordfreq(language or "en", size=size, rules=rules)
    # Where texts show which names stand inside sentences, no others are allowed there.
    inside = True if names == "inside" and not text else None
    chosen = WordOptions(
        min_zipf=min_zipf,
        language=language or "en",
        allow=allow,
        block=block,
        offensive=offensive,
        names=False if names == "none" else inside,
        casing=casing,
        part_of_speech=part_of_speech,
    )
    made = chosen.filter(made, Path())
    unknown: dict[str, int] = {}
    if model:
        from contstim.models.registry import load_model

        made, unknown = made.restrict(map(load_model, model))
    with write_output(out, [*text, words, *allow, *block]) as file:
        file.write(made.to_csv())
    spoken = made.language
    if spoken.code != "en":
        print_message(
            f"offensive words of {spoken.name} are not left out: {offensive_source(spoken)}"
        )
    for spec, number in unknown.items():
        print_message(f"{number:,} words left out that {spec} does not know")
    print_message(
        f"{len(made.first):,} words may open a sentence, {len(made.elsewhere):,} stand elsewhere"
    )
