"""Methods, with one package for each."""
