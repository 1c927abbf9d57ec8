"""Model selection: dimension, information criteria, slope heuristic, priors."""
