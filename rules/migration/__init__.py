"""Deprecated and mixed APIs."""
