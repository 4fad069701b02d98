"""Selection of stimuli: natural pairs, triplets, and pairs for a set of models, by optimisation.

The package works without torch.
"""

from contstim.lazy import attach_stub

__getattr__, __all__ = attach_stub(__name__, __file__)
