"""
Triplets
========

A triplet consists of a natural sentence and two synthetic ones, one of which only model 1 accepts
and the other only model 2. In the figure, the axes are the scores under the two models. Natural
sentences are near the diagonal, because the models agree about them, and the synthetic sentences
are on either side of it.
"""

import matplotlib.pyplot as plt

import contstim

table = contstim.datasets.readable_triplets()
table = table[table["model_1"] == "contstim:bigram"]
models = [contstim.load_model("contstim:bigram"), contstim.load_model("contstim:trigram")]

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
# The sentences, written by SmolLM2 (:doc:`/how-to/readable`), are bundled with contstim. Print the
# first triplet and its controversiality, the sum of both decreases in log-probability (nats):

first = table.iloc[0]
falls = (first["natural_lp_2"] - first["synthetic_1_lp_2"]) + (
    first["natural_lp_1"] - first["synthetic_2_lp_1"]
)
print(f"natural  {first.natural}\nbigram   {first.synthetic_1}\ntrigram  {first.synthetic_2}")
print(f"controversiality {falls:.1f} nats")
