"""
Stimuli from all strata
=======================

The models disagree most about very improbable sentences, so all of the most controversial triplets
may come from this kind. *Strata* prevent this: the range of a model's scores is divided into parts,
and the same number of triplets is selected from each part. In this example, one triplet is selected
from each of three strata of both models.
"""

import matplotlib.pyplot as plt
import numpy as np

import contstim
from contstim.text.word_rules import WordRules

common = contstim.bundled_vocabulary().elsewhere.words[:500]
vocabulary = contstim.Vocabulary.from_words(common, rules=WordRules(derive_first=True))
table = contstim.synthesize_triplets(
    contstim.pool()[:24],
    [("contstim:bigram", "contstim:trigram")],
    vocabulary=vocabulary,
    strategy="edit?candidates=all",
    max_word_share=1,
)
chosen = contstim.select_triplets(table, per_pair=6, strata=3)

figure, ax = plt.subplots(layout="constrained")
ax.plot(table["natural_lp_1"], table["natural_lp_2"], "o", color="0.8", label="written")
ax.plot(chosen["natural_lp_1"], chosen["natural_lp_2"], "o", label="chosen")
for cut in (1 / 3, 2 / 3):
    ax.axvline(np.quantile(table["natural_lp_1"], cut), color="0.7", linestyle=":")
    ax.axhline(np.quantile(table["natural_lp_2"], cut), color="0.7", linestyle=":")
ax.set_xlabel("natural sentence under the bigram model (nats)")
ax.set_ylabel("natural sentence under the trigram model (nats)")
ax.legend()
plt.show()
