"""
Controversial minimal pairs
===========================

With `Edits(max_changes=1)`, the synthetic sentence differs from the natural sentence in exactly
one word. The figure shows on which words two models disagree.
"""

import matplotlib.pyplot as plt

import contstim
from contstim.text.word_rules import WordRules

common = contstim.bundled_vocabulary().elsewhere.words[:1000]
vocabulary = contstim.Vocabulary.from_words(common, rules=WordRules(derive_first=True))
bigram, trigram = map(contstim.load_model, ("contstim:bigram", "contstim:trigram"))
problem = contstim.Problem((trigram,), (bigram,), edits=contstim.Edits(max_changes=1))

found = [
    contstim.synthesize(sentence, problem=problem, vocabulary=vocabulary, candidates="all")
    for sentence in contstim.pool()[:12]
]
found.sort(key=lambda synthesis: synthesis.loss, reverse=True)

figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
ax.set_title("What the trigram model rejects and the bigram model accepts", fontsize="medium")
ax.barh([synthesis.sentence for synthesis in found], [-synthesis.loss for synthesis in found])
ax.set_xlabel("fall (nats)")
plt.show()

###################################################################################################
# Print the words that were changed:

for synthesis in reversed(found):
    both = zip(synthesis.natural.split(), synthesis.sentence.split(), strict=True)
    changed = [f"{old} → {new}" for old, new in both if old != new]
    print(f"{' '.join(changed):>18}   {synthesis.natural}")
