"""One run over many files: settings, discovery, processes, limits, output.

It knows no rule, and of a file no more than its bytes and findings.
"""
