"""taxtune with other optimisers: `gepa` makes gepa.optimize the search of a run."""
