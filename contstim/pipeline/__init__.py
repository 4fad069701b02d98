"""Runs of studies: plans, tasks, a durable store of results, and executors."""
