"""Training of n-gram models, recurrent networks, students and classifiers; domain adaptation."""
