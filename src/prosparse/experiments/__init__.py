"""The experiments of the papers, one module per paper."""
