"""Autocast regions and casts."""
