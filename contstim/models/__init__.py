"""Sentence models: the contract, its families, and the registry of specs."""
