"""Score sentences under one or several models.

Writes a CSV table with the columns sentence, model, log_prob (in nats, which are units of natural
logarithms, unless the column unit names another unit; higher is better), n_tokens, n_words, stderr,
unit, perplexity, exp(-log_prob / n_tokens), for log-probabilities (the pseudo-perplexity of a
masked model), and event. The option --per word writes the surprisal of each word instead.

Standard error also states how the score of each model is defined (its event): the words and symbols
to which the model gives a probability, with or without full stop and end. A model without a start
token cannot predict the first word, as the column not_scored states; prefix in the model's spec
sets a start token.

examples:
  contstim score --model contstim:trigram --model contstim:lstm sentences.txt --out scores.csv
  contstim score --model hf:gpt2 --per word sentences.txt --out words.csv
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter

from contstim.cli.application import create_application
from contstim.cli.common import report_model, write_output
from contstim.cli.parameters import STANDARD_OUTPUT, File, OutputFile, Spec
from contstim.columns import EVENT, SCORES, SPEC, UNIT
from contstim.errors import InputError
from contstim.text import read_sentences

if TYPE_CHECKING:
    from contstim.models.base import SentenceModel

# Number of sentences scored and written at once.
_CHUNK = 2048

_Scores = TypeVar("_Scores")


app = create_application("score", __doc__, usage="contstim score --model SPEC [options] SENTENCES")


@app.default
def score(
    sentences: File,
    /,
    *,
    model: Annotated[tuple[Spec, ...], Parameter(metavar="[NAME=]SPEC")],
    per: Annotated[Literal["sentence", "word"], Parameter(metavar="UNIT")] = "sentence",
    out: OutputFile = STANDARD_OUTPUT,
) -> None:
    """Score sentences.

    Parameters
    ----------
    sentences
        sentences, one per line, or a CSV with a column 'sentence' or with pairs, sentence_1 and
        sentence_2; - is standard input
    model
        model: a specification string such as hf:gpt2, optionally with a NAME to use in tables
    per
        unit of each row: sentence or word
    out
        output table [standard output]
    """
    from contstim.models.registry import load_models

    texts = read_sentences(sentences, pairs=True)
    models = load_models(model)
    # Print how the score of each model is defined: scored units, start and end symbol and so on.
    for loaded_model in models:
        report_model(loaded_model)
    write = write_word_scores if per == "word" else write_sentence_scores
    with write_output(out, [sentences]) as file:
        write(file, texts, models)


def iterate_chunks(sentences: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield chunks of sentences, each with the number of its first sentence, counted from 1.

    Chunks let results be written before all sentences are scored.

    Yields
    ------
    first_number : int
        Number of the first sentence of the chunk in the file, from 1.
    chunk : list of str
        Sentences of the chunk.
    """
    for start in range(0, len(sentences), _CHUNK):
        yield start + 1, list(sentences[start : start + _CHUNK])


def _score_chunk(
    score: Callable[[Sequence[str]], _Scores],
    to_score: Sequence[str],
    first_number: int,
    chunk: Sequence[str],
) -> _Scores:
    """Score sentences from a file; if one is invalid, name its number in the error message.

    A file is scored in chunks of consecutive sentences. Sentences with known scores are skipped.

    Parameters
    ----------
    score
        Function that scores a list of sentences.
    to_score
        Sentences of the chunk without known scores.
    first_number
        Number of the chunk's first sentence in the file, from 1.
    chunk
        All sentences of the chunk, in the order of the file.
    """
    try:
        return score(to_score)
    except InputError:
        # Score one sentence at a time to find the first invalid sentence.
        for number, sentence in enumerate(chunk, start=first_number):
            try:
                score([sentence])
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
        # Each sentence is valid on its own, so raise the original error.
        raise


def write_sentence_scores(
    file: IO[str], sentences: Sequence[str], models: list[SentenceModel]
) -> None:
    """Score sentences under models, and write one row per sentence and model as CSV.

    Rows are written while the scores are computed. The columns are described in the help of
    `contstim score`.

    Parameters
    ----------
    file
        File to write, open for text.
    sentences
        Sentences to score.
    models
        Models that score the sentences.
    """
    # Optional columns: the specifications of renamed models, and the words without probability.
    columns = [*SCORES, UNIT, "perplexity", EVENT]
    if any(model.name != model.spec for model in models):
        columns.append(SPEC)
    if any(model.event.skips_first_word for model in models):
        columns.append("not_scored")
    writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    # The last digits of a score depend on the batch, so repeated sentences are scored only once.
    repeated = {sentence for sentence, n in Counter(sentences).items() if n > 1}
    scores_of_repeated: list[dict[str, tuple[float, ...]]] = [{} for _ in models]
    for first_number, chunk in iterate_chunks(sentences):
        for model, known_scores in zip(models, scores_of_repeated, strict=True):
            new = [sentence for sentence in dict.fromkeys(chunk) if sentence not in known_scores]
            scores = dict(known_scores)
            if new:
                result = _score_chunk(model.score_with_counts, new, first_number, chunk)
                arrays = (result.score, result.n_tokens, result.n_words, result.stderr)
                rows = zip(*(array.tolist() for array in arrays), strict=True)
                scores.update(zip(new, rows, strict=True))
                known_scores.update((s, scores[s]) for s in repeated.intersection(new))
            is_log_prob = model.event.reduction == "sum" and model.kind.unit == "nats"
            cells_of_model = {
                "model": model.name,
                UNIT: model.kind.unit,
                SPEC: model.spec,
                EVENT: str(model.event),
                "not_scored": "first word" if model.event.skips_first_word else "",
            }
            for sentence in chunk:
                log_prob, n_tokens, n_words, stderr = scores[sentence]
                cells = {"sentence": sentence, "log_prob": log_prob, "n_tokens": n_tokens}
                cells |= {"n_words": n_words, "stderr": stderr}
                if is_log_prob and n_tokens:
                    cells["perplexity"] = compute_perplexity(log_prob, n_tokens)
                writer.writerow({**cells_of_model, **cells})
        file.flush()


def compute_perplexity(log_prob: float, n_tokens: float) -> float:
    """Return the perplexity per token of a sentence; infinite if it exceeds float64."""
    try:
        return math.exp(-log_prob / n_tokens)
    except OverflowError:
        return math.inf


def write_word_scores(file: IO[str], sentences: Sequence[str], models: list[SentenceModel]) -> None:
    """Score the words of sentences under models, and write one row per word and model as CSV.

    Rows are written while the scores are computed.

    Parameters
    ----------
    file
        File to write, open for text.
    sentences
        Sentences to score.
    models
        Models that score each word given the preceding words.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("sentence", "model", "position", "word", "log_prob", "surprisal"))
    # Score in chunks, so that rows are written before all sentences are scored.
    for first_number, chunk in iterate_chunks(sentences):
        for model in models:
            scores = _score_chunk(model.score_words, chunk, first_number, chunk)
            for sentence, word_scores in zip(chunk, scores, strict=True):
                words = model.language.split(sentence)
                for position, word in enumerate(words):
                    log_prob = float(word_scores[position])
                    surprisal = 0.0 - log_prob  # 0.0 instead of a negative zero
                    writer.writerow((sentence, model.name, position, word, log_prob, surprisal))
