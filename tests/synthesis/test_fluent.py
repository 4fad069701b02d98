"""One sentence written from the left keeps all constraints on scores computed afresh."""

from __future__ import annotations

import pytest

from contstim import load_model, synthesize
from contstim.models.base import SentenceModel
from contstim.synthesis.fluent import Fluent
from contstim.synthesis.problem import Accepted, Edits, Fall, Floor, Problem
from contstim.text import Sentence

NATURAL = "The old man left his house at night."
HOW = Fluent(writer="contstim:gpt", begun=48, rows=16, ends=0.0, least=0.001, prompt=0)


@pytest.fixture(scope="module")
def models() -> dict[str, SentenceModel]:
    """The bundled models that are quick."""
    return {name: load_model(f"contstim:{name}") for name in ("bigram", "trigram", "lstm")}


@pytest.mark.parametrize(
    ("reject", "accept", "edits"),
    [
        ("bigram", "trigram", Edits()),
        ("trigram", "lstm", Edits(fixed=(0, 1, 2))),
    ],
)
def test_constraints_are_kept_afresh(
    models: dict[str, SentenceModel], reject: str, accept: str, edits: Edits
) -> None:
    rejecting, accepting = models[reject], models[accept]
    floor = Floor(accepting.spec, -9.0, per_word=True)
    problem = Problem(
        (rejecting, accepting), Fall((rejecting.spec,)), (floor, Accepted(accepting.spec)), edits
    )
    result = synthesize(NATURAL, problem=problem, strategy=HOW, seed=3)
    assert result.changed
    natural, sentence = Sentence.parse(NATURAL), Sentence.parse(result.sentence)
    assert (sentence.before, sentence.after) == (natural.before, natural.after)
    assert edits.kept(natural, sentence)
    for position, words in edits.words:
        assert sentence.words[position] in (*words, natural.words[position])
    texts = [NATURAL, result.sentence]
    kept, fell = accepting.score(texts), rejecting.score(texts)
    assert kept[1] >= max(kept[0], -9.0 * len(natural))
    assert result.loss == pytest.approx(fell[1] - fell[0], abs=1e-6)
    again = synthesize(NATURAL, problem=problem, strategy=HOW, seed=3)
    assert again.sentence == result.sentence


def test_a_floor_that_the_natural_sentence_breaks_is_no_obstacle(
    models: dict[str, SentenceModel],
) -> None:
    bigram, trigram = models["bigram"], models["trigram"]
    least = float(trigram.score([NATURAL])[0]) + 1.0
    problem = Problem((bigram, trigram), Fall((bigram.spec,)), (Floor(trigram.spec, least),))
    result = synthesize(NATURAL, problem=problem, strategy=HOW)
    assert not result.changed or trigram.score([result.sentence])[0] >= least
