"""
Reductions and sentence length
==============================

Longer sentences are less probable. *Reductions* correct for the length of a sentence in different
ways: the sum is the log-probability itself, the mean is the log-probability per token, and PenLP
is a compromise. The reduction is an option of the model, so that one model with two reductions is
treated as two models.
"""

import matplotlib.pyplot as plt

import contstim

sentences = contstim.pool()
lengths = [len(sentence.split()) for sentence in sentences]

figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, reduction in zip(axes, ("sum", "pen", "mean"), strict=True):
    model = contstim.load_model(f"contstim:trigram?reduction={reduction}")
    ax.plot(lengths, model.score(sentences), ".", markersize=3)
    ax.set_title(f"reduction={reduction}")
    ax.set_xlabel("words")
axes[0].set_ylabel("score")
plt.show()
