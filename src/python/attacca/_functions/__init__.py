"""The table of numpy's and torch's functions that the text form can express, read by
``attacca.fuse`` and by the FX importer.

:mod:`.table` defines a row. The rows are in the modules named after what the functions do;
importing any module of this folder registers all of them.
"""
from . import activations, divisions, parts, pointwise, products, reductions, special, views

__all__ = ["activations", "divisions", "parts", "pointwise", "products", "reductions",
           "special", "views"]
