"""Continued pre-training of masked language models on a text of one's own."""
