"""Functions that are recorded as several others: other spellings of products, norms, statistics,
ways to arrange elements, and functions
along an axis. :mod:`.table` says what a row is."""
from . import along_axis, products, shapes, statistics
from .table import BY_NUMPY, BY_TORCH, Composer

__all__ = ["BY_NUMPY", "BY_TORCH", "Composer", "along_axis", "products", "shapes", "statistics"]
