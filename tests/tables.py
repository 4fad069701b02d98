"""A plain model for tests: a table of random bigram probabilities, scored term by term."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray, IntArray
from contstim.models.base import Event, Replacements, SentenceModel, SentenceParts
from contstim.models.spec import ModelSpec
from contstim.models.words import WordTokenizer
from contstim.text.sentence import Sentence, WordList


class TableModel(SentenceModel):
    """A bigram model over `words` with random probabilities; `exact` chooses its replacements.

    ``exact="none"`` uses the general version of the contract, ``"bound"`` gives a bound and an
    estimate like a network, ``"all"`` gives every score at once.
    """

    def __init__(
        self,
        words: Sequence[str],
        seed: int,
        *,
        end: bool = True,
        exact: str = "all",
        punctuation: str = "drop",
        sharpness: float = 2.0,
    ) -> None:
        super().__init__(ModelSpec("table", f"{seed}", (("exact", exact),)))
        self.words = list(words)
        self.end = end
        self.exact = exact
        n = len(self.words)
        rng = np.random.default_rng(seed)
        # Rows: contexts, the last being the start; columns: words, the last being the end.
        logits = rng.normal(scale=sharpness, size=(n + 1, n + 1))
        self.log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        ids = {word: i for i, word in enumerate(self.words)}
        self.tokenizer = WordTokenizer(ids, None, punctuation, name=self.spec)
        self.n_scored = 0

    @property
    def event(self) -> Event:
        return self.tokenizer.event("<s>", "</s>" if self.end else "none")

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.log_probs.tobytes()).hexdigest()

    def knows(self, words: Sequence[str]) -> BoolArray:
        return self.tokenizer.knows(words)

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        found = []
        for sentence in sentences:
            self.n_scored += 1
            encoded = self.tokenizer.encode(sentence)
            ids, word_of, units = list(encoded.ids), list(encoded.word_of), list(encoded.tokens)
            if self.end:
                ids.append(len(self.words))
                word_of.append(encoded.n_words - 1)
                units.append("</s>")
            before = [len(self.words), *ids[:-1]]
            values = np.array([self.log_probs[a, b] for a, b in zip(before, ids, strict=True)])
            found.append(SentenceParts(tuple(units), values, np.array(word_of), encoded.n_words))
        return found

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        general = super().replacements(sentence, position, words)
        if self.exact == "none":
            return general
        everything = np.arange(len(words), dtype=np.int64)
        if self.exact == "all":
            values = general.score(everything)
            return Replacements(values, values, True, general.score)
        return self._bounded(sentence, position, words, general, everything)

    def _bounded(
        self,
        sentence: Sentence,
        position: int,
        words: WordList,
        general: Replacements,
        everything: IntArray,
    ) -> Replacements:
        upper = np.empty(len(words))
        estimate = np.empty(len(words))
        original = self.parts([str(sentence)])[0].log_probs
        for i in everything:
            values = self.parts([str(sentence.replace(position, words.words[i]))])[0].log_probs
            upper[i] = values[: position + 1].sum()
            estimate[i] = upper[i] + original[position + 1 :].sum()
        return Replacements(upper, estimate, False, general.score)
