"""A first pass to rescore: sentences spoken by espeak-ng and recognised by PocketSphinx.

The recogniser's acoustic model and dictionary are those of the package; its language model is a
trigram of the text that the sentences are taken from, less those sentences.
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import resample_poly

from contstim.errors import InputError
from contstim.training.ngram import NgramVocabulary, train_ngram

RATE = 16_000
# PocketSphinx writes scores as logarithms to this base; its worst score stands for impossible.
BASE = math.log(1.0001)
IMPOSSIBLE = -100_000_000
LOG_10 = math.log(10.0)
SENTENCE = re.compile(r"[A-Z][A-Za-z',]*( [A-Za-z',]+)*[.?!]")


@dataclass(frozen=True)
class Voice:
    """How espeak-ng speaks: voice, words a minute, pause between words (10 ms), pitch."""

    name: str
    speed: int
    gap: int
    pitch: int

    @property
    def options(self) -> list[str]:
        """The options of the program."""
        numbers = ("-s", str(self.speed), "-g", str(self.gap), "-p", str(self.pitch))
        return ["-v", self.name, *numbers]


#: Voices that the recogniser, trained on people, understands in part.
VOICES = (
    Voice("en-us", 125, 6, 35),
    Voice("en-gb", 125, 6, 35),
    Voice("en-us+m1", 130, 6, 40),
    Voice("en-us+klatt", 125, 6, 35),
    Voice("en-us", 150, 2, 50),
)


@dataclass(frozen=True)
class FirstPass:
    """Settings of the recogniser and of its lists.

    Attributes
    ----------
    noise
        Standard deviations of the white noise that is added, in 16-bit samples, of which each
        utterance gets one; speech peaks at 8,000.
    states
        Most states followed at a time (the recogniser's ``maxhmmpf``): far fewer than its
        default, for synthetic speech takes it many times real time otherwise.
    word_weight
        Weight of the recogniser's own trigram against its acoustics: its default.
    insertion
        Factor for each word: its default.
    silence, filler
        Probabilities of silences and noises between words: its defaults.
    beam
        Histories kept at each node of a lattice.
    n_best
        Hypotheses kept of each utterance.
    """

    noise: tuple[float, ...] = (30.0, 80.0)
    states: int = 2000
    word_weight: float = 9.5
    insertion: float = 0.65
    silence: float = 0.005
    filler: float = 1e-8
    beam: int = 60
    n_best: int = 16


def plain_words(sentence: str) -> str:
    """Return a sentence as the recogniser writes it: lower case, no marks."""
    return " ".join(re.findall(r"[a-z']+", sentence.lower()))


def speak(sentence: str, voice: Voice, noise: float, seed: int) -> bytes:
    """Return a spoken sentence as 16-bit samples at 16 kHz, with noise."""
    command = ["espeak-ng", *voice.options, "--stdout", sentence]
    # No shell reads the sentence.
    wave = subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603
    rate = int.from_bytes(wave[24:28], "little")
    # The program does not know the length when it writes the header, so the chunk sizes are void.
    spoken = np.frombuffer(wave[wave.index(b"data") + 8 :], dtype="<i2").astype(np.float64)
    factor = math.gcd(rate, RATE)
    spoken = resample_poly(spoken, RATE // factor, rate // factor)
    quiet = np.zeros(RATE // 5)
    samples = np.concatenate([quiet, spoken * 8000 / np.abs(spoken).max(), quiet])
    samples += noise * np.random.default_rng(seed).standard_normal(len(samples))
    return np.clip(samples, -32768, 32767).astype("<i2").tobytes()


def load_dictionary() -> Any:
    """Return a decoder that is good for looking words up."""
    from pocketsphinx import Config, Decoder

    return Decoder(Config(loglevel="FATAL"))


def choose_sentences(
    sentences: Sequence[str], n: int, lengths: tuple[int, int], seed: int
) -> tuple[list[str], list[str]]:
    """Choose sentences to be spoken, and return them and the rest of the text.

    Chosen are plain sentences of words that the recogniser's dictionary has and that occur in the
    rest of the text as well, so that every word could be recognised.

    Parameters
    ----------
    sentences
        The text.
    n
        How many to choose.
    lengths
        Fewest and most words of a sentence.
    seed
        Seed of the choice.
    """
    dictionary = load_dictionary()
    words = [plain_words(sentence).split() for sentence in sentences]
    left = Counter(word for own in words for word in set(own))
    chosen: list[int] = []
    seen: set[str] = set()
    for i in np.random.default_rng(seed).permutation(len(sentences)):
        own = words[i]
        if (
            lengths[0] <= len(own) <= lengths[1]
            and SENTENCE.fullmatch(sentences[i])
            and " ".join(own) not in seen
            and all(left[word] > 1 and dictionary.lookup_word(word) for word in own)
        ):
            chosen.append(int(i))
            seen.add(" ".join(own))
            left.subtract(set(own))
        if len(chosen) == n:
            break
    if len(chosen) < n:
        raise InputError(
            f"the text has {len(chosen)} sentences that can be spoken, not {n}; give a longer text "
            "or ask for fewer"
        )
    taken = set(chosen)
    rest = [
        s
        for i, s in enumerate(sentences)
        if i not in taken and " ".join(words[i]) not in seen and words[i]
    ]
    return [sentences[i] for i in chosen], rest


def train_language_model(sentences: Sequence[str], path: Path) -> None:
    """Write the recogniser's language model: a trigram of the words that its dictionary has."""
    dictionary = load_dictionary()
    lines = [plain_words(sentence) for sentence in sentences]
    words = sorted({word for line in lines for word in line.split()})
    known = tuple(word for word in words if dictionary.lookup_word(word))
    text = path.with_suffix(".txt")
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    train_ngram(text, path, order=3, vocabulary=NgramVocabulary(words=known))


class Recogniser:
    """PocketSphinx, giving n-best lists with scores in nats.

    Parameters
    ----------
    settings
        Its settings.
    language_model
        Its language model, an ARPA file.
    """

    def __init__(self, settings: FirstPass, language_model: Path) -> None:
        import kenlm
        from pocketsphinx import Config, Decoder

        self.settings = settings
        config = Config(
            loglevel="FATAL", cmn="batch", lm=str(language_model), maxhmmpf=settings.states
        )
        self.decoder = Decoder(config)
        quiet = kenlm.Config()
        quiet.show_progress = False
        self._kenlm = kenlm
        self._trigram = kenlm.Model(str(language_model), quiet)

    def recognise(self, samples: bytes) -> tuple[str, list[dict[str, Any]]]:
        """Return what PocketSphinx itself decides for, and the hypotheses of its lattice.

        The latter best first, as n-best lists hold them; none where nothing was recognised.
        """
        self.decoder.start_utt()
        self.decoder.process_raw(samples, full_utt=True)
        self.decoder.end_utt()
        hypothesis, lattice = self.decoder.hyp(), self.decoder.get_lattice()
        if hypothesis is None or lattice is None:
            return "", []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lattice"
            lattice.write(str(path))
            lines = path.read_text("utf-8").splitlines()
        decided = re.sub(r"\(\d+\)", "", hypothesis.hypstr)
        return decided, self._best(*_parse(lines))

    def _best(
        self,
        words: dict[int, str],
        edges: dict[int, list[tuple[int, float]]],
        order: list[int],
        ends: tuple[int, int],
    ) -> list[dict[str, Any]]:
        """Find the best word sequences of a lattice, the trigram's whole history kept.

        Histories spread from the first node; at each node those of highest score are kept. Paths
        with the same words count as the best of them.
        """
        first, final = ends
        arrived: defaultdict[int, dict[tuple[str, ...], tuple[float, Any]]] = defaultdict(dict)
        start = self._kenlm.State()
        self._trigram.BeginSentenceWrite(start)
        arrived[first][()] = (0.0, start)
        for node in order:
            histories = sorted(arrived.pop(node, {}).items(), key=lambda item: -item[1][0])
            kept = [
                self._add(words[node], history, score, state, first=node == first)
                for history, (score, state) in histories[: self.settings.beam]
            ]
            if node == final:
                found = sorted(kept, key=lambda item: -item[1])
                break
            for target, acoustic in edges.get(node, []):
                there = arrived[target]
                for history, score, state in kept:
                    total = score + acoustic
                    if history not in there or there[history][0] < total:
                        there[history] = (total, state)
        else:
            return []
        return [
            {"text": " ".join(history), "score": round(score, 4)}
            for history, score, _ in found[: self.settings.n_best]
            if history
        ]

    def _add(
        self, word: str, history: tuple[str, ...], score: float, state: Any, *, first: bool
    ) -> tuple[tuple[str, ...], float, Any]:
        """Add what a node's word costs to a history's score."""
        if first:
            return history, score, state
        if word in ("<sil>", "<s>"):
            return history, score + math.log(self.settings.silence), state
        if word.startswith("["):
            return history, score + math.log(self.settings.filler), state
        following = self._kenlm.State()
        log_prob = self._trigram.BaseScore(state, word, following) * LOG_10
        score += self.settings.word_weight * log_prob + math.log(self.settings.insertion)
        return (history if word == "</s>" else (*history, word)), score, following


def _parse(
    lines: list[str],
) -> tuple[dict[int, str], dict[int, list[tuple[int, float]]], list[int], tuple[int, int]]:
    """Read a lattice: words of nodes, edges with acoustic scores (nats), order in time, ends."""
    rows = iter(lines)
    words, starts, edges = {}, {}, defaultdict(list)
    for fields in _section(rows, "Nodes"):
        node = int(fields[0])
        words[node] = re.sub(r"\(\d+\)$", "", fields[1])
        starts[node] = int(fields[2])
    ends = {}
    for line in rows:
        if line.startswith("Edges"):
            break
        if line.startswith(("Initial ", "Final ")):
            name, _, number = line.partition(" ")
            ends[name] = int(number)
    for line in rows:
        if line == "End":
            break
        source, target, score = (int(field) for field in line.split())
        if score > IMPOSSIBLE:
            edges[source].append((target, score * BASE))
    order = sorted(words, key=lambda node: (starts[node], node == ends["Final"]))
    return words, dict(edges), order, (ends["Initial"], ends["Final"])


def _section(rows: Iterator[str], name: str) -> Iterator[list[str]]:
    """Yield the fields of the lines of one section of a lattice."""
    for line in rows:
        if line.startswith(name):
            break
    for line in rows:
        if line.startswith("#"):
            return
        yield line.split()
