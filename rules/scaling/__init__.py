"""Gradient scaling around the training step: whether there is a scaler, how it lives, its state."""
