"""Expressions that overflow, underflow or cancel in low precision."""
