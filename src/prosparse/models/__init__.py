"""Methods, one package each."""
