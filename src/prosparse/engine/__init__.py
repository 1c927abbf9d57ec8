"""The loop, its acceleration, linear algebra and special functions."""
