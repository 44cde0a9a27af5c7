"""Settings in files: ``amp-lint.toml``, ``[tool.amp-lint]`` in ``pyproject.toml``, ``--config``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from amp_lint.run import _toml
from amp_lint.run.choice import Choice, ConfigError, Ignored, check_selectors
from amp_lint.run.target import Version, parse_version
from amp_lint.run.wording import did_you_mean

_PYPROJECT = "pyproject.toml"
FILES = (".amp-lint.toml", "amp-lint.toml", _PYPROJECT)
"""The files of a directory that may hold settings; the first that does counts."""
KEYS = (
    "docstring-code",
    "exclude",
    "extend-exclude",
    "extend-include",
    "extend-per-file-ignores",
    "extend-select",
    "follow-imports",
    "ignore",
    "per-file-ignores",
    "preview",
    "select",
    "target-torch",
)
_UNREAD_FILES = ("setup.cfg", "tox.ini", ".flake8")
_MISNAMED = ("amp_lint.toml", ".amp_lint.toml", "amplint.toml", ".amplint.toml")
_SEPARATORS = str.maketrans("", "", "-_. ")
_UNREAD_SECTION = re.compile(r"(?m)^\[(?:tool[:.])?amp[-_]lint\]")


def in_folder(folder: Path) -> Choice | None:
    """The settings in the files of this very directory; None where there are none.

    Raises:
        ConfigError: the file is broken, a key is unknown, or a value is wrong.
    """
    for name in FILES:
        if (choice := load(folder / name)) is not None:
            return choice
    return None


def load(path: Path, root: Path | None = None) -> Choice | None:
    """The settings in a file; None where there is no file, or no table in a ``pyproject.toml``.

    Patterns are relative to ``root``, by default the directory of the file.

    Raises:
        ConfigError: the file is broken, a key is unknown, or a value is wrong.
    """
    try:
        values: object = _toml.read(path)
    except _toml.TomlError as error:
        raise ConfigError(f"{path}: {error}; correct it") from error
    prefix = ""
    if path.name == _PYPROJECT and isinstance(values, dict):
        values, prefix = _own_table(path, values), "tool.amp-lint."
    if values is None:
        return None
    return _Table(str(path), prefix, root or path.parent, values).choice()


def named(values: Sequence[str]) -> tuple[Choice | None, list[Choice]]:
    """What ``--config`` names: settings in a file, and settings given by ``KEY = VALUE``.

    Raises:
        ConfigError: a value is neither, or its settings are wrong.
    """
    files = [value for value in values if _is_path(value)]
    if len(files) > 1:
        raise ConfigError(f"--config names several files, {', '.join(files)}; give one")
    given = [_inline(value) for value in values if value not in files]
    return (_named_file(Path(files[0])) if files else None), given


def unread(folder: Path) -> Iterator[str]:
    """A warning for each file of a directory with settings that nobody reads."""
    for name in _MISNAMED:
        if _is_path(str(folder / name)):
            yield f"{name} is not read; call it amp-lint.toml"
    for name in _UNREAD_FILES:
        with contextlib.suppress(OSError):
            path = folder / name
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            if found := _UNREAD_SECTION.search(text):
                yield f"{name}: {found[0]} is not read; settings stand in {_PYPROJECT}"


def shadowed(path: Path) -> Iterator[str]:
    """A warning for each settings file beside one that would count if that were not there."""
    if path.name not in FILES:
        return
    for name in FILES[FILES.index(path.name) + 1 :]:
        with contextlib.suppress(ConfigError):
            if load(path.with_name(name)) is not None:
                yield f"{path.with_name(name)} is not read: {path.name} stands above it"


def _is_path(value: str) -> bool:
    with contextlib.suppress(OSError, ValueError):  # too long, or with a NUL
        return Path(value).exists()
    return False


def _named_file(path: Path) -> Choice:
    choice = load(path, Path.cwd())
    if choice is None:
        raise ConfigError(f"{path}: has no table [tool.amp-lint]")
    return choice


def _inline(text: str) -> Choice:
    if "=" not in text:
        raise ConfigError(f"--config: {text!r} is neither a file nor a setting `KEY = VALUE`")
    try:
        values = _toml.loads(text)
    except _toml.TomlError as error:
        raise ConfigError(f"--config: {text!r} {error}") from error
    return _Table("--config", "", Path.cwd(), values).choice()


def _own_table(path: Path, document: dict[str, Any]) -> object:
    """The table for amp-lint in a ``pyproject.toml``.

    Raises:
        ConfigError: a table is called nearly so.
    """
    tool = document.get("tool")
    tools = tool if isinstance(tool, dict) else {}
    wrong = [f"tool.{key}" for key in tools if _is_ours(key) and key != "amp-lint"]
    wrong += filter(_is_ours, document)
    if wrong:
        raise ConfigError(f"{path}: [{wrong[0]}] is not read; call it [tool.amp-lint]")
    return tools.get("amp-lint")


def _is_ours(key: str) -> bool:
    return key.lower().translate(_SEPARATORS) == "amplint"


class _Table:
    """Reads the values of one table; every error names where it stands and the key."""

    def __init__(self, origin: str, prefix: str, root: Path, values: object) -> None:
        self._origin, self._prefix, self._root = origin, prefix, root
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: {prefix.rstrip('.')} must be a table")
        self._values: dict[str, Any] = values
        for key in sorted(values.keys() - {*KEYS}):
            shown = key if key.isprintable() else repr(key)
            raise self._error(shown, f"is no setting{self._advice(key)}")

    def choice(self) -> Choice:
        """The table, checked.

        Raises:
            ConfigError: a value is wrong.
        """
        choice = Choice(
            origin=self._origin,
            select=self._strings("select"),
            extend_select=self._strings("extend-select") or (),
            ignore=self._strings("ignore") or (),
            preview=self._boolean("preview"),
            docstring_code=self._boolean("docstring-code"),
            follow_imports=self._boolean("follow-imports"),
            target_torch=self._target_torch(),
            exclude=self._patterns("exclude"),
            extend_exclude=self._patterns("extend-exclude") or (),
            extend_include=self._patterns("extend-include") or (),
            per_file_ignores=self._by_pattern("per-file-ignores"),
            extend_per_file_ignores=self._by_pattern("extend-per-file-ignores") or (),
            root=self._root,
        )
        check_selectors(choice)
        return choice

    def _advice(self, key: str) -> str:
        if key == "tool" or _is_ours(key):
            return "; settings stand at the top, in no table"
        return did_you_mean(key, KEYS) or f"; settings are {', '.join(KEYS)}"

    def _error(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self._origin}: {self._prefix}{key} {what}")

    def _strings(self, key: str) -> tuple[str, ...] | None:
        return self._string_list(key, self._values[key]) if key in self._values else None

    def _string_list(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(key, 'must be a list of strings such as ["..."]')
        return tuple(value)

    def _patterns(self, key: str) -> tuple[str, ...] | None:
        patterns = self._strings(key)
        for pattern in patterns or ():
            self._check_pattern(key, pattern)
        return patterns

    def _boolean(self, key: str) -> bool | None:
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._error(key, "must be true or false")
        return value

    def _target_torch(self) -> Version | None:
        if "target-torch" not in self._values:
            return None
        value = self._values["target-torch"]
        version = parse_version(value) if isinstance(value, str) else None
        if version is None:
            given = f", not {value!r:.40}" if isinstance(value, (str, float)) else ""
            raise self._error("target-torch", f'must be a string such as "2.3"{given}')
        return version

    def _by_pattern(self, key: str) -> Ignored | None:
        if key not in self._values:
            return None
        value = self._values[key]
        if not isinstance(value, dict):
            raise self._error(key, 'must be a table such as {"tests/*" = ["AMP1"]}')
        for pattern in value:
            self._check_pattern(key, pattern)
        return tuple(
            (pattern, self._string_list(f"{key}.{pattern!r}", selectors))
            for pattern, selectors in value.items()
        )

    def _check_pattern(self, key: str, pattern: str) -> None:
        from amp_lint.run.gitignore import Pattern, PatternError

        try:
            Pattern.parse(pattern)
        except PatternError as error:
            raise self._error(key, f"has a bad pattern: {error}") from error
