"""Operators: the interface of models to the data matrix.

The container of a data matrix determines its operator (`prosparse.data.containers`).
"""
