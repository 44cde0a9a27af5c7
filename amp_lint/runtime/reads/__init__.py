"""What does the user's code read of numbers that are multiplied by the scale?

It knows the protocol, and no rule. Its modes are on only while there are such numbers.
"""
