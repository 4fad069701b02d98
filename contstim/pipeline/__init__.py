"""Runs: study plans, the durable store of finished tasks, and what spreads the work."""
