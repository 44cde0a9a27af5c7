"""What only a run shows: `amp-lint run` reports these, the linter does not."""
