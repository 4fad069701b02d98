"""Rescoring: choosing among a first pass's hypotheses with the scores of sentence models."""
