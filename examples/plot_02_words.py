"""
Scores of words
===============

The log-probability of a sentence is the sum of the log-probabilities of its words. In this example,
one word of a natural sentence was replaced so that the sentence became much less probable under the
trigram model, but not under the bigram model. The bars show why: the trigram model finds the new
word "fear" improbable after "nothing for".
"""

import matplotlib.pyplot as plt

import contstim

sentence = "Honest people have nothing for fear from questions."
words = sentence.split()

figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for offset, name in ((-0.2, "bigram"), (0.2, "trigram")):
    scores = contstim.load_model(f"contstim:{name}").score_words([sentence])[0]
    places = [place + offset for place in range(len(words))]
    ax.bar(places, scores, width=0.4, label=f"{name}, {scores.sum():.1f} nats in all")
ax.set_xticks(range(len(words)), words, rotation=30)
ax.set_ylabel("log-probability (nats)")
ax.legend()
plt.show()
