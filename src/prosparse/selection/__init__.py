"""How many variables, how many components."""
