"""Bytes and characters: a file that is read or written, what is reported about it.

It knows no syntax and no torch.
"""
