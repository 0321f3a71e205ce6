"""Measured and traced cases, and how well the engine agrees with them."""
