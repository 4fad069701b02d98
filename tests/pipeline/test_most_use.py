"""A limit on how often a word may come in a set of synthetic sentences."""

from pathlib import Path

import pytest

from contstim.models.registry import FAMILIES, register_family
from contstim.models.toy import TableModel
from contstim.pipeline.engine import InProcess
from contstim.pipeline.synthesis import SynthesisRequest, write_synthesis
from contstim.pipeline.tasks import SynthesisOptions
from contstim.search.triplets import Triplet
from contstim.text.diversity import diversity, overused
from contstim.text.sentence import WordList, capitalize
from contstim.text.vocabulary import Vocabulary

LETTERS = "bdfgklmnprs"
LOWER = [a + vowel + b for a in LETTERS for b in LETTERS for vowel in "ao"]
UPPER = [capitalize(word) for word in LOWER[:60]]
VOCABULARY = Vocabulary(WordList.of(UPPER), WordList.of(LOWER), frozenset())
# All natural sentences have the first word, so that it may stay frequent.
SENTENCES = [f"{UPPER[0]} {LOWER[i + 1]} {LOWER[i + 60]}." for i in range(10)]


@pytest.fixture(autouse=True)
def _family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "table", FAMILIES["ngram"])
    register_family(
        "table", "for tests", lambda spec: TableModel([*LOWER, *UPPER], int(spec.location))
    )


def written(most_use: float, out: Path | None = None) -> list[Triplet]:
    options = SynthesisOptions(strategy="exhaustive", starts="all", most_use=most_use)
    request = SynthesisRequest([("table:11", "table:12")], SENTENCES, VOCABULARY, options)
    rows = list(write_synthesis(request, out, InProcess()))
    return [row for row in rows if isinstance(row, Triplet)]


def test_a_word_is_in_no_more_sentences_than_it_may(tmp_path: Path) -> None:
    free, limited = written(1.0), written(0.1, tmp_path / "limited.csv")
    texts = [(row.synthetic_1, row.synthetic_2) for row in limited]
    assert len(limited) == len(SENTENCES)
    assert overused([row.natural for row in free], [[r.synthetic_1] for r in free], 0.1)[0]
    assert not overused([row.natural for row in limited], texts, 0.1)[0]
    found = diversity([text for both in texts for text in both], SENTENCES)
    counts = dict(found.most_frequent)
    assert all(n <= 0.1 for word, n in counts.items() if word != LOWER[0])
    # What was within the limit is not searched again, and all keep what they are asked for.
    assert free[0] == limited[0]
    assert all(row.synthetic_1_lp_1 >= row.natural_lp_1 for row in limited)
    assert all(row.synthetic_1_lp_2 < row.natural_lp_2 for row in limited)
    assert '"distinct"' in (tmp_path / "limited.csv.meta.json").read_text()
