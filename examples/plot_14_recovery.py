"""
How many people does it take?
=============================

Thousands of studies are simulated, each with one of the models right. The curves say in what share
of them the right model comes out best, after each further participant: with pairs chosen to tell
the models apart, and with random pairs.
"""

import matplotlib.pyplot as plt
import pandas as pd

import contstim
from contstim.evaluation.recovery import recovery

sentences = contstim.pool()[:200]
names = ["bigram", "trigram", "lstm"]
scores = pd.DataFrame(
    {name: contstim.load_model(f"contstim:{name}").score(sentences) for name in names},
    index=sentences,
)
chosen = contstim.select_set(scores, 40, margin=0.05, time_limit=1)
found = recovery(
    {"chosen pairs": chosen, "random pairs": 40},
    scores,
    n_participants=40,
    trials_each=20,
    n_studies=200,
)
print(found)

figure, ax = plt.subplots(layout="constrained")
for design, curve in found.curve.groupby("design"):
    ax.plot(curve["n_participants"], curve["recovery"], label=design)
    ax.fill_between(curve["n_participants"], curve["low"], curve["high"], alpha=0.2)
ax.axhline(found.target, color="0.6", linestyle="--", linewidth=1)
ax.set_xlabel("participants, 20 trials each")
ax.set_ylabel("share of studies that name the right model")
ax.legend()
plt.show()
