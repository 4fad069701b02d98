"""
The noise ceiling and the reliability of answers
================================================

If participants answer less consistently, they agree less with each other, and no model can predict
their answers well. The *noise ceiling* is the performance of the best possible model, for which
there are two bounds. The lower bound predicts each participant from the other participants, and the
upper bound from all participants.
"""

import matplotlib.pyplot as plt
import pandas as pd

import contstim
from contstim.design import Layout, Simulation, simulate_choices

sentences = contstim.pool()
name = "contstim:trigram"
scores = pd.DataFrame({name: contstim.load_model(name).score(sentences)}, index=sentences)
layout = Layout(groups=1, participants=12, random_natural=60, conditions=())
trials = contstim.design_trials(pool=sentences, layout=layout, seed=1)

rows = []
for noise in (0.25, 0.5, 1, 2, 4):
    simulation = Simulation.from_weights(name, noise=noise)
    evaluation = contstim.evaluate(simulate_choices(trials, scores, simulation), scores)
    found = evaluation.models.query("analysis == 'all' and measure == 'accuracy'").iloc[0]
    rows.append({"noise": noise, **found[["value", "ceiling_lower", "ceiling_upper"]]})
table = pd.DataFrame(rows)

figure, ax = plt.subplots(layout="constrained")
ax.fill_between(
    table["noise"], table["ceiling_lower"], table["ceiling_upper"], color="0.85", label="ceiling"
)
ax.plot(table["noise"], table["value"], "o-", label="the model that people follow")
ax.axhline(0.5, color="0.6", linestyle=":", label="chance")
ax.set_xscale("log")
ax.set_xlabel("noise of people's answers (the signal has size 1)")
ax.set_ylabel("share of choices predicted")
ax.legend()
plt.show()
