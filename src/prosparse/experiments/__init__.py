"""The experiments of the papers, runnable by name; each prints ours beside the published."""
