"""What a client asks of settings, as data: its words are checked, and none ends anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

SECTION = "amp-lint"


@dataclass(frozen=True, slots=True)
class Wishes:
    """The settings of a workspace folder in an editor; None: nothing is said."""

    preview: bool | None = None
    unsafe_fixes: bool | None = None


_KEYS = {"preview": "preview", "unsafeFixes": "unsafe_fixes"}


def wishes(value: object, tell: Callable[[str], None]) -> Wishes:
    """What a client says, such as ``{"preview": true}``; ``tell`` hears what cannot be used."""
    if value is None:
        return Wishes()
    if not isinstance(value, Mapping):
        tell(f'settings: {value!r} is no object; give one such as {{"preview": true}}')
        return Wishes()
    value = value.get(SECTION, value)
    found: dict[str, bool | None] = {}
    for key, given in value.items() if isinstance(value, Mapping) else ():
        if key not in _KEYS:
            tell(f"settings: {key!r} is unknown; there are {', '.join(_KEYS)}")
        elif given is not None and not isinstance(given, bool):
            tell(f"settings: {key} is {given!r}; give true or false")
        else:
            found[_KEYS[key]] = given
    return Wishes(**found)
