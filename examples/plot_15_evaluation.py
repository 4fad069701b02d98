"""
Which model predicts people?
============================

Twenty simulated people, who follow the trigram model with some noise, choose between the sentences
of 40 controversial pairs. The dots say how many choices each model predicts, with 95 % intervals;
the grey band is the *noise ceiling*, how well the best possible model could do, given how much
people differ among themselves.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import contstim
from contstim.evaluation import Simulation, simulate_choices
from contstim.selection import Layout

sentences = contstim.pool()[:300]
names = ["contstim:bigram", "contstim:trigram", "contstim:rnn"]
scores = pd.DataFrame(
    {name: contstim.load_model(name).score(sentences) for name in names}, index=sentences
)
pairs = contstim.select_set(scores, 40, time_limit=1)
layout = Layout(groups=1, participants=20)
trials = contstim.design_trials(natural=pairs, pool=sentences, layout=layout)
choices = simulate_choices(trials, scores, Simulation.of("contstim:trigram"), seed=1)

evaluation = contstim.evaluate(choices, scores)
print("\n".join(contstim.answer_sentences(evaluation)))

###################################################################################################
# Every number stands in a table.

shown = evaluation.models.query("analysis == 'all' and measure == 'accuracy'")
places = np.arange(len(shown))
below, above = shown["value"] - shown["ci_low"], shown["ci_high"] - shown["value"]

figure, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
ax.axvspan(
    shown["ceiling_lower"].iloc[0], shown["ceiling_upper"].iloc[0], color="0.88", label="ceiling"
)
ax.errorbar(shown["value"], places, xerr=[below, above], fmt="o", capsize=3)
ax.axvline(0.5, color="0.6", linestyle=":", label="chance")
ax.set_yticks(places, shown["model"])
ax.set_xlabel("share of choices predicted")
ax.legend()
plt.show()
