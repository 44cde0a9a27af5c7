"""Patterns of ``.gitignore``, matched as git matches them.

The regular expressions that libraries make of such patterns can take time that grows exponentially
with the number of wildcards: six ``*`` were seen to hold up a file name of 120 characters for 20
seconds. Here a path is matched name by name, so that the time is bounded by the length of the
pattern times that of the path, whatever stands in the files of somebody's checkout.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

MAX_LENGTH = 4096
"""Characters of the longest pattern that is understood; no path is longer."""

_SHOWN = 40
_TOKEN = re.compile(r"(?s)\\(?P<quoted>.)|(?P<stars>\*+)|(?P<plain>[^\\])")
_SET_ITEM = re.compile(
    r"(?s)\[:(?P<name>[^\]]*):\]|"
    r"(?:\\(?P<quoted>.)|(?P<plain>[^\\]))(?:-(?!\])\\?(?P<last>.))?"
)
_NAMED_SETS = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\v\f\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class PatternError(Exception):
    """A pattern is malformed, so that git matches nothing with it."""

    def __init__(self, pattern: str, why: str) -> None:
        shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}..."
        super().__init__(f"{shown!r} {why}")


class TooLongError(PatternError):
    """A pattern is longer than `MAX_LENGTH`."""


_One = tuple[str, str | None]
"""What matches one character: a regular expression, and the character if it is always the same."""


class _Glob:
    """What one name on a path has to look like."""

    def __init__(self, parts: Sequence[_One | None]) -> None:
        """Take what stands in a pattern between two slashes; None is a ``*``."""
        self._parts = parts
        ones = [part for part in parts if part is not None]
        self._shortest = len(ones)
        literals = [literal for _, literal in ones if literal is not None]
        self.literal = "".join(literals) if len(literals) == len(parts) else None
        """The only name that looks like that."""
        self._any = not ones and self.literal is None

    def matches(self, name: str) -> bool:
        """Whether the name looks like that."""
        if self.literal is not None:
            return name == self.literal
        if self._any:
            return True
        return len(name) >= self._shortest and bool(self._expression.fullmatch(name))

    @functools.cached_property
    def _expression(self) -> re.Pattern[str]:
        """A regular expression that is linear: what a look-ahead has found is not tried again.

        Between two ``*`` stands a fixed number of characters, for which the first place that fits
        is as good as any later one.
        """
        pieces = [""]
        for part in self._parts:
            if part is None:
                pieces.append("")
            else:
                pieces[-1] += part[0]
        first, *middle = pieces[:-1] or [""]
        found = (f"(?=(?P<g{n}>.*?{piece}))(?P=g{n})" for n, piece in enumerate(middle))
        gap = ".*" if len(pieces) > 1 else ""
        return re.compile(f"{first}{''.join(found)}{gap}{pieces[-1]}", re.DOTALL)


@dataclass(frozen=True)
class Pattern:
    """One line of a ``.gitignore``."""

    negated: bool
    only_directories: bool
    globs: tuple[_Glob, ...]
    gaps: frozenset[int]
    """The numbers of the globs before which any number of directories may stand."""

    @classmethod
    def parse(cls, line: str) -> Pattern | None:
        """What a line means; None if it is empty or a comment.

        Raises:
            PatternError: git does not understand it, or it is too long.
        """
        text = _trimmed(line)
        if not text or text.startswith("#"):
            return None
        if len(text) > MAX_LENGTH:
            raise TooLongError(text, f"is longer than {MAX_LENGTH} characters")
        negated = text.startswith("!")
        only_directories = text.endswith("/")
        text = text[negated : len(text) - only_directories]
        if not text:
            raise PatternError(line, "names nothing")
        globs, gaps = _globs(text)
        return cls(negated, only_directories, globs, gaps)

    def matches(self, names: Sequence[str], *, directory: bool) -> bool:
        """Whether the line means this very path."""
        if not self._suits(directory) or not self.globs[-1].matches(names[-1]):
            return False
        if not self.gaps and len(names) != len(self.globs):
            return False
        return len(self.globs) == 1 or len(names) in self._depths(names)

    def depths(self, names: Sequence[str], *, directory: bool) -> Iterator[int]:
        """How many of the names it takes to have a path that the line means."""
        for depth in self._depths(names):
            if self._suits(directory or depth < len(names)):
                yield depth

    def _suits(self, directory: bool) -> bool:
        return directory or not self.only_directories

    def _depths(self, names: Sequence[str]) -> Iterator[int]:
        matched = {0}
        for depth, name in enumerate(names, 1):
            onward = {count + 1 for count in matched if self.globs[count].matches(name)}
            matched = onward | (matched & self.gaps)
            if len(self.globs) in matched:
                matched.remove(len(self.globs))
                yield depth
            if not matched:
                return


class Patterns:
    """The lines of one file, of which the last that matches a path decides."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._patterns = [*patterns]
        self._by_name: dict[str | None, list[int]] = {}
        for number, pattern in reversed([*enumerate(self._patterns)]):
            self._by_name.setdefault(pattern.globs[-1].literal, []).append(number)

    def verdict(self, names: Sequence[str], *, directory: bool) -> bool | None:
        """True: ignored. False: a ``!`` pattern takes it back. None: nothing said.

        ``names`` lead from the directory of the file to the path; whether one of the directories
        between them is ignored does not count.
        """
        last = -1
        for name in (names[-1], None):
            for number in self._by_name.get(name, ()):
                if number < last:
                    break
                if self._patterns[number].matches(names, directory=directory):
                    last = number
                    break
        return None if last < 0 else not self._patterns[last].negated

    def verdict_from_above(self, names: Sequence[str], *, directory: bool) -> bool | None:
        """The same, but a directory that is ignored takes with it all that is in it."""
        verdicts: dict[int, bool] = {}
        for pattern in reversed(self._patterns):
            for depth in pattern.depths(names, directory=directory):
                verdicts.setdefault(depth, not pattern.negated)
        return any(verdicts.values()) or verdicts.get(len(names))


