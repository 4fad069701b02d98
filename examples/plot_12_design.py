"""
Trials of each participant
==========================

A design assigns different stimuli to each group of participants, balances the sides of the screen,
and mixes the conditions. In the figure, each row is a participant of the first group, and each
cell is a trial in the order of presentation. The mark shows the side of sentence 1.
"""

import matplotlib.pyplot as plt
import pandas as pd

import contstim
from contstim.design import Layout

sentences = contstim.pool()[:300]
scores = pd.DataFrame(
    {name: contstim.load_model(f"contstim:{name}").score(sentences) for name in ("bigram", "rnn")},
    index=sentences,
)
pairs = contstim.select_natural_pairs(scores, per_pair=12)
layout = Layout(groups=2, participants=4, random_natural=4, catch=2)
trials = contstim.design_trials(natural=pairs, pool=sentences, layout=layout, seed=1)

shown = trials[trials["group"] == 1]
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
for number, (condition, rows) in enumerate(shown.groupby("condition")):
    for side, mark in (("left", "<"), ("right", ">")):
        some = rows[rows["side_1"] == side]
        label = str(condition).replace("_", " ") if side == "left" else None
        ax.plot(
            some["trial"], some["participant"], mark, color=f"C{number}", markersize=9, label=label
        )
ax.set_yticks(sorted(shown["participant"].unique()))
ax.set_xlabel("trial")
ax.set_ylabel("participant")
figure.legend(loc="outside lower center", ncols=3)
plt.show()
