"""n-best lists: what a recogniser or translator thought possible, and models' scores of it.

The format is described in ``docs/rescoring.md``: JSON lines, one utterance a line.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from contstim.display import displayed
from contstim.errors import InputError, shortened
from contstim.files import json_value
from contstim.models.base import SentenceModel
from contstim.models.cache import ScoreCache
from contstim.progress import track
from contstim.settings import option
from contstim.tables import numbered_lines, source_name
from contstim.text import Sentence, capitalize

#: The parts of an n-best file: weights are tuned on the first and reported on the second.
SPLITS = ("dev", "test")


@dataclass(frozen=True)
class Utterance:
    """One utterance (or source sentence): what was said, and H hypotheses of what it may be.

    Attributes
    ----------
    id
        Its name, of which there is one in a file.
    split
        One of `SPLITS`.
    reference
        What was really said, words between single spaces.
    texts
        The H distinct hypotheses, words between single spaces, in the order given.
    scores
        The first pass's score of each, the higher the better, H numbers.
    group
        What it belongs to (a speaker, a document, a sentence spoken by several voices); the id
        where nothing is said. Groups stand in one part alone, and are what is resampled.
    """

    id: str
    split: str
    reference: str
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    group: str

    @property
    def best(self) -> int:
        """Index of the first pass's best hypothesis; among equals the first."""
        return self.scores.index(max(self.scores))


@displayed
@dataclass(frozen=True)
class NBest:
    """n-best lists of both parts.

    Raises
    ------
    InputError
        If an id occurs twice, a group stands in both parts, or a part has no utterance.
    """

    utterances: tuple[Utterance, ...]

    def __post_init__(self) -> None:
        ids: dict[str, str] = {}
        groups: dict[str, str] = {}
        for utterance in self.utterances:
            if utterance.id in ids:
                where = (
                    "in both parts, dev and test; tuning would see what it is tested on"
                    if ids[utterance.id] != utterance.split
                    else f"twice in the part {utterance.split}"
                )
                raise InputError(f"the utterance {utterance.id!r} stands {where}; keep one")
            ids[utterance.id] = utterance.split
            if groups.setdefault(utterance.group, utterance.split) != utterance.split:
                raise InputError(
                    f"the group {utterance.group!r} stands in both parts, dev and test; tuning "
                    "would see what it is tested on; move its utterances into one part"
                )
        for split in SPLITS:
            if not self.part(split):
                raise InputError(
                    f"no utterance has the split {split!r}; mark some: weights are tuned on dev "
                    "and reported on test"
                )

    def part(self, split: str) -> tuple[Utterance, ...]:
        """Return the utterances of one part."""
        return tuple(u for u in self.utterances if u.split == split)

    @property
    def texts(self) -> tuple[str, ...]:
        """The distinct hypotheses of all utterances, in order of first occurrence."""
        return tuple(dict.fromkeys(text for u in self.utterances for text in u.texts))

    @property
    def shared_references(self) -> int:
        """Number of distinct references that stand in both parts, compared without case."""
        dev, test = ({u.reference.lower() for u in self.part(split)} for split in SPLITS)
        return len(dev & test)


def read_nbest(path: str | PathLike[str]) -> NBest:
    r"""Read n-best lists.

    Parameters
    ----------
    path
        A UTF-8 file of JSON lines, gzip-compressed if its name ends in ``.gz``; ``-`` is standard
        input. Blank lines are skipped. Of hypotheses that are alike but for white space the one
        with the highest score is kept, at the place of the first.

    Raises
    ------
    InputError
        Naming file, line and fault.

    Examples
    --------
    >>> import json
    >>> from pathlib import Path
    >>> hypotheses = [{"text": "he came hum", "score": -1}, {"text": "he came home", "score": -2}]
    >>> said = {"reference": "he came home", "hypotheses": hypotheses}
    >>> lines = [json.dumps({"id": split, "split": split, **said}) for split in ("dev", "test")]
    >>> _ = Path("nbest.jsonl").write_text("\n".join(lines))
    >>> read_nbest("nbest.jsonl").utterances[0].texts
    ('he came hum', 'he came home')
    """
    name = source_name(path)
    utterances = []
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            utterances.append(_utterance(line))
        except InputError as error:
            raise InputError(f"{name}, line {number}: {error}") from None
    if not utterances:
        raise InputError(f"{name} holds no utterance; give one a line, as JSON")
    try:
        return NBest(tuple(utterances))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _utterance(line: str) -> Utterance:
    try:
        record = json_value(line)
    except ValueError as error:
        raise InputError(f"this is not JSON ({error}); write one object a line") from None
    if not isinstance(record, dict):
        raise InputError(f"this is {_shown(record)}, not an object with the key 'id'")
    # Asked for in this order, so that later messages can name the utterance.
    identity = _text(record, "id", "an utterance")
    what = f"the utterance {identity!r}"
    split = _text(record, "split", what)
    if split not in SPLITS:
        raise InputError(f"{what} has the split {split!r}; write 'dev' or 'test'")
    reference = _text(record, "reference", what)
    group = _text(record, "group", what) if "group" in record else identity
    listed = record.get("hypotheses")
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{what} has no list of 'hypotheses'; give at least one")
    score_of: dict[str, float] = {}
    for place, hypothesis in enumerate(listed, start=1):
        which = f"hypothesis {place} of {what}"
        if not isinstance(hypothesis, dict):
            raise InputError(f"{which} is {_shown(hypothesis)}, not an object with 'text', 'score'")
        text = _text(hypothesis, "text", which)
        score = _score(hypothesis, which)
        score_of[text] = max(score, score_of.get(text, -math.inf))
    return Utterance(identity, split, reference, tuple(score_of), tuple(score_of.values()), group)


