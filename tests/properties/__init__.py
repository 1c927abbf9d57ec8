"""Properties that hold for whatever table comes."""
