"""What code may do: where a value comes from, which tests hold, what a helper gives back.

It knows no training step, no scaler and no autocast; of torch, which functions change nothing.
"""
