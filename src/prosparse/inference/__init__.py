"""Iteration of models: the loop, acceleration and progress."""