def understood(line: str) -> Pattern | TooLongError | None:
    """What a line means to git, which passes over one that is malformed."""
    try:
        return Pattern.parse(line)
    except TooLongError as error:
        return error
    except PatternError:
        return None


def _trimmed(line: str) -> str:
    """A line without the spaces at its end, of which a backslash keeps one."""
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return line[: len(kept) + backslashes % 2]


def _globs(text: str) -> tuple[tuple[_Glob, ...], frozenset[int]]:
    """The names that a path has to have, and the numbers of those before which it may have more.

    Raises:
        PatternError: the text is malformed.
    """
    anywhere = "/" not in text
    names = [*_split(_parts(text.removeprefix("/")))]
    globs: list[_Glob] = []
    gaps = {0} if anywhere else set[int]()
    for name in names:
        if name == ["**"] and not anywhere:
            gaps.add(len(globs))
        else:
            globs.append(_Glob([None if isinstance(part, str) else part for part in name]))
    if len(globs) in gaps:  # `**` at the end stands for at least one name
        globs.append(_Glob([None]))
    return tuple(globs), frozenset(gaps)


def _split(parts: Iterable[_One | str]) -> Iterator[list[_One | str]]:
    """What stands between the slashes."""
    name: list[_One | str] = []
    for part in parts:
        if part == "/":
            yield name
            name = []
        else:
            name.append(part)
    yield name


def _parts(text: str) -> Iterator[_One | str]:
    """The parts of a pattern; ``/``, ``*`` and ``**`` as they are.

    Raises:
        PatternError: the text is malformed.
    """
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise PatternError(text, "ends in a backslash")
        position = token.end()
        character = token["quoted"] or token["plain"]
        if token["stars"]:
            yield token["stars"][:2]
        elif character == "/":
            yield character
        elif token["plain"] == "?":
            yield ".", None
        elif token["plain"] == "[":
            expression, position = _set(text, position)
            yield expression, None
        else:
            yield re.escape(character), character


def _set(text: str, position: int) -> tuple[str, int]:
    """A regular expression for the set that begins at an offset, and the offset of its end.

    Raises:
        PatternError: the set is malformed.
    """
    negated = text[position : position + 1] in ("!", "^")
    position += negated
    items: list[str] = []
    while not items or text[position : position + 1] != "]":
        item = _SET_ITEM.match(text, position)
        if item is None:
            raise PatternError(text, "has a [ without its ]")
        position = item.end()
        items.append(_set_item(item))
    return f"[{'^' * negated}{''.join(items)}]", position + 1


def _set_item(item: re.Match[str]) -> str:
    if item["name"] is not None:
        if item["name"] not in _NAMED_SETS:
            raise PatternError(item.string, f"has a [:{item['name'][:_SHOWN]}:], which is no set")
        return _NAMED_SETS[item["name"]]
    first = item["quoted"] or item["plain"]
    last = item["last"]
    span = f"{re.escape(first)}-{re.escape(last)}" if last and first <= last else ""
    return re.escape(first) + span
