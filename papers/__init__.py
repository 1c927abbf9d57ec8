"""Experiments of the papers, and methods that the papers compare with.

``python -m papers --list`` lists the experiments; ``python -m papers E17`` runs one and prints each
result next to the published one. This package is part of the repository, not of the wheel.
"""
