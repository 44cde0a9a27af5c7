"""What the pages say: examples, symptoms in the words of users, what could not be seen.

It is documentation as data, and knows no file of a user.
"""
