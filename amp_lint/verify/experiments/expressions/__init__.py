"""Changed expressions: what is tried, what is found of it, and what follows."""
