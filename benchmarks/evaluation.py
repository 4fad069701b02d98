"""Measure time and memory of `evaluate` on a large simulated study and on published data.

Usage: python benchmarks/evaluation.py
       python benchmarks/evaluation.py --default
       python benchmarks/evaluation.py --data behavior_nov2022_raw.csv
"""

import argparse
import resource
import tempfile
import time

import numpy as np
import pandas as pd

from contstim.design.simulate import Simulation, simulate_choices
from contstim.evaluation import evaluate, read_choices


def large_study(n_people, n_trials, n_models, n_groups, seed=0):
    """Simulate a study in which groups see different trials; each trial targets two models."""
    rng = np.random.default_rng(seed)
    models = [f"model-{m}" for m in range(n_models)]
    n_pairs = n_groups * n_trials
    target = rng.integers(0, n_models, size=n_pairs)
    design = pd.DataFrame(
        {
            "group": np.repeat([f"g{g}" for g in range(n_groups)], n_trials),
            "trial": np.tile(np.arange(n_trials), n_groups),
            "condition": np.tile(["natural", "synthetic", "random"], n_pairs)[:n_pairs],
            "sentence_1": [f"first {p}" for p in range(n_pairs)],
            "sentence_2": [f"second {p}" for p in range(n_pairs)],
            "model_1": [models[t] for t in target],
            "model_2": [models[(t + 1) % n_models] for t in target],
        }
    )
    texts = [*design["sentence_1"], *design["sentence_2"]]
    scores = pd.DataFrame(rng.normal(-50, 8, size=(len(texts), n_models)), columns=models)
    scores.insert(0, "sentence", texts)
    simulation = Simulation.from_weights({models[0]: 0.7, models[1]: 0.3})
    choices = simulate_choices(design, scores, simulation, n_people // n_groups, seed)
    return choices, scores


def scattered_study(n_people, n_trials, n_models, seed=0):
    """Simulate a study in which every participant sees a random tenth of the trials."""
    choices, scores = large_study(10 * 10, n_trials, n_models, 10, seed)
    pool = choices.drop_duplicates(["sentence_1", "sentence_2"]).drop(columns=["group", "rating"])
    rng = np.random.default_rng(seed)
    rows = np.concatenate(
        [rng.choice(len(pool), size=n_trials, replace=False) for _ in range(n_people)]
    )
    design = pool.iloc[rows].assign(participant=np.repeat(np.arange(n_people), n_trials))
    simulation = Simulation.from_weights({"model-0": 0.7, "model-1": 0.3})
    return simulate_choices(design, scores, simulation, seed=seed), scores


def timed(label, run):
    start, used = time.perf_counter(), time.process_time()
    result = run()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{label}: {seconds:.1f} s ({used:.1f} s of processor time), peak so far {peak:.2f} GB")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="raw behavioural file in the golan2023 format")
    parser.add_argument("--people", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=165)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--n-bootstrap", type=int, default=1000)
    parser.add_argument("--default", action="store_true", help="only the default, ten groups")
    arguments = parser.parse_args()
    sizes = arguments.people, arguments.trials, arguments.models
    if arguments.default:
        choices, scores = large_study(*sizes, 10)
        label = f"{len(choices):,} choices, {arguments.models} models, default"
        timed(label, lambda: evaluate(choices, scores))
        return
    ranks = {"inference": "signed-rank", "n_bootstrap": arguments.n_bootstrap}
    if arguments.data:
        with tempfile.TemporaryDirectory() as folder:
            timed(
                "published data, tables, figures and report",
                lambda: evaluate(read_choices(arguments.data, "golan2023")).report(folder),
            )
    for n_groups, kind in ((10, "ten groups"), (1, "one group, participants and pairs resampled")):
        choices, scores = large_study(*sizes, n_groups)
        result = timed(
            f"{len(choices):,} choices, {arguments.models} models, {kind}",
            lambda c=choices, s=scores: evaluate(c, s, **ranks),
        )
        print(result.models.head(3)[["model", "value", "ci_low", "ci_high"]].to_string(index=False))
    scattered = scattered_study(*sizes)
    result = timed(
        f"{len(scattered[0]):,} choices, every participant with trials of their own drawing",
        lambda: evaluate(*scattered, **ranks),
    )
    print("\n".join(result.provenance.notes))


if __name__ == "__main__":
    main()
