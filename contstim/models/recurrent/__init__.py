"""Recurrent word-level networks: RNN with ReLU units, and LSTM."""

from __future__ import annotations
