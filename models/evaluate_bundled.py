"""Print the figures of a bundled model's card.

Usage: python models/evaluate_bundled.py SPEC --blimp blimp.zip --heldout heldout.txt.gz

SPEC is any model that scores unknown words, e.g. ``contstim:lstm?unknown=unk``. Printed:
perplexity on the held-out sentences, per scored unit (ends of sentences counted), over all units
and over those the model knows, or, of transformers, per token and per word (pseudo-perplexity for
masked ones, with the share of tokens that the model ranks first when only they are hidden); the
share of held-out sentences of eight words that score above the same words in random order; with
``--speed``, sentences of eight words scored per second of processor time; and the accuracy on a
sample of BLiMP (Warstadt et al. 2020), by phenomenon or, of ``--paradigms``, by paradigm, a tie
counted as half. ``--paradigms twelve`` stands for twelve of the paradigms, of ten phenomena.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
import zipfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from contstim.models.base import SentenceModel
from contstim.models.hf.masked import MaskedModel
from contstim.models.hf.metrics import apply_masks
from contstim.models.registry import load_model
from contstim.text.language import split_word

BATCH = 2000
TWELVE = (
    "anaphor_number_agreement",
    "determiner_noun_agreement_1",
    "distractor_agreement_relational_noun",
    "existential_there_quantifiers_1",
    "irregular_past_participle_verbs",
    "npi_present_1",
    "passive_1",
    "principle_A_case_1",
    "regular_plural_subject_verb_agreement_1",
    "transitive",
    "wh_island",
    "wh_questions_subject_gap",
)


def read_lines(path: Path) -> list[str]:
    """Return the sentences of a text file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def print_perplexity(model: SentenceModel, sentences: list[str]) -> None:
    """Print the perplexity over all units and over the known ones."""
    units: list[str] = []
    values: list[np.ndarray] = []
    n_words = 0
    for first in range(0, len(sentences), BATCH):
        for part in model.score_tokens(sentences[first : first + BATCH]):
            units += part.tokens
            n_words += part.n_words
            values.append(part.log_probs)
    log_probs = np.concatenate(values)
    if model.event.units == "tokens":
        kind = "pseudo-perplexity" if isinstance(model, MaskedModel) else "perplexity"
        print(f"{kind}: {np.exp(-log_probs.mean()):.1f} a token over {len(units)} tokens")
        print(f"{kind}: {np.exp(-log_probs.sum() / n_words):.1f} a word over {n_words} words")
        return
    known = model.knows(units) | (np.array(units) == model.event.end)
    print(f"perplexity: {np.exp(-log_probs.mean()):.1f} over {len(units)} units")
    print(
        f"perplexity of known words: {np.exp(-log_probs[known].mean()):.1f} "
        f"({1 - known.mean():.2%} of units unknown)"
    )


def print_masked_accuracy(model: MaskedModel, sentences: list[str]) -> None:
    """Print how often a hidden token is the one that the model finds most probable."""
    right = total = 0
    for encoded in model.encode(sentences):
        n = len(encoded.scored_positions)
        rows = apply_masks(
            encoded.ids, encoded.scored_positions, np.eye(n, dtype=np.bool_), model.mask_id
        )
        for read, logits in model.network.iter_logits(
            rows, np.arange(n), encoded.scored_positions, None
        ):
            best = logits.argmax(dim=1).cpu().numpy()
            right += int((best == encoded.ids[encoded.scored_positions[read]]).sum())
        total += n
    print(f"masked accuracy: {right / total:.3f} of {total} tokens, one hidden at a time")


def eight_words(sentences: list[str]) -> list[str]:
    """Return the sentences of eight words."""
    return [s for s in sentences if sum(any(c.isalnum() for c in w) for w in s.split()) == 8]


def print_speed(model: SentenceModel, sentences: list[str]) -> None:
    """Print how many sentences of eight words are scored in a second of processor time."""
    model.score(sentences[:4])
    started = time.process_time()
    model.score(sentences)
    rate = len(sentences) / (time.process_time() - started)
    print(f"speed: {rate:.1f} eight-word sentences a second of processor time, {len(sentences)}")


def print_shuffles(model: SentenceModel, sentences: list[str], seed: int) -> None:
    """Print how often an eight-word sentence scores above the same words shuffled."""
    rng = np.random.default_rng(seed)
    natural, shuffled = [], []
    for sentence in eight_words(sentences):
        words = sentence.split()
        before, core, final = split_word(words[-1])
        bare = [*words[:-1], before + core]
        order = bare
        while order == bare:
            order = [bare[i] for i in rng.permutation(len(bare))]
        natural.append(sentence)
        shuffled.append(" ".join(order) + final)
    wins = model.score(natural) > model.score(shuffled)
    print(f"natural order above a shuffle: {wins.mean():.1%} of {len(wins)} eight-word sentences")


def print_blimp(
    model: SentenceModel, path: Path, per_paradigm: int, seed: int, paradigms: list[str] | None
) -> None:
    """Print the accuracy by phenomenon on `per_paradigm` pairs of each paradigm, or by paradigm."""
    rng = np.random.default_rng(seed)
    good: list[str] = []
    bad: list[str] = []
    terms: list[str] = []
    with zipfile.ZipFile(path) as archive:
        names = sorted(n for n in archive.namelist() if n.endswith(".jsonl"))
        if paradigms is not None:
            names = [n for n in names if Path(n).stem in paradigms]
        for name in names:
            pairs = [json.loads(line) for line in archive.read(name).decode().splitlines()]
            for i in rng.choice(len(pairs), min(per_paradigm, len(pairs)), replace=False):
                good.append(pairs[i]["sentence_good"])
                bad.append(pairs[i]["sentence_bad"])
                terms.append(pairs[i]["UID" if paradigms else "linguistics_term"])
    difference = model.score(good) - model.score(bad)
    correct = np.where(difference == 0, 0.5, difference > 0)
    by_term: defaultdict[str, list[float]] = defaultdict(list)
    for term, value in zip(terms, correct, strict=True):
        by_term[term].append(float(value))
    print(f"BLiMP: {correct.mean():.1%} of {len(correct)} pairs")
    for term, values_of in sorted(by_term.items()):
        print(f"  {term}: {np.mean(values_of):.1%} of {len(values_of)}")


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec")
    parser.add_argument("--blimp", type=Path)
    parser.add_argument("--heldout", type=Path)
    parser.add_argument("--per-paradigm", type=int, default=50)
    parser.add_argument("--paradigms", nargs="+", metavar="NAME", help="of BLiMP; or: twelve")
    parser.add_argument("--limit", type=int, help="use the first N held-out sentences only")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model = load_model(args.spec)
    print(f"{model.spec}: {model.event}")
    if args.heldout is not None:
        sentences = read_lines(args.heldout)[: args.limit]
        print_perplexity(model, sentences)
        if isinstance(model, MaskedModel):
            print_masked_accuracy(model, sentences)
        print_shuffles(model, sentences, args.seed)
        if args.speed:
            print_speed(model, eight_words(sentences))
    if args.blimp is not None:
        paradigms = list(TWELVE) if args.paradigms == ["twelve"] else args.paradigms
        print_blimp(model, args.blimp, args.per_paradigm, args.seed, paradigms)


if __name__ == "__main__":
    main()
