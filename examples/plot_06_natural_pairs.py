"""
Controversial pairs of natural sentences
========================================

A large set of natural sentences contains pairs that two models rank oppositely. The function
`select_natural_pairs` finds the best of these pairs and proves that no selection is better. Each
line of the figure connects the two sentences of a pair.
"""

import matplotlib.pyplot as plt
import pandas as pd

import contstim
from contstim.selection import fractional_ranks

sentences = contstim.pool()[:300]
names = ["contstim:trigram", "contstim:rnn"]
scores = pd.DataFrame(
    {name: contstim.load_model(name).score(sentences) for name in names}, index=sentences
)
pairs = contstim.select_natural_pairs(scores, per_pair=10)
ranks = fractional_ranks(scores)

figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
ax.plot(ranks[names[0]], ranks[names[1]], ".", color="0.8", markersize=3)
for first, second in zip(pairs["sentence_1"], pairs["sentence_2"], strict=True):
    ends = ranks.loc[[first, second], names]
    ax.plot(ends[names[0]], ends[names[1]], "o-", color="C0", linewidth=1)
ax.set_xlabel("rank among the sentences, trigram model")
ax.set_ylabel("rank among the sentences, recurrent network")
plt.show()

###################################################################################################
# The trigram model prefers the first sentence of each pair, the recurrent network the second.

for first, second in zip(pairs["sentence_1"][:3], pairs["sentence_2"][:3], strict=True):
    print(f"{first}\n{second}\n")
