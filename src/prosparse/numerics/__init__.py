"""Numerical functions common to several methods."""
