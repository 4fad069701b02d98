"""Six pairs worked out by hand: choices of participants and scores of three models."""

import numpy as np

# Pair 1: both sides agree in sign, the trigram is 1.0 off. Pair 3: the trigram has the wrong sign.
# Pair 4: people find the "unacceptable" sentence better, and only the trigram follows. Pair 5:
# people find no difference. The classifier knows little but +-2.1.
PEOPLE = np.array([2.0, 1.0, 0.4, -0.2, 0.0, 1.5])
SIX = {
    "trigram": np.array([1.0, 0.8, -0.1, -0.5, 0.3, 0.2]),
    "PLL": np.array([1.6, 0.3, 0.5, 0.1, 0.0, 1.4]),
    "classifier": np.array([2.1, 2.1, 0.01, 2.1, -0.01, 2.1]),
}
