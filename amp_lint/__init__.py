"""Finds mixed-precision (AMP) bugs in PyTorch training code and fixes them."""

__version__ = "0.1.0"
