"""Published human data sets as benchmarks of models, and publishing one's own study.

`data_sets` lists and fetches data sets, `readers` reads them, `pairs`, `ratings` and `words` are
the criteria, `running` scores and judges models, and `publishing` writes a Psych-DS folder.
"""
