"""Training and adaptation of n-gram models, networks, students and classifiers."""
