"""Speak sentences, recognise them, and rescore what was recognised with sentence models.

What is done stays in the output folder: the same command again continues the recognition where it
stopped, and takes scores that are there.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from firstpass import (
    VOICES,
    FirstPass,
    Recogniser,
    choose_sentences,
    plain_words,
    speak,
    train_language_model,
)

from contstim.errors import ContstimError
from contstim.files import write_whole
from contstim.models.cache import ScoreCache
from contstim.models.registry import load_model
from contstim.progress import track
from contstim.rescoring import WordErrorRate
from contstim.rescoring.nbest import NBest, SentenceForm, learn_cases, read_nbest, score_hypotheses
from contstim.rescoring.rescore import Rescoring, RescoringOptions, rescore
from contstim.text import read_sentences

#: Models that come with contstim; others are added with --model.
BUNDLED = (
    "contstim:trigram?unknown=unk",
    "contstim:lstm?unknown=unk",
    "contstim:gpt",
    "contstim:bert?metric=pll&unknown=unk",
    "contstim:bert?metric=pll-word-l2r&unknown=unk",
    "contstim:bert?metric=pll-sentence-l2r&unknown=unk",
)
LENGTHS = (4, 9)

_recogniser: Recogniser | None = None


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="sentences, one a line, with their marks")
    parser.add_argument("--out", type=Path, required=True, help="folder for everything made")
    parser.add_argument("--dev", type=int, default=120, help="sentences to tune on (120)")
    parser.add_argument("--test", type=int, default=240, help="sentences to report on (240)")
    parser.add_argument("--model", action="append", default=[], help="a further model spec")
    parser.add_argument("--workers", type=int, default=2, help="processes that recognise (2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only-recognise", action="store_true", help="stop before rescoring")
    args = parser.parse_args()
    nbest_path = args.out / "nbest.jsonl"
    started = time.monotonic()
    if not nbest_path.exists():
        recognise_all(args)
        print(f"recognised in {time.monotonic() - started:.0f} s of this run")
    if not args.only_recognise:
        table(args.out, [*BUNDLED, *args.model], args.seed)


def recognise_all(args: argparse.Namespace) -> None:
    """Choose, speak and recognise sentences; write the n-best lists."""
    settings = FirstPass()
    text = read_sentences(args.text)
    chosen, rest = choose_sentences(text, args.dev + args.test, LENGTHS, args.seed)
    plan = {
        "settings": asdict(settings),
        "voices": [asdict(voice) for voice in VOICES],
        "lengths": LENGTHS,
        "dev": args.dev,
        "seed": args.seed,
        "sentences": chosen,
    }
    # JSON and back, so that it compares equal to what was written.
    plan = json.loads(json.dumps(plan))
    plan_path, done_path = args.out / "plan.json", args.out / "recognised.jsonl"
    language_model = args.out / "first-pass.arpa"
    if plan_path.exists():
        if json.loads(plan_path.read_text("utf-8")) != plan:
            raise SystemExit(f"{args.out} holds a run with other settings; give another folder")
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        write_whole(args.out / "rest.txt", "\n".join(rest) + "\n")
        train_language_model(rest, language_model)
        write_whole(plan_path, json.dumps(plan, indent=1) + "\n")
    done = _done(done_path)
    tasks = [(i, s) for i, s in enumerate(chosen) if f"s{i:04d}" not in done]
    with (
        done_path.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(args.workers, initializer=_start, initargs=(language_model,)) as pool,
    ):
        found = pool.map(_recognise, [(i, s, args.dev, args.seed) for i, s in tasks])
        for record in track(found, len(chosen), "recognising", done=len(done)):
            file.write(json.dumps(record) + "\n")
            file.flush()
            done[record["id"]] = record
    records = [done[key] for key in sorted(done)]
    kept = [record for record in records if record["hypotheses"]]
    print(f"{len(records) - len(kept)} of {len(records)} utterances have no hypothesis: left out")
    lines = "".join(json.dumps(record) + "\n" for record in kept)
    write_whole(args.out / "nbest.jsonl", lines)


def _done(path: Path) -> dict[str, dict[str, Any]]:
    """Read what was recognised before; a last line that was cut off is done again."""
    if not path.exists():
        return {}
    lines = [line for line in path.read_text("utf-8").splitlines(keepends=True) if line[-1] == "\n"]
    write_whole(path, "".join(lines))
    records = [json.loads(line) for line in lines]
    return {record["id"]: record for record in records}


def _start(language_model: Path) -> None:
    global _recogniser
    _recogniser = Recogniser(FirstPass(), language_model)


def _recognise(task: tuple[int, str, int, int]) -> dict[str, Any]:
    """Speak and recognise one sentence, each with a voice and noise of its own."""
    number, sentence, n_dev, seed = task
    assert _recogniser is not None
    settings = _recogniser.settings
    voice = VOICES[number % len(VOICES)]
    noise = settings.noise[number // len(VOICES) % len(settings.noise)]
    decided, hypotheses = _recogniser.recognise(speak(sentence, voice, noise, seed + number))
    return {
        "id": f"s{number:04d}",
        "split": "dev" if number < n_dev else "test",
        "reference": plain_words(sentence),
        "voice": voice.name,
        "noise": noise,
        "decided": decided,
        "hypotheses": hypotheses,
    }


def table(out: Path, specs: list[str], seed: int) -> None:
    """Rescore with each model, and print and write the table of word error rates."""
    nbest, measure = read_nbest(out / "nbest.jsonl"), WordErrorRate()
    form = SentenceForm(True, ".", learn_cases(read_sentences(out / "rest.txt")))
    cache = ScoreCache(out / "scores")
    options = RescoringOptions(length=True, seed=seed)
    rows, found = [], {}
    found["length alone"] = rescore(nbest, {}, measure, options)
    rows.append(_row("length alone", found["length alone"], 0.0))
    for spec in dict.fromkeys(specs):
        started = time.monotonic()
        try:
            model = load_model(spec)
            scores = score_hypotheses(nbest, model, form, cache)
        except ContstimError as error:
            print(f"{spec} left out: {error}")
            continue
        seconds = time.monotonic() - started
        found[model.spec] = rescore(nbest, {model.spec: scores}, measure, options)
        rows.append(_row(model.spec, found[model.spec], seconds))
        found[model.spec].write(out / "by-model" / f"{len(rows) - 1:02d}")
    _print(out, nbest, rows, found)


def _row(name: str, result: Rescoring, seconds: float) -> dict[str, Any]:
    summary = result.summary.set_index(["split", "system"])
    test = summary.loc[("test", "rescored")]
    return {
        "model": name,
        "wer": test["wer"],
        "difference": test["difference"],
        "difference_low": test["difference_low"],
        "difference_high": test["difference_high"],
        "dev_difference": summary.loc[("dev", "rescored"), "difference"],
        "weight": next(iter(result.weights.values())) if len(result.weights) > 1 else float("nan"),
        "length_weight": result.weights["length"],
        "seconds": round(seconds, 1),
    }


def _print(
    out: Path, nbest: NBest, rows: list[dict[str, Any]], found: dict[str, Rescoring]
) -> None:
    base = found["length alone"].summary
    shown = base[(base["split"] == "test") & (base["system"] != "rescored")]
    columns = ["system", "wer", "ci_low", "ci_high", "utterances"]
    print(f"\nTest part, {len(nbest.texts)} distinct hypotheses in both parts\n")
    print(shown[columns].to_string(index=False, float_format="%.4f"))
    print(f"what PocketSphinx itself decided for: {_decided(out):.4f}\n")
    results = pd.DataFrame(rows)
    print(results.to_string(index=False, float_format="%.4f"))
    write_whole(out / "results.csv", results.to_csv(index=False))
    write_whole(out / "first-pass.csv", shown.to_csv(index=False))
    names = list(found)
    pairs = [
        (a, b, *found[a].difference(found[b])) for i, a in enumerate(names) for b in names[i + 1 :]
    ]
    columns = ["model_1", "model_2", "difference", "low", "high"]
    pairs_table = pd.DataFrame(pairs, columns=columns)
    write_whole(out / "comparisons.csv", pairs_table.to_csv(index=False))


def _decided(out: Path) -> float:
    """Return the test word error rate of what PocketSphinx decided for, without the lists."""
    measure = WordErrorRate()
    lines = (out / "nbest.jsonl").read_text("utf-8").splitlines()
    records = [record for record in map(json.loads, lines) if record["split"] == "test"]
    sums = sum(measure.statistics(r["reference"], [r["decided"]]) for r in records)
    return float(measure.value(sums)[0])


if __name__ == "__main__":
    main()
