"""Products that are one with the collective before or after them."""
