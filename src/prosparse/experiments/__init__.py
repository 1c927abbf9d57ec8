"""The experiments of the papers, runnable by name."""
