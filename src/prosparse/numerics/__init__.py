"""Mathematics that at least two methods use."""
