"""What is written: the tree, its scopes and names, which file an import leads to.

It asks nothing about what the program does.
"""
