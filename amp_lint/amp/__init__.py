"""What it means: scalers, optimizers, autocast regions, tensor operations, modules, events.

It knows no path through the program, and no rule.
"""
