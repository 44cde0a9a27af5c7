"""Checkpoints without the state of a scaler, in layers: where things stand, what is asked for,
who scales and steps, what is saved and loaded, and at last what of it is incomplete."""
