"""What happens in a training step, path by path, and what of it is a mistake.

It knows no rule and no message.
"""
