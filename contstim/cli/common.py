"""What commands share: options of several of them, vocabularies, reviews, tasks, outputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from contstim.cli.parameters import read_output
from contstim.errors import InputError
from contstim.files import is_stream, replace_atomically
from contstim.text.languages import detect_language, get_language
from contstim.text_files import format_csv

if TYPE_CHECKING:
    import pandas as pd

    from contstim.models.base import SentenceModel
    from contstim.pipeline.engine import Executor
    from contstim.pipeline.tasks import Task
    from contstim.text.language import Language
    from contstim.text.vocabulary import Vocabulary
    from contstim.text.word_options import WordOptions

# What share of the words of natural sentences a vocabulary of their language has, at least.
_SHARED = 0.25


def read_vocabulary(path: str | None, options: WordOptions | None = None) -> Vocabulary:
    """Read the vocabulary given by ``--vocabulary``, or the bundled one, and choose of its words.

    Whoever lists a word means it, so words with apostrophes, hyphens or digits and single letters
    are admitted; what is left out all the same is reported on standard error.
    """
    # Loaded where it is asked for: a server that was killed is back the sooner.
    from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
    from contstim.text.word_rules import WordRules
    from contstim.text.word_tables import read_word_rows

    if path is None:
        words = bundled_vocabulary()
        return words if options is None else options.filter(words, Path())
    rules = WordRules(characters="any", exclude=frozenset())
    language = "en" if options is None else options.language
    vocabulary = Vocabulary.read(path, rules=rules, language=language)
    if path != "-":
        used = {*vocabulary.first, *vocabulary.elsewhere}
        left_out = [
            word
            for word in dict.fromkeys(
                row["word"]
                for row in read_word_rows(path)[0]
                # A word that may recur, and stands nowhere in this list, says so.
                if not row.get("first") == row.get("elsewhere") == "0"
            )
            if word not in used
        ]
        if left_out:
            shown = ", ".join(map(repr, left_out[:3])) + (" ..." if len(left_out) > 3 else "")
            print_message(
                f"{path}: {len(left_out)} words left out, which are no bare words or may stand "
                f"nowhere: {shown}",
            )
    return vocabulary if options is None else options.filter(vocabulary, Path())


def resolve_language(code: str | None, files: Sequence[str]) -> Language:
    """Return the language of a code or, without one, that which the first of some files is of.

    Where that is not English it is told. Of a text that can be read only once nothing is known but
    what the code says.
    """
    from contstim.text.corpora import corpus_sentences

    path = Path(files[0]) if files else None
    if code is not None or path is None or not path.is_file():
        return get_language(code or "en")
    language = detect_language(corpus_sentences(path))
    if language.code != "en":
        print_message(f"{path} seems to be {language.name}; --language CODE says what else it is")
    return language


def describe_low_coverage(sentences: Iterable[str], vocabulary: Vocabulary | None = None) -> str:
    """Return how few words of sentences a vocabulary has, "1 of the 7", or nothing if enough.

    Parameters
    ----------
    sentences
        Sentences of any language.
    vocabulary
        By default the bundled English one.
    """
    from contstim.text.diversity import folded_words
    from contstim.text.vocabulary import bundled_vocabulary

    natural_words = {word for sentence in sentences for word in folded_words(sentence)}
    usable = vocabulary or bundled_vocabulary()
    shared = natural_words & {word.casefold() for word in (*usable.first, *usable.elsewhere)}
    if len(shared) >= _SHARED * len(natural_words):
        return ""
    return f"{len(shared):,} of the {len(natural_words):,}"


def refuse_overwriting(path: str | Path, inputs: Iterable[str | Path | None]) -> None:
    """Refuse an output that is one of the files that the command reads; None stands for no file.

    Raises
    ------
    InputError
        Naming the file.
    """
    for source in inputs:
        same = False
        # A source may be no path at all, such as nltk:brown or standard input.
        with suppress(OSError, ValueError):
            same = source is not None and os.path.samefile(source, path)
        if same and not is_stream(Path(path)):
            raise InputError(f"{path} would be both read and written; choose another output")


@contextmanager
def explain_interruption() -> Iterator[None]:
    """Say, if the work is interrupted, that the same command goes on with it."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "finished results are kept, and the same command goes on with the rest"
        ) from None


@contextmanager
def write_output(path: str, reading: Iterable[str | None] = ()) -> Iterator[IO[str]]:
    """Open `path` for writing text, ``-`` for standard output.

    A file appears under its name only when everything is written; until then it is a temporary
    file beside it, removed if an error stops the work. What is there but is not a file, such as a
    pipe or ``/dev/null``, is written to as it is.

    Parameters
    ----------
    path
        Where to write.
    reading
        Files that the command reads, none of which may be written over.

    Raises
    ------
    InputError
        If `path` is one of `reading`.
    OutputError
        If the place cannot be written to; before any work is done.
    """
    if path == "-":
        yield sys.stdout
        return
    refuse_overwriting(path, reading)
    read_output(path)
    with (
        replace_atomically(Path(path), hint="choose another output") as place,
        place.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file


def write_table(table: pd.DataFrame, path: str, reading: Iterable[str | None] = ()) -> None:
    """Write a table as CSV; parameters and errors as of `write_output`."""
    with write_output(path, reading) as out:
        out.write(format_csv(table))


def create_executor(where: str | None) -> Executor:
    """Return the executor of ``--executor``; Dask is loaded only if it is needed."""
    if where is None:
        from contstim.pipeline.engine import SequentialExecutor

        return SequentialExecutor()
    from contstim.pipeline.dask_executor import create_executor

    return create_executor(where)


def report_failed_tasks(failed: Sequence[tuple[Task, str]]) -> None:
    """List failed tasks and their errors on standard error."""
    for task, error in failed:
        print_message(f"failed: {task}: {error}")
    print_message(f"{len(failed)} tasks failed; run the same command to repeat them")


def report_model(model: SentenceModel) -> None:
    """Say what a model gives a probability, and which one it is where it has a name."""
    spec = "" if model.name == model.spec else f"{model.spec}, "
    print_message(f"{model.name}: {spec}{model.event}")
    if model.event.skips_first_word:
        print_message(
            f"note: {model.name} has no start token, so the first word of each sentence has no "
            "probability and is left out of its score; set one in the spec, such as prefix=eos or "
            "prefix=TOKEN"
        )


def print_message(line: object) -> None:
    """Print a line for people, on standard error: standard output is for tables."""
    print(line, file=sys.stderr, flush=True)


def check_figure_path(path: Path | None) -> None:
    """Refuse a figure's file, if there is one, that ends otherwise than figures do."""
    if path is not None and path.suffix not in (".svg", ".pdf", ".png"):
        raise InputError(f"--figure {path} does not end in .svg, .pdf or .png; choose one of these")
