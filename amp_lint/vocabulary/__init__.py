"""What torch and its frameworks call things, as tables.

It has no code that looks at a program, and imports nothing of ours.
"""
