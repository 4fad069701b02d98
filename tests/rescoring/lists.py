"""n-best lists made for tests."""

from __future__ import annotations

from contstim.rescoring.nbest import NBest, Utterance


def utterance(
    name: str,
    reference: str,
    hypotheses: dict[str, float],
    split: str = "dev",
    group: str | None = None,
) -> Utterance:
    texts, scores = tuple(hypotheses), tuple(hypotheses.values())
    return Utterance(name, split, reference, texts, scores, group or name)


def small() -> NBest:
    """Four utterances whose first-pass scores mislead and whose third word tells."""
    rows = []
    for number, split in enumerate(["dev", "dev", "test", "test"]):
        right, wrong = f"the dog {number} barked", f"the dock {number} barked"
        rows.append(
            utterance(f"u{number}", right, {wrong: -10.0, right: -11.0 - number % 2}, split)
        )
    return NBest(tuple(rows))


#: A model's scores: hypotheses with the dog are better by four nats.
def dog_scores(nbest: NBest) -> dict[str, float]:
    return {text: -5.0 if "dog" in text else -9.0 for text in nbest.texts}
