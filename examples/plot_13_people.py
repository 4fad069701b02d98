"""
How people are simulated
========================

Simulated people tell what a design can show before anyone is paid. If a model is right, people
choose the sentence that it prefers more often the larger the difference; some lean to a side, some
toss a coin, and every pair has an effect that no model knows of. The default numbers are fitted to
a published experiment.
"""

import matplotlib.pyplot as plt
import numpy as np

from contstim.selection import ResponseModel

difference = np.linspace(-4, 4, 81)
figure, ax = plt.subplots(layout="constrained")
for people, label in (
    (ResponseModel(), "default"),
    (ResponseModel(item_sd=0), "pairs without effects of their own"),
    (ResponseModel(lapse=0.3), "three answers of ten are the toss of a coin"),
):
    ax.plot(difference, people.probabilities(difference), label=label)
ax.set_xlabel("difference of log-probability, standard deviations")
ax.set_ylabel("share of people who choose sentence 2")
ax.legend()
plt.show()
