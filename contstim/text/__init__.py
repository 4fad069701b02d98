"""Sentences, words, vocabularies and the texts they come from."""
