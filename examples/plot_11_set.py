"""
One set of pairs for many models
================================

In an experiment with many models, one sentence pair can distinguish several pairs of models. If
four models prefer the first sentence and two prefer the second, one answer supports one model and
contradicts the other in eight pairs of models. The function `select_set` selects sentence pairs so
that even the two models that are distinguished least often are distinguished as often as possible.
The figure compares its result with the same number of random pairs.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import contstim

names = ["bigram", "trigram", "rnn", "lstm"]
sentences = contstim.pool()[:200]
scores = pd.DataFrame(
    {name: contstim.load_model(f"contstim:{name}").score(sentences) for name in names},
    index=sentences,
)
chosen = contstim.select_set(scores, 30, time_limit=1)
order = np.random.default_rng(1).permutation(sentences)[:60]
random = pd.DataFrame({"sentence_1": order[:30], "sentence_2": order[30:]})


def separated(pairs):
    """Return how many pairs each two models order oppositely."""
    gap = scores.loc[pairs["sentence_1"]].to_numpy() - scores.loc[pairs["sentence_2"]].to_numpy()
    signs = np.sign(gap)
    two = itertools.combinations(range(len(names)), 2)
    return [int((signs[:, a] * signs[:, b] < 0).sum()) for a, b in two]


labels = [" – ".join(two) for two in itertools.combinations(names, 2)]
places = np.arange(len(labels))
figure, ax = plt.subplots(layout="constrained")
ax.barh(places - 0.2, separated(chosen), height=0.4, label="select_set")
ax.barh(places + 0.2, separated(random), height=0.4, label="random pairs")
ax.set_yticks(places, labels)
ax.set_xlabel("pairs of 30 that the two models order oppositely")
ax.legend()
plt.show()
