"""Operators: what a model sees of a table, one file for each way of keeping rows.

`kinds.py`, beside this folder, says which table becomes which operator.
"""