def _text(record: dict[str, Any], key: str, what: str) -> str:
    if record.get(key) is None:
        raise InputError(f"{what} has no {key!r}; add it")
    value = record[key]
    if not isinstance(value, str):
        raise InputError(f"{key!r} of {what} is {_shown(value)}, not text; put it in quotes")
    words = " ".join(value.split())
    if not words:
        raise InputError(f"{key!r} of {what} is empty; fill it or leave that out")
    try:
        words.encode()
    except UnicodeEncodeError as error:  # JSON can name half of a pair, which is no character
        raise InputError(
            f"{key!r} of {what} is {value!r}, which holds half of a character; write it whole"
        ) from error
    return words


def _score(record: dict[str, Any], what: str) -> float:
    value = record.get("score")
    if value is None:
        raise InputError(f"{what} has no 'score'; add what the first pass gave it")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"'score' of {what} is {_shown(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"'score' of {what} is {_shown(value)}; give a finite number")
    return number


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), 40)


# A word after an opening quotation mark may open a sentence of its own.
_QUOTES = frozenset('"“”„«»‘')


@dataclass(frozen=True)
class SentenceForm:
    """A change of hypotheses for scoring; the default changes nothing.

    Attributes
    ----------
    capitalise
        Write the first letter in upper case.
    final
        What is put at the end, such as ``.``; nothing by default.
    cases
        How words in lower case are written within a sentence, such as ``i`` to ``I``.
    """

    capitalise: bool = option(False, "first letter in upper case")
    final: str = option("", "put this at the end, e.g. .", "MARK")
    cases: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.final.split() != ([self.final] if self.final else []):
            raise InputError(f"the final mark {self.final!r} holds white space; give a mark")

    def __call__(self, text: str) -> str:
        """Return `text`, words between single spaces, as it is to be scored."""
        words = [self.cases.get(word, word) for word in text.split()]
        if self.capitalise and words:
            words[0] = capitalize(words[0])
        return " ".join(words) + self.final

    def __str__(self) -> str:
        changes = []
        if self.cases:
            changes.append(f"case of {len(self.cases)} words as in a text")
        if self.capitalise:
            changes.append("first letter upper case")
        if self.final:
            changes.append(f"{self.final!r} at the end")
        return ", ".join(changes) or "as given"


def learn_cases(sentences: Iterable[str]) -> dict[str, str]:
    """Learn from a text how its words are written within sentences.

    The commonest form of each word counts, first words of sentences and of quotations left out;
    among equally common forms the one in lower case. This is the unigram truecaser from which
    Lita et al. (2003, doi 10.3115/1075096.1075116) start.

    Parameters
    ----------
    sentences
        Sentences as people write them.

    Returns
    -------
    dict
        From words in lower case to the form, where the two differ.
    """
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in sentences:
        if not text.split():
            continue
        sentence = Sentence.parse(text)
        for position in range(1, len(sentence)):
            if not _QUOTES.intersection(sentence.before[position]):
                word = sentence.words[position]
                forms[word.lower()][word] += 1
    commonest = {
        lower: max(counts, key=lambda form: (counts[form], form == lower, form))
        for lower, counts in forms.items()
    }
    return {lower: form for lower, form in commonest.items() if form != lower}


# Sentences scored together: many lists, so that a model can batch and share what they share.
_CHUNK = 1024


def score_hypotheses(
    nbest: NBest,
    model: SentenceModel,
    form: SentenceForm | None = None,
    cache: ScoreCache | None = None,
) -> dict[str, float]:
    """Score the hypotheses of all utterances.

    Sentences that are alike once the form is applied are scored once, whichever utterances they
    belong to; they go to the model in large batches, in the order of the file, so that it can
    compute once what several share (causal transformers: the words before the first difference).

    Parameters
    ----------
    nbest
        The n-best lists.
    model
        The model.
    form
        How hypotheses are written for the model; as given by default.
    cache
        Where scores are kept and looked up.

    Returns
    -------
    dict
        From each hypothesis as given to its score, as the model's `score` gives it (nats).

    Raises
    ------
    InputError
        If the model cannot score a hypothesis (an unknown word, for example); the message names
        the utterance.

    Examples
    --------
    >>> import contstim
    >>> texts = ("he came hum", "he came home")
    >>> said = [Utterance(part, part, "he came home", texts, (-1.0, -1.2), part) for part in SPLITS]
    >>> model = contstim.load_model("contstim:trigram?unknown=unk")
    >>> scores = score_hypotheses(NBest(tuple(said)), model)
    >>> max(scores, key=scores.get)
    'he came home'
    """
    write = SentenceForm() if form is None else form
    written = {text: write(text) for text in nbest.texts}
    sentences = list(dict.fromkeys(written.values()))
    starts = range(0, len(sentences), _CHUNK)
    scores: dict[str, float] = {}
    for start in track(starts, len(starts), f"scoring with {model.spec}"):
        chunk = sentences[start : start + _CHUNK]
        try:
            totals = model.totals(chunk) if cache is None else cache.totals(model, chunk)
        except InputError:
            _blame(nbest, model, written, chunk)
            raise
        scores.update(zip(chunk, totals.score.tolist(), strict=True))
    return {text: scores[sentence] for text, sentence in written.items()}


def _blame(nbest: NBest, model: SentenceModel, written: dict[str, str], chunk: list[str]) -> None:
    """Raise the error of the first hypothesis that the model cannot score, with its utterance."""
    among = set(chunk)
    for utterance in nbest.utterances:
        for text in utterance.texts:
            if written[text] in among:
                try:
                    model.totals([written[text]])
                except InputError as error:
                    raise InputError(f"the utterance {utterance.id!r}: {error}") from None
