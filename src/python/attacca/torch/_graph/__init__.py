"""FX graphs: what of them has a text, the regions found there, and putting calls of the op in their place."""
