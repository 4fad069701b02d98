"""Commands of the experiment: ``experiment``, ``review``, ``preregister`` and ``watch``."""
