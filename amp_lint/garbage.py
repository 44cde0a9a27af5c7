"""How often Python looks for garbage in circles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


def collect_seldom() -> None:
    """Look a hundred times less often than Python does by itself.

    A tree is a hundred thousand objects that live as long as their file is judged. To go through
    them again for every 700 more was 29 % of the time of the sieves.
    """
    gc.set_threshold(100_000, 10, 10)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Do not look at all: for what makes many objects, none of them in circles, and drops them.

    What is left of them is taken for old, so that Python does not go through it at once.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            _take_for_old()
            gc.enable()


def _take_for_old() -> None:
    """Count nothing as new; both calls only join lists."""
    if hasattr(gc, "unfreeze") and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
