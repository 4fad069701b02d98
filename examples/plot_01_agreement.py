"""
Models agree on ordinary sentences
==================================

Two models of different kinds give log-probabilities to 724 natural sentences. The figure shows that
they mostly agree about which of two sentences is more probable. Experiments with ordinary sentences
therefore cannot distinguish the models, and controversial sentences are needed.
"""

import matplotlib.pyplot as plt

import contstim

sentences = contstim.pool()
bigram = contstim.load_model("contstim:bigram").score(sentences)
trigram = contstim.load_model("contstim:trigram").score(sentences)

figure, ax = plt.subplots(layout="constrained")
ax.plot(bigram, trigram, ".", markersize=4)
ax.axline((-60, -60), slope=1, color="0.6", linewidth=1)
ax.set_xlabel("log-probability under the bigram model (nats)")
ax.set_ylabel("log-probability under the trigram model (nats)")
plt.show()
