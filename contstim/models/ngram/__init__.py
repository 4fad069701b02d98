"""N-gram models: Kneser-Ney training, ARPA files, and scoring through KenLM."""
