"""What torch and its frameworks call things, and what a call does, as tables.

A new API is a row in `amp`, `training` or `frameworks`; `table` finds rows, and `written` says how
they look in text. Nothing here looks at a program, or imports anything of ours from elsewhere.
"""
