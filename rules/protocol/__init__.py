"""The GradScaler protocol: calls in the wrong order, or in the wrong state."""
