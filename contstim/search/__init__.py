"""Writing synthetic sentences: objective, constraint, proposals, strategies, search."""
