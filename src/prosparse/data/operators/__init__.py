"""Operators: the data matrix as models see it.

The containers in `prosparse.data.containers` determine the operator of a data matrix.
"""
