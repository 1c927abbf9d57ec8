"""How a model is iterated: the loop, acceleration, checkpoints, progress."""
