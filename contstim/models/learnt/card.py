"""The card of a learnt model: what it is, how it was made and what it reaches, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _training(record: Mapping[str, Any]) -> str:
    training = record["training"]
    layers = training["layers"]
    what = "all weights" if layers is None else f"head and upper layers: {layers}"
    return (
        f"Started from `{record['base']}`; trained: {what}; passes: {training['epochs']}, batches "
        f"of up to {training['batch']} sentences, seed {training['seed']}, "
        f"{training['seconds']:.0f} s."
    )


def student_card(record: Mapping[str, Any]) -> str:
    """Return the card of a student from its record."""
    found, training = record["heldout"], record["training"]
    return (
        f"# Student of `{record['teacher']['spec']}`\n\n"
        "Estimates the teacher's sentence score in one pass, from the first token's vector "
        "(Salazar et al. 2020, section 2.2). Words have no share of it.\n\n"
        "| held-out sentences | Pearson | Spearman | root mean squared error | standard deviation "
        "of the teacher's scores |\n"
        "| ---: | ---: | ---: | ---: | ---: |\n"
        f"| {found['sentences']} | {found['pearson']:.4f} | {found['spearman']:.4f} | "
        f"{found['rmse']:.3f} | {found['sd']:.3f} |\n\n"
        f"{_training(record)} Learnt from {training['sentences']} sentences; "
        f"{training['left_out']} were left out, with words that one of the two cannot write or too "
        "long.\n"
    )


def classifier_card(record: Mapping[str, Any]) -> str:
    """Return the card of a classifier from its record."""
    lines = [
        "# Acceptability classifier",
        "",
        f"Labels: {record['task']}. The score is a judgement, not the probability of a sentence.",
        "",
        "Matthews' correlation on the development sets. The best was chosen on the second, so its "
        "figure there flatters it a little.",
        "",
        "| set | sentences | mean | sd | best | majority |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for part, mcc in record["mcc"].items():
        n = record["training"]["sentences"][part]
        lines.append(
            f"| {part} | {n} | {mcc['mean']:.3f} | {mcc['sd']:.3f} | {mcc['best']:.3f} | "
            f"{mcc['majority']:.3f} |"
        )
    seeds = ", ".join(str(row["seed"]) for row in record["restarts"])
    degenerate = ", ".join(str(row["seed"]) for row in record["degenerate"]) or "none"
    lines += [
        "",
        f"Restarts of seeds {seeds}; degenerate and replaced: {degenerate}. Majority of "
        f"{len(record['majority'])}.",
        "",
        _training(record),
        "",
    ]
    return "\n".join(lines)
