"""How a hypothesis is written before a model scores it.

First passes mostly give lower-case words without marks, models are mostly trained on sentences as
people write them. A form is a stated change of a hypothesis for scoring; errors are counted on the
hypothesis as it was.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contstim.errors import InputError
from contstim.text.sentence import Sentence, capitalize

__all__ = ["SentenceForm", "learn_cases"]

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

    capitalise: bool = False
    final: str = ""
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
