"""An enumerable toy language, so few words that all strings can be summed, and a model of one.

Whatever a family does with batches, padding, boundary symbols and word grouping, the
probabilities it gives over the toy language must add up. With an end symbol a language has
endlessly many strings, so the sum runs over one length at a time: of all strings that begin with
L given words, either the end follows or one more word does,

    sum over s of length L of P(s, open) =
        sum over s of length L of P(s, end) + sum over s of length L + 1 of P(s, open),

where ``open`` leaves the end unscored. The identity holds exactly for a model that is normalised
at every step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray
from contstim.errors import ValidationError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.base import Event, ReplacementScores, SentenceModel, TokenScores
from contstim.models.prefixes import PrefixModel
from contstim.models.word_tokenizer import WordTokenizer
from contstim.text import Sentence, WordList


def all_strings(words: Sequence[str], length: int) -> list[str]:
    """Return every string of `length` words over `words`, V ** length of them."""
    return [" ".join(string) for string in itertools.product(words, repeat=length)]


def mass(model: SentenceModel, words: Sequence[str], length: int) -> float:
    """Return the summed probability of all strings of `length` words."""
    return float(np.exp(model.score(all_strings(words, length))).sum())


def check_normalisation(
    closed: SentenceModel,
    opened: SentenceModel,
    words: Sequence[str],
    length: int = 3,
    tolerance: float = 1e-5,
) -> None:
    """Check that a model over `words` gives probability exactly 1 in all.

    Parameters
    ----------
    closed, opened
        The same model with the end scored and with the end unscored.
    words
        Every word the model can predict.
    length
        Longest strings summed, at least 1.
    tolerance
        Allowed departure of each sum.

    Raises
    ------
    ValidationError
        Saying which sum is off, and by how much.

    Examples
    --------
    >>> words = ["a", "b", "c"]
    >>> closed, opened = (RandomBigramModel(words, 1, end=end) for end in (True, False))
    >>> check_normalisation(closed, opened, words)
    """
    before = mass(opened, words, 1)
    for n in range(1, length + 1):
        after = mass(opened, words, n + 1)
        ended = mass(closed, words, n)
        if abs(before - ended - after) > tolerance:
            raise ValidationError(
                f"{closed.spec}: strings of {n} words have mass {before:.8f}, but those that end "
                f"there ({ended:.8f}) and those that go on ({after:.8f}) sum to {ended + after:.8f}"
            )
        before = after


class RandomBigramModel(SentenceModel, PrefixModel):
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
        """What is scored."""
        return self.tokenizer.event("<s>", "</s>" if self.end else "none")

    @property
    def fingerprint(self) -> str:
        """Digest of the table."""
        return digest(self.log_probs.tobytes())

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return which of `words` are in the table; shape (V,)."""
        return self.tokenizer.in_vocabulary(words)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Look every unit up."""
        parts = []
        for sentence in sentences:
            self.n_scored += 1
            encoded = self.tokenizer.encode(sentence)
            ids, word_indices, units = (
                list(encoded.ids),
                list(encoded.word_indices),
                list(encoded.tokens),
            )
            if self.end:
                ids.append(len(self.words))
                word_indices.append(encoded.n_words - 1)
                units.append("</s>")
            before = [len(self.words), *ids[:-1]]
            values = np.array([self.log_probs[a, b] for a, b in zip(before, ids, strict=True)])
            parts.append(TokenScores(tuple(units), values, np.array(word_indices), encoded.n_words))
        return parts

    @property
    def scores_vocabulary(self) -> bool:
        """If `exact` says so."""
        return self.exact == "all"

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score candidates, at once or on demand as `exact` says."""
        general = super().score_replacements(sentence, position, words)
        if self.exact == "none":
            return general
        if self.exact == "all":
            values = general.score(np.arange(len(words), dtype=np.int64))
            return ReplacementScores(values, values, True, general.score)
        # Like a network: what comes before and the candidate bound it, the rest is guessed.
        texts = [str(sentence.replace(position, word)) for word in words]
        terms = [p.log_probs for p in self.score_tokens(texts)]
        upper = np.array([values[: position + 1].sum() for values in terms])
        rest = self.score_tokens([str(sentence)])[0].log_probs[position + 1 :].sum()
        return ReplacementScores(upper, upper + rest, False, general.score)
