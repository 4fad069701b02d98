"""Blocked words are not proposed by any strategy."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_words import LOWER

from contstim import SentenceModel, Vocabulary, WordList, WordOptions, load_model, synthesize
from contstim.models.toy import RandomBigramModel
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence
from contstim.text.languages import ENGLISH

VOCABULARY = Vocabulary(
    WordList.from_words(map(ENGLISH.capitalise, LOWER)), WordList.from_words(LOWER)
)
SENTENCES = ["The dog saw the cat.", "Big fish ate the man.", "The red cat ran home."]
TOYS = tuple(
    RandomBigramModel([*VOCABULARY.first, *VOCABULARY.elsewhere], seed) for seed in (11, 12)
)


class _Recording(SharedVocabulary):
    """Keeps every word that it proposes."""

    proposed: set[str]

    def words_at(
        self, sentence: Sentence, position: int, listed: tuple[str, ...] | None = None
    ) -> WordList:
        found = super().words_at(sentence, position, listed)
        self.proposed.update(word.casefold() for word in found)
        return found


def proposed(
    models: tuple[SentenceModel, ...], name: str, natural: str, blocked: set[str]
) -> set[str]:
    """Search without the blocked words; return every word proposed or written."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "block.txt").write_text("\n".join(map(str.upper, blocked)) + "\n")
        words = WordOptions(block=("block.txt",)).filter(VOCABULARY, Path(folder))
    proposal = _Recording(words, models)
    object.__setattr__(proposal, "proposed", set())
    found = synthesize(
        natural,
        reject=models[0],
        accept=models[1],
        strategy=name,
        shared_vocabulary=proposal,
    )
    before = Sentence.parse(natural).words
    after = Sentence.parse(found.sentence).words
    return proposal.proposed | {
        new.casefold() for old, new in zip(before, after, strict=True) if new != old
    }


@pytest.mark.parametrize("name", ["edit", "edit?candidates=all"])
@settings(max_examples=4, deadline=None)
@given(
    natural=st.sampled_from(SENTENCES),
    blocked=st.sets(st.sampled_from(LOWER), min_size=1, max_size=8),
)
def test_blocked_words_are_not_proposed(name: str, natural: str, blocked: set[str]) -> None:
    assert not proposed(TOYS, name, natural, blocked) & blocked


def test_beam_does_not_propose_blocked_words() -> None:
    models = load_model("contstim:bigram"), load_model("contstim:trigram")
    blocked = {"the", "cat", "home", "man"}
    found = proposed(models, "beam", SENTENCES[0], blocked)
    assert found
    assert not found & blocked
