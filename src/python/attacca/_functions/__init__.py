"""The functions of numpy and torch that have a text, one row each: read by ``attacca.fuse`` and by the FX importer.

:mod:`.table` says what a row is. The rows are in the modules named after what they do; importing any module
of this folder registers them all.
"""
from . import parts, pointwise, products, reductions, views

__all__ = ["parts", "pointwise", "products", "reductions", "views"]
