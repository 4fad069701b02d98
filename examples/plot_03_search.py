"""
A search, word by word
======================

To write a sentence on which two models disagree, a search starts from a natural sentence and
replaces one word in each step. The replacement reduces the score under the rejecting model as much
as possible, while the score under the accepting model stays above that of the natural sentence
(dashed line). The result is rarely natural English; for sentences that participants can read, see
:doc:`/how-to/readable`.
"""

import matplotlib.pyplot as plt

import contstim
from contstim.text.word_rules import WordRules

common = contstim.bundled_vocabulary().elsewhere.words[:1000]
vocabulary = contstim.Vocabulary.from_words(common, rules=WordRules(derive_first=True))
found = contstim.synthesize(
    "The curtains she chose were much too dark.",
    reject=contstim.load_model("contstim:bigram"),
    accept=contstim.load_model("contstim:trigram"),
    vocabulary=vocabulary,
    strategy="edit?candidates=all",
)
print(found.sentence)

###################################################################################################
# The list `found.steps` contains each replacement and the scores after it.

scores = [found.natural_scores, *(step.scores for step in found.steps)]
labels = ["natural", *(f"{step.old} → {step.new}" for step in found.steps)]

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for number, name in enumerate(("bigram (rejects)", "trigram (accepts)")):
    ax.plot([both[number] for both in scores], "o-", label=name)
ax.axhline(found.natural_scores[1], color="0.5", linestyle="--", linewidth=1)
ax.set_xticks(range(len(labels)), labels, rotation=40, ha="right")
ax.set_ylabel("log-probability (nats)")
ax.legend()
plt.show()
