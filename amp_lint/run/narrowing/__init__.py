"""Which of the findings are reported: those that are new, or on lines that are.

It knows what was found and where; it may not know why, nor how findings look.
"""
