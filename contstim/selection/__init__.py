"""Choosing stimuli: natural pairs, triplets, and their allocation to participants."""
