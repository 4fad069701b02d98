"""
Sum or mean? What sentence length does
======================================

A longer sentence is less probable, whatever it says. *Reductions* take that into account in
different ways: the sum (the log-probability itself), the mean per token, and PenLP, which lies
between. Each is an option of the model's name, so that two reductions are two models.
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
