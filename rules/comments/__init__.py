"""Comments that silence: off unless `--extend-select=AMP9` or settings ask for it."""
