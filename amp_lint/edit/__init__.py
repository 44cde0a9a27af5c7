"""How a change is written: edits of calls, dicts and imports, and what they become as text.

It decides nothing about what to change.
"""
