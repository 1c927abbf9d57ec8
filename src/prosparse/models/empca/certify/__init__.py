"""Certificates of optimality by branch and bound.

`screening` excludes variables before a p x p array is formed, and `symmetry` finds exchangeable
variables. `branching` certifies one component, and `joint` certifies the sum of several components
without common variables.
"""
