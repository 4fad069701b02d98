"""
Word by word
============

The log-probability of a sentence is the sum of its words'. Here one word of a natural sentence was
changed so that the trigram model finds the sentence far less probable and the bigram model does
not. The bars show where the trigram model takes offence: at "fear", which it does not expect after
"nothing for".
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
