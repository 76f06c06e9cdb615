"""taxtune with others: `gepa` makes gepa.optimize the search of a run, `scikit_learn` has an estimator."""
