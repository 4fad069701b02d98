"""What sentences may reach under models of n-grams: a bound, and writing by it from the left.

No search of networks comes here.
"""
