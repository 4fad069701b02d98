"""Recurrent word-level networks: RNN with ReLU units, and LSTM."""
