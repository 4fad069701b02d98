"""
Models agree on ordinary sentences
==================================

Two models score the same 724 natural sentences. Their scores rise and fall together: whoever finds
one sentence more probable than another mostly has the other model's word for it. That is why
ordinary sentences cannot tell models apart, and controversial ones are needed.
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
