"""Model selection: number of components, information criteria, slope heuristic, model priors."""
