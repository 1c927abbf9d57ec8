"""Test of shared variance: which variables do components of the other variables explain?

`search` selects the variables and counts their components; it is what the estimators call.
`leave_one_out` solves the p leave-one-out decompositions, `null_distribution` gives the p-values,
`false_discoveries` combines and adjusts them, and `leading_components` decomposes data matrices in
any container.
"""
