"""FX graphs: writing nodes in the text form, finding regions, and replacing them by calls of the
custom op."""
