"""
Two metrics of one masked model
===============================

A masked model such as BERT predicts a word from all other words. The score of a sentence depends
on the *metric*: `pll` masks one token at a time (Salazar et al. 2020), and `pll-word-l2r` also
masks the later tokens of the same word (Kauf & Ivanova 2023). The two metrics differ for sentences
with words of several tokens.
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
