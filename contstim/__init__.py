"""contstim: controversial stimuli, sentence pairs on which language models disagree."""

__version__ = "0.1.0"
