"""Proofs that components are the best: start at `branching`, whose first lines say how.

`symmetry` finds variables that can be exchanged for each other, `many` leaves out those that
cannot be in the best set before a p x p array is formed, `branching` proves one component the
best, `joint` several at once, and `orthogonal` bounds those that may share variables.
"""
