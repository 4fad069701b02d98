"""From values to p-values and intervals."""
