"""What does a real run do? A training is watched while it runs, and told with the linter's codes.

Nothing here is imported by the linter. It may know torch, which it imports when a run is watched,
and how findings look; which event is a mistake it asks the automaton that the linter asks.
"""
