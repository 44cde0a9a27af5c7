"""What was computed before, kept up to a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """The values of a function, by key; the one that was not asked for longest goes first."""

    def __init__(self, most: int) -> None:
        """Keep at most so many, and at least one."""
        self._most = max(most, 1)
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, made if it is not there."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        made = self._values[key] = make()
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return made
