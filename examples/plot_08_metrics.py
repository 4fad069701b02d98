"""
Two ways to score with one masked model
=======================================

A masked model such as BERT gives the probability of a word given all others. How that becomes a
score of the sentence is a choice: `pll` hides one token after the other (Salazar et al. 2020);
`pll-word-l2r` also hides the rest of the same word (Kauf & Ivanova 2023). The two differ where
words are split into several tokens.
"""

import matplotlib.pyplot as plt
import numpy as np

import contstim

sentences = contstim.pool()[:24]
pll, by_word = (
    contstim.load_model(f"contstim:bert?metric={metric}").score(sentences)
    for metric in ("pll", "pll-word-l2r")
)

figure, ax = plt.subplots(layout="constrained")
ax.plot(pll, by_word, "o", markersize=4)
ax.axline((-60, -60), slope=1, color="0.6", linewidth=1)
for place in np.argsort(by_word - pll)[:2]:
    ax.annotate(sentences[place], (pll[place], by_word[place]), fontsize="x-small")
ax.set_xlabel("pll (nats)")
ax.set_ylabel("pll-word-l2r (nats)")
plt.show()
