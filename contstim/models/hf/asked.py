"""Sentences within a text, and what a causal model answers when it is asked about a sentence.

Ide et al. (2025), NAACL, "How to make the most of LLMs' grammatical knowledge for acceptability
judgments", compare nine ways of asking; the log-probability of a sentence within a template and the
probability of Yes did best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, SpecError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.base import Event, SentenceModel, SentenceParts, Totals
from contstim.models.hf.beginnings import goes_on
from contstim.models.hf.causal import CausalModel
from contstim.models.hf.checkpoint import CAUSAL_OPTIONS, SHARED_OPTIONS, Checkpoint
from contstim.models.hf.encoding import check_length
from contstim.models.hf.metrics import ANSWER, YES_NO
from contstim.models.hf.network import Kept
from contstim.models.hf.template import Template
from contstim.models.hf.trie import n_shared
from contstim.text.normalise import normalise_sentence

# Questions that are put together, and tokens that they share from which these are computed once.
_ROWS, _LONG_BEGINNING = 32, 16

#: Options of models that are asked, and their defaults; ``prompt`` has no default.
ASKED_OPTIONS = {
    **SHARED_OPTIONS,
    "prefix": CAUSAL_OPTIONS["prefix"],
    "chat": "auto",
    "answers": "yes|no",
}


@dataclass(frozen=True)
class AskedEvent(Event):
    """What a model answers about a sentence.

    Attributes
    ----------
    question
        Digest of the question, and whether it is put as the tokenizer's chat template has it.
    answers
        The tokens that count as either answer.
    """

    question: str = ""
    answers: str = ""


class AskedModel(SentenceModel):
    """A causal model's log-probability of Yes, of Yes and No, after a question about a sentence.

    ``log (sum of p(token) over tokens that say Yes / the same over Yes and No)``, nats. Tokens say
    Yes if they are the word ``yes`` but for case and the white space before it. The text of the
    question stands in a file, ``prompt=FILE``, which says by ``{sentence}`` where the sentence
    stands. Where the tokenizer has a chat template the question is put as a user's turn of it
    (``chat=auto``), and the answer is the first token of the turn that follows; ``chat=no`` puts
    the text as it is. ``answers=ja|nein`` asks for other words.

    A score has no shares of words, and it is the probability of no sentence.

    Parameters
    ----------
    spec
        The spec, with the options of `ASKED_OPTIONS` and ``prompt``.
    checkpoint
        The network and its tokenizer.

    Raises
    ------
    SpecError
        If an option cannot be read, or the vocabulary has no token for an answer.
    """

    kind = ANSWER

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        spec.check_options({*ASKED_OPTIONS, "metric", "prompt"})
        super().__init__(spec.canonical(ASKED_OPTIONS))
        if not (path := spec.get("prompt", "")):
            raise SpecError(
                f"metric={YES_NO} in {str(spec)!r} needs a question: prompt=FILE, a text with "
                "{sentence} where the sentence stands"
            )
        self.template = Template.read(path, str(spec))
        self.checkpoint, self.network = checkpoint, checkpoint.network
        keys = {*SHARED_OPTIONS, "prefix"}
        plain = tuple((key, value) for key, value in spec.options if key in keys)
        #: The same checkpoint, which knows how sentences are cut into tokens.
        self.reader = CausalModel(ModelSpec(spec.family, spec.location, plain), checkpoint)
        tokenizer = checkpoint.tokenizer
        chat = spec.choice("chat", ("auto", "no"), ASKED_OPTIONS["chat"])
        self.chats = chat == "auto" and bool(getattr(tokenizer, "chat_template", None))
        words = spec.get("answers", ASKED_OPTIONS["answers"]).split("|")
        if len(words) != 2 or not all(word.strip() for word in words):
            raise SpecError(
                f"answers={'|'.join(words)!r} in {str(spec)!r}: give two words, such as yes|no"
            )
        self._kept: Kept | None = None
        self._answers = [self._tokens(word.strip(), str(spec)) for word in words]

    def _tokens(self, word: str, spec: str) -> list[int]:
        """Return the tokens that are a word, but for case and white space."""
        tokenizer = self.checkpoint.tokenizer
        n = min(len(tokenizer), self.network.n_logits)
        texts = tokenizer.batch_decode([[token] for token in range(n)])
        tokens = [i for i, text in enumerate(texts) if text.strip().casefold() == word.casefold()]
        if not tokens:
            raise SpecError(
                f"no token of the vocabulary of {spec!r} is the answer {word!r}; name two words "
                "that are tokens: answers=WORD|WORD"
            )
        return tokens

    @property
    def event(self) -> AskedEvent:
        """What is asked, and what counts as an answer."""
        convert = self.checkpoint.tokenizer.convert_ids_to_tokens
        yes, no = (" ".join(map(repr, convert(tokens))) for tokens in self._answers)
        how = "by the chat template" if self.chats else "as it is"
        return AskedEvent(
            units="sentences",
            start=self.reader.event.start,
            end="none",
            punctuation="keep",
            case=self.reader.event.case,
            unknown=self.reader.event.unknown,
            metric=YES_NO,
            question=f"{digest(str(self.template))[:16]}, {how}",
            answers=f"{yes} or {no}",
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and tokenizer."""
        return self.checkpoint.fingerprint

    @property
    def packages(self) -> tuple[str, ...]:
        """PyTorch, transformers and tokenizers."""
        return self.reader.packages

    @property
    def resolution(self) -> float:
        """How far a score may move with its batch, nats."""
        return self.network.resolution

    def knows(self, words: Sequence[str]) -> BoolArray:
        """Return whether the tokenizer can write each of V words; shape (V,)."""
        return self.reader.knows(words)

    def n_tokens(self, sentences: Sequence[str]) -> IntArray | None:
        """Return the number of tokens of each sentence itself, (S,)."""
        return self.reader.n_tokens(sentences)

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Refuse: words have no shares of an answer."""
        raise InputError(
            f"{self.spec} gives one number a sentence, of which words have no shares; ask for "
            "scores of sentences"
        )

    def totals(self, sentences: Sequence[str]) -> Totals:
        """Ask about each sentence. Raises as the contract says for what cannot be read."""
        encoded = self.reader.encode(sentences)
        scores = self._answered([self._question(sentence) for sentence in sentences])
        pairs = zip(scores.tolist(), encoded, strict=True)
        return Totals.of_rows((score, len(e.scored), e.n_words, 0.0) for score, e in pairs)

    def _question(self, sentence: str) -> list[int]:
        """Return the tokens of the question about a sentence."""
        text = self.template.around(normalise_sentence(sentence))
        if self.chats:
            turns = [{"role": "user", "content": text}]
            text = self.checkpoint.tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
            # A chat template begins with what stands before a text.
            ids = self.reader.tokenizer.ids_of(text)
        else:
            ids = [*self.reader.prefix, *self.reader.tokenizer.ids_of(text)]
        check_length(sentence, len(ids), self.checkpoint.max_tokens, self.spec)
        return ids

    def _begun(self, rows: Sequence[list[int]]) -> Kept | None:
        """Return what is kept of the tokens that rows begin with, and rows before them did.

        None where they are few, where nothing is known yet of other rows than one, or where rows
        cannot go on from what is kept.
        """
        before = [] if self._kept is None else [list(self._kept.ids[0])]
        if len(every := [*before, *rows]) < 2 or not rows:
            return None
        # What the first and the last of a list in order begin with alike, all of it do.
        n = min([n_shared(min(every), max(every)), *(len(row) - 1 for row in rows)])
        if n < _LONG_BEGINNING or not goes_on(self.network, rows[0][:1]):
            return None
        if self._kept is None or n < len(self._kept.ids[0]):
            self._kept = self.network.begin(np.array(rows[0][:n], dtype=np.int64))[1]
        return self._kept

    def _answered(self, rows: Sequence[list[int]]) -> FloatArray:
        """Return the log-probability of Yes, of Yes and No, after rows of tokens, (R,).

        What all questions begin with is computed once.
        """
        before = self._begun(rows)
        n = len(before.ids[0]) if before is not None else 0
        scores = np.empty(len(rows))
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        for start in range(0, len(rows), _ROWS):
            group = order[start : start + _ROWS]
            if before is None:
                whole = [rows[i] for i in group]
                logits = torch.cat(self.network.of_rows(whole, [[len(row) - 1] for row in whole]))
            else:
                rest = [tuple(rows[i][n:]) for i in group]
                logits = before.go_on(self.network, [0] * len(group), rest, every=False)[1]
            yes, no = (torch.logsumexp(logits[:, tokens], dim=1) for tokens in self._answers)
            odds = (yes - no).to(torch.float64)
            scores[group] = torch.nn.functional.logsigmoid(odds).cpu().numpy()
        return scores
