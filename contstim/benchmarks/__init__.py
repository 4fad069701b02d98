"""Published human data sets as benchmarks of models, and publishing a study.

`data_sets` lists and fetches data sets, `readers` reads them, `pairs`, `ratings` and `words` are
the criteria, `running` scores and evaluates models, and `publishing` writes a Psych-DS folder.
"""
