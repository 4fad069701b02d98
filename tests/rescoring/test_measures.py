"""Word error rate and BLEU from sums.

Tests `contstim.rescoring`.
"""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from contstim.errors import UnknownNameError
from contstim.rescoring import Bleu, WordErrorRate, measure_named

REFERENCES = ["the cat sat on the mat", "a dog barked at night", "he went home"]
HYPOTHESES = ["the cat on a mat today", "the dog barked all night long", "he went home"]


def test_word_errors_counted_by_hand() -> None:
    measure = WordErrorRate()
    rows = [measure.statistics(r, [h]) for r, h in zip(REFERENCES, HYPOTHESES, strict=True)]
    # Deleted "sat", "the" to "a", inserted "today"; "a" to "the", "at" to "all", inserted "long".
    assert np.concatenate(rows).tolist() == [[1, 1, 1, 6], [2, 0, 1, 5], [0, 0, 0, 3]]
    assert measure.value(sum(rows)).tolist() == [6 / 14]
    assert measure.best(measure.statistics("a b c", ["a b", "a b d", "a b c", "a b c"])) == 2


def test_bleu_of_sums_is_the_corpus_bleu() -> None:
    measure = Bleu()
    pairs = zip(REFERENCES * 2, HYPOTHESES + REFERENCES, strict=True)
    sums = sum(measure.statistics(r, [h]) for r, h in pairs)
    expected = BLEU().corpus_score(HYPOTHESES + REFERENCES, [REFERENCES * 2]).score
    assert measure.value(sums)[0] == pytest.approx(expected, abs=1e-9)
    assert measure.loss(sums)[0] == -measure.value(sums)[0]
    # Without a common four-gram the smoothing shows.
    short = measure.statistics("he went home from here", ["he went away from there"])
    expected = BLEU().corpus_score(["he went away from there"], [["he went home from here"]]).score
    assert measure.value(short)[0] == pytest.approx(expected, abs=1e-9)
    assert expected > 0
    hypotheses = ["he stayed", "he went home", "home he went"]
    assert measure.best(measure.statistics("he went home", hypotheses)) == 1


def test_measures_by_name() -> None:
    assert isinstance(measure_named("bleu"), Bleu)
    with pytest.raises(UnknownNameError, match="did you mean 'wer'"):
        measure_named("were")
