"""What a fleet of repositories has of each mistake: many files, judged where they lie.

Blocks of files become blocks of rows; Ray Data says where and when. Knows no rule.
"""
