"""Formulas that at least two methods use."""
