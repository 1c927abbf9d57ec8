"""The experiments of the papers, one module per paper; each prints ours beside the published."""
