"""
How good could it be?
=====================

For models of n-grams a *certificate* bounds from below what any sentence of the vocabulary can
reach. It tells how much a faster search leaves on the table.
"""

import matplotlib.pyplot as plt

import contstim
from contstim.text.vocabulary import WordRules

common = contstim.bundled_vocabulary().elsewhere.words[:300]
vocabulary = contstim.Vocabulary.from_words(common, rules=WordRules(derive_first=True))
bigram, trigram = map(contstim.load_model, ("contstim:bigram", "contstim:trigram"))

found = {
    strategy: contstim.synthesize(
        "Tired of city noise they bought a farm.",
        reject=bigram,
        accept=trigram,
        vocabulary=vocabulary,
        strategy=strategy,
        certificate=strategy == "beam",
    )
    for strategy in ("exhaustive", "beam")
}
bound = found["beam"].bound

figure, ax = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
ax.barh(list(found), [-synthesis.loss for synthesis in found.values()])
ax.axvline(-bound, color="C3", label="no sentence can fall further")
ax.set_xlabel("fall of the bigram model's score (nats)")
ax.legend()
plt.show()
