"""How often Python looks for garbage in circles."""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Look a hundred times less often than Python does by itself.

    A tree is a hundred thousand objects that live as long as their file is judged. To go through
    them again for every 700 more was 29 % of the time of the sieves.
    """
    gc.set_threshold(100_000, 10, 10)
