"""
How many people does it take?
=============================

Thousands of studies are simulated, each with one of the models right. The curves say in what share
of them the right model comes out best, after so many trials: with pairs chosen to tell the models
apart, and with random pairs. The matrices say how much one answer tells about every two models.
"""

import matplotlib.pyplot as plt
import pandas as pd

import contstim
from contstim.design.figures import recovery_figure
from contstim.design.recovery import recovery

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

recovery_figure(found.curve, found.model_pairs, found.target)
plt.show()
