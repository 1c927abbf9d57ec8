"""Operators: the data matrix as models see it, one module per way of storing rows.

The containers in `prosparse.data.containers` determine the operator of a data matrix.
"""
