"""Choices and scores for the tests of the evaluation."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def make_study():
    """Return a function that simulates choices on pairs of models, and model scores."""

    def make(
        n_people=12, n_pairs=20, n_groups=1, share=1.0, seed=0, models=("a", "b", "c"), noise=1.0
    ):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=n_pairs)
        scores, rows = {}, []
        for g in range(n_groups):
            for p in range(n_pairs):
                one, two = f"First of {p} in {g}", f"Second of {p} in {g}"
                base = rng.normal(size=len(models)) * 3
                scores[one] = -40 + base
                scores[two] = -40 + base + truth[p] + rng.normal(size=len(models))
        for person in range(n_people):
            g = person % n_groups
            for p in range(n_pairs):
                if rng.random() > share:
                    continue
                latent = truth[p] + noise * rng.normal()
                size = np.digitize(abs(latent), [0.6, 1.4]) + 0.5
                rows.append(
                    {
                        "participant": f"s{person}",
                        "group": f"g{g}",
                        "trial": p + 1,
                        "condition": "natural" if p % 2 else "synthetic",
                        "sentence_1": f"First of {p} in {g}",
                        "sentence_2": f"Second of {p} in {g}",
                        "model_1": models[p % len(models)],
                        "model_2": models[(p + 1) % len(models)],
                        "rating": float(np.sign(latent) * size),
                        "rt_ms": 1000.0 + 10 * p,
                    }
                )
        wide = pd.DataFrame(scores, index=list(models)).T.rename_axis("sentence").reset_index()
        return pd.DataFrame(rows), wide

    return make
