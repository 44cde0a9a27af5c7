"""What do the numbers of a run show? Some steps are looked at operation by operation.

It knows the events of the run from what watches them, and torch below autocast and autograd.
"""
