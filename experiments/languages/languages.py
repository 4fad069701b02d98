"""Six languages from a text to an evaluation, by the commands alone.

    python experiments/languages/languages.py --out results

For each language: a text (`texts.py`), natural sentences sampled from it, a vocabulary, a bigram
and a trigram model of the rest, triplets whose neighbours go together, a page for reviewers, trials
with catch trials, the experiment's page, simulated people and their evaluation. `sentences.md` has
twenty sentences of each language to be looked at letter by letter, natural ones and written ones.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import islice
from pathlib import Path

import pandas as pd
from texts import GRAMMARS, sentences

from contstim import load_model
from contstim.cli import main as contstim
from contstim.design.simulate import Simulation, simulate_choices
from contstim.experiment.sentence_flags import sentence_flags
from contstim.text import Sentence
from contstim.text.languages import LANGUAGES, get_language


def command(*words: object) -> None:
    """Run a command; stop where it fails."""
    line = [str(word) for word in words]
    if contstim(line):
        raise SystemExit(f"failed: contstim {' '.join(line)}")


def spec(code: str, order: int) -> str:
    """Return the spec of a model of a language."""
    cut = "" if get_language(code).is_space_delimited else f"language={code}&"
    return f"ngram:{order}.arpa?{cut}punctuation=split"


def run(code: str, n: int) -> dict[str, object]:
    """Do everything for one language in the working folder; return what came out."""
    started = time.monotonic()
    text = Path("text.txt")
    text.write_text("\n".join(islice(sentences(code, 1), n)) + "\n", encoding="utf-8")
    command("sentences", "sample", text, "--length", "4-9", "--n", 60,
            "--unsampled", "training.txt",
            "--sentence-punctuation", "final-only", "--out", "natural.txt")  # fmt: skip
    command("vocabulary", "training.txt", "--out", "vocabulary.csv")
    for order in (2, 3):
        command("models", "train", "ngram", "training.txt", "--order", order, "--punctuation",
                "split", "--language", code, "--fallback", "0.5,1,1.5", "--out",
                f"{order}.arpa")  # fmt: skip
    specs = [spec(code, order) for order in (2, 3)]
    command("synthesize", "--pair", *specs, "--sentences", "natural.txt", "--vocabulary",
            "vocabulary.csv", "--edits", "agreement", "--limit", 40,
            "--out", "triplets.csv")  # fmt: skip
    triplets = pd.read_csv("triplets.csv")
    # With some hundred words, searches end in the same sentences; people see each once.
    seen: set[str] = set()
    columns = ["natural", "synthetic_1", "synthetic_2"]
    fresh = [seen.isdisjoint(row) and not seen.update(row) for row in triplets[columns].to_numpy()]
    triplets[fresh].to_csv("distinct.csv", index=False)
    chosen = min(12, sum(fresh) // 3 * 3)
    command("select", "triplets", "distinct.csv", "--per-pair", chosen, "--strata", 1,
            "--out", "selected.csv")  # fmt: skip
    command("review", "triplets.csv", "--reviewer", "AB", "--mail", "review.html")
    command("design", "trials", "--triplets", "selected.csv", "--pool", "natural.txt", "--groups",
            3, "--participants", 4, "--catch", 3, "--out", "trials.csv")  # fmt: skip
    command("experiment", "new", "study", "--trials", "trials.csv", "--language", code)
    command("experiment", "check", "study")
    trials = pd.read_csv("trials.csv")
    shown = pd.unique(trials[["sentence_1", "sentence_2"]].to_numpy().ravel()).tolist()
    scores = pd.DataFrame({m: load_model(m).score(shown) for m in specs}, index=shown)
    scores.to_csv("scores.csv", index_label="sentence")
    choices = simulate_choices(trials, scores, Simulation.from_weights(specs[1], noise=1.0), seed=1)
    choices.to_csv("choices.csv", index=False)
    command("evaluate", "choices.csv", "--scores", "scores.csv", "--out", "evaluation")
    models = pd.read_csv("evaluation/models.csv")
    accuracy = models[(models["measure"] == "accuracy") & (models["analysis"] == "targeted")]
    best = accuracy.set_index("model")["value"]
    language = get_language(code)
    written = [*triplets["synthetic_1"], *triplets["synthetic_2"]]
    parsed = [Sentence.parse(sentence, language) for sentence in written]
    return {
        "language": code,
        "triplets": len(triplets),
        "distinct": sum(fresh),
        "read back": sum(sentence.round_trips for sentence in parsed) / len(parsed),
        "disagreeing": sum(bool(sentence.agreement_errors) for sentence in parsed),
        "flagged": sum(bool(sentence_flags(s, language)) for s in written) / len(written),
        "nats": -(triplets["synthetic_1_lp_2"] - triplets["natural_lp_2"]).mean(),
        "bigram": best[specs[0]],
        "trigram": best[specs[1]],
        "seconds": time.monotonic() - started,
    }


def twenty(code: str) -> list[str]:
    """Return the lines of the sheet on which a language's sentences are looked at."""
    language, triplets = get_language(code), pd.read_csv("triplets.csv")
    rows = [f"\n## {language.name}\n"]
    for row in triplets.head(7).to_dict("records"):
        for kind in ("natural", "synthetic_1", "synthetic_2"):
            words = " · ".join(language.split(row[kind]))
            rows.append(f"- {kind}: {row[kind]}  \n  {words}")
    return rows[:21]


def main() -> None:
    """Do all languages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--language", choices=sorted(GRAMMARS), action="append")
    args = parser.parse_args()
    here, out = Path.cwd(), args.out.resolve()
    rows, sheet = [], ["# Twenty sentences of each language"]
    for code in args.language or GRAMMARS:
        assert code in LANGUAGES
        (out / code).mkdir(parents=True)
        os.chdir(out / code)
        rows.append(run(code, args.n))
        sheet += twenty(code)
        os.chdir(here)
    table = pd.DataFrame(rows)
    table.to_csv(out / "results.csv", index=False, float_format="%.3f")
    (out / "sentences.md").write_text("\n".join(sheet) + "\n", encoding="utf-8")
    print(table.to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
