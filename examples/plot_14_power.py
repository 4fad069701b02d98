"""
Number of participants
======================

The statistical power of a study is the probability that its test finds a difference between two
models. To show how it depends on the number of participants, studies are simulated in which the
participants follow the trigram model. The solid lines show the power, and the dashed line the share
of studies in which the trigram model has the best result.
"""

import matplotlib.pyplot as plt
import pandas as pd

import contstim
from contstim.design import Simulation, StudySimulator, power_curve
from contstim.design.figures import power_figure

sentences = contstim.pool()[:200]
names = ["bigram", "trigram", "lstm"]
scores = pd.DataFrame(
    {name: contstim.load_model(f"contstim:{name}").score(sentences) for name in names},
    index=sentences,
)
pairs = contstim.select_set(scores, 40, rank_margin=0.05, time_limit=1)
simulation = Simulation.from_weights("trigram", noise=2.0, slope_sd=0.47, item_sd=1.5)
simulator = StudySimulator.from_trials(pairs, scores, names, simulation, measures=("accuracy",))
curve = power_curve(simulator, n_participants=[5, 10, 20, 40], n_simulations=200)
print(curve[["n_participants", "model_1", "model_2", "power", "stderr", "recovery"]])

power_figure(curve)
plt.show()
