"""Functions that are recorded as several others: other spellings of products, norms, statistics,
and ways to arrange elements. :mod:`.table` says what a row is."""
from . import products, shapes, statistics
from .table import BY_NUMPY, BY_TORCH, Composer

__all__ = ["BY_NUMPY", "BY_TORCH", "Composer", "products", "shapes", "statistics"]
