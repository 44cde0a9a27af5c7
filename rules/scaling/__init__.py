"""Gradient scaling: the GradScaler protocol."""
