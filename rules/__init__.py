"""The rules: one family per folder, one module and one page per rule."""
