"""What a change prints or logs more than before: whether that can neither raise nor be seen.

What is not certain is not shown, and counts as a difference.
"""
