"""What Python decides while it runs.

Attributes that compute, modules that something replaces or hooks, and what reads annotations,
docstrings and names by other means than their own.
"""
