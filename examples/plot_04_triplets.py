"""
Triplets
========

A triplet is a natural sentence and two synthetic ones: sentence 1 is what model 1 accepts and
model 2 rejects, sentence 2 the reverse. On a plane of the two models' scores the natural sentences
lie along the diagonal, and the synthetic ones are driven off it, to either side.
"""

import matplotlib.pyplot as plt
import pandas as pd

import contstim
from contstim.text.vocabulary import WordRules

common = contstim.bundled_vocabulary().elsewhere.words[:1000]
vocabulary = contstim.Vocabulary.from_words(common, rules=WordRules(derive_first=True))
models = [contstim.load_model("contstim:bigram"), contstim.load_model("contstim:trigram")]
pair = contstim.ModelPair.of(*models, vocabulary)
found = [
    triplet
    for sentence in contstim.pool()[:10]
    for triplet in contstim.triplets(pair, sentence, strategy="exhaustive")
]
table = pd.DataFrame([triplet.row() for triplet in found])

figure, ax = plt.subplots(layout="constrained")
cloud = [model.score(contstim.pool()) for model in models]
ax.plot(*cloud, ".", color="0.8", markersize=3)
for kind, label in (
    ("synthetic_1", "accepted by the bigram, rejected by the trigram"),
    ("synthetic_2", "accepted by the trigram, rejected by the bigram"),
    ("natural", "natural"),
):
    ax.plot(table[f"{kind}_lp_1"], table[f"{kind}_lp_2"], "o", label=label)
ax.set_xlabel("log-probability under the bigram model (nats)")
ax.set_ylabel("log-probability under the trigram model (nats)")
ax.legend(fontsize="small")
plt.show()

###################################################################################################
# The most controversial one (controversiality is the sum of both falls, in nats):

best = max(found, key=lambda triplet: triplet.controversiality)
print(f"natural  {best.natural}\nbigram   {best.synthetic_1}\ntrigram  {best.synthetic_2}")
print(f"controversiality {best.controversiality:.1f} nats")
