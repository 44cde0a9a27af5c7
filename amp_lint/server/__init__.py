"""Findings while somebody types: a language server, its documents, and the process that lints.

Knows neither rules nor the texts of messages, and never imports libcst: that is for the process
that it asks.
"""
