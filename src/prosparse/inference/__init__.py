"""Iteration of models: the loop, acceleration, checkpoints and progress."""
