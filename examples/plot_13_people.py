"""
Simulated participants
======================

Simulated participants show which effects a design can detect, before an experiment is run. They
choose the sentence that a language model prefers, more often if this preference is stronger. The
simulation includes preferences for one side of the screen, guesses, and effects of sentence pairs
that no model predicts. Its default parameters were fitted to a published experiment.
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
