"""Does a training do what it does without AMP, by steps and from a checkpoint?

It knows the other experiments and torch, and nothing of texts.
"""
