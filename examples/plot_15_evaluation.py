"""
Evaluation of models
====================

Twenty simulated participants, who follow the trigram model with some noise, choose between the
sentences of 40 controversial pairs. The points show how accurately each model predicts these
choices, with a 95 % confidence interval. The grey band is the *noise ceiling*, the performance of
the best possible model.
"""

import matplotlib.pyplot as plt
import pandas as pd

import contstim
from contstim.design import Layout, Simulation, simulate_choices

sentences = contstim.pool()[:300]
names = ["contstim:bigram", "contstim:trigram", "contstim:rnn"]
scores = pd.DataFrame(
    {name: contstim.load_model(name).score(sentences) for name in names}, index=sentences
)
pairs = contstim.select_set(scores, 40, time_limit=1)
layout = Layout(groups=1, participants=20)
trials = contstim.design_trials(natural=pairs, pool=sentences, layout=layout)
choices = simulate_choices(trials, scores, Simulation.from_weights("contstim:trigram"), seed=1)

evaluation = contstim.evaluate(choices, scores)
print("\n".join(contstim.summarize(evaluation)))

evaluation.figure()
plt.show()

###################################################################################################
# To draw on existing axes, call `evaluation.figure(ax=ax)`. Every number of the figure is also in
# a table.

shown = evaluation.models.query("analysis == 'all' and measure == 'accuracy'")
print(shown[["model", "value", "ci_low", "ci_high", "ceiling_lower"]].to_string(index=False))
