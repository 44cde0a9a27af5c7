"""Which rules run on which file: ``[tool.amp-lint]`` and the command line.

The settings of a file come from the nearest ``pyproject.toml`` upwards that has a
``[tool.amp-lint]`` table; tables are not merged. Options of the command line stand above it.
Path patterns are those of ``.gitignore``, relative to the directory of the ``pyproject.toml``.

``target-torch`` defaults to the lower bound of the torch requirement in the nearest directory
upwards that declares one, within the checkout; no bound means the newest torch.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amp_lint import _toml, registry
from amp_lint.engine import Selection
from amp_lint.gitignore import Pattern, PatternError, Patterns
from amp_lint.rule import Rule
from amp_lint.target import Version, lower_bound, parse_version, torch_requirements

_PREFIX = "AMP"


class ConfigError(Exception):
    """A setting is wrong; the message names where, which, and what to do."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One layer of choices: a configuration file, or the command line."""

    origin: str
    """What to call the layer in an error."""
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    preview: bool | None = None
    target_torch: Version | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A ``[tool.amp-lint]`` table."""

    root: Path
    """The directory that its patterns are relative to."""
    choice: Choice
    exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Settings:
    """The settings of every file of a run."""

    def __init__(self, options: Choice, *, noqa: bool = True, isolated: bool = False) -> None:
        """Settings below the choices of the command line; whether ``noqa`` comments count.

        ``isolated`` settings are the command line and nothing else: no file is read.

        Raises:
            ConfigError: a selector in ``options`` matches no rule.
        """
        self._options = options
        self._noqa = noqa
        self._isolated = isolated
        self._found: list[Config] = []
        self._nearest = functools.cache(self._find)
        self._target = functools.cache(self._find_target)
        self._selection = functools.cache(self._build)
        check_selectors(options)

    def selection(self, path: Path) -> Selection:
        """The rules for a file, and the torch its fixes are for.

        Raises:
            ConfigError: the configuration of the file is wrong.
        """
        folder = absolute(path).parent
        config = self._nearest(folder)
        ignored = tuple(_ignored_here(config, path)) if config else ()
        target = self._options.target_torch or (config and config.choice.target_torch)
        return self._selection(config, ignored, target or self._target(folder))

    def excluded(self, path: Path, *, directory: bool = False) -> bool:
        """Whether the configuration leaves this path out.

        Raises:
            ConfigError: the configuration of the path is wrong.
        """
        config = self._nearest(absolute(path).parent)
        return config is not None and _matches(config, config.exclude, path, directory)

    def _find(self, folder: Path) -> Config | None:
        if self._isolated:
            return None
        config = load(folder / "pyproject.toml")
        if config is not None:
            self._found.append(config)
        elif folder.parent != folder:
            return self._nearest(folder.parent)
        return config

    def ineffective(self) -> Iterator[str]:
        """A warning for each selector, in the files read so far, that only preview would heed."""
        for choice in (config.choice for config in self._found):
            if not is_preview([choice, self._options]):
                for selector in ineffective(choice):
                    yield f"{choice.origin}: {selector} has no effect without `preview = true`"

    def _find_target(self, folder: Path) -> Version | None:
        if self._isolated:
            return None
        requirements = torch_requirements(folder)
        if requirements:
            return lower_bound(requirements)
        if folder.parent == folder or is_checkout(folder):
            return None
        return self._target(folder.parent)

    def _build(
        self, config: Config | None, ignored: tuple[str, ...], target: Version | None
    ) -> Selection:
        layers = [config.choice, self._options] if config else [self._options]
        dropped = {rule for selector in ignored for rule in matching(selector)}
        rules = tuple(rule for rule in resolve(layers) if rule not in dropped)
        return Selection(rules, target, self._noqa, is_preview(layers))


def absolute(path: Path) -> Path:
    """``path`` from the root, ``..`` resolved by name: a link is governed from where it stands."""
    return Path(os.path.abspath(path))  # noqa: PTH100  (pathlib would follow the link)


def is_checkout(folder: Path) -> bool:
    """Whether a directory is the top of a git or Mercurial checkout."""
    with contextlib.suppress(OSError):
        return any((folder / name).exists() for name in (".git", ".hg"))
    return False


def matching(selector: str) -> tuple[Rule, ...]:
    """The rules that a selector names: ``ALL``, a code or a prefix of codes, or a name."""
    upper = selector.upper()
    if upper == "ALL":
        return registry.all_rules()
    return tuple(
        rule
        for rule in registry.all_rules()
        if rule.name == selector.lower()
        or (upper.startswith(_PREFIX) and rule.code.startswith(upper))
    )


def resolve(layers: Sequence[Choice]) -> tuple[Rule, ...]:
    """The rules that run, in order of code; a later layer stands above an earlier one.

    Within a layer a longer selector wins over a shorter one: ``select = ["AMP101"]`` with
    ``ignore = ["AMP1"]`` runs AMP101. A layer without ``select`` changes what the one below chose.
    """
    chosen = set(registry.all_rules())
    for layer in layers:
        chosen = _choose(layer, chosen)
    preview = is_preview(layers)
    return tuple(
        rule for rule in registry.all_rules() if rule in chosen and preview >= rule.preview
    )


def is_preview(layers: Sequence[Choice]) -> bool:
    """Whether preview rules run; a later layer stands above an earlier one."""
    return next((c.preview for c in reversed(layers) if c.preview is not None), False)


def _choose(layer: Choice, below: set[Rule]) -> set[Rule]:
    chosen = below if layer.select is None else set()
    adding = [(selector, True) for selector in (*(layer.select or ()), *layer.extend_select)]
    removing = [(selector, False) for selector in layer.ignore]
    for selector, add in sorted(adding + removing, key=lambda item: _specificity(item[0])):
        chosen = chosen.union(matching(selector)) if add else chosen.difference(matching(selector))
    return chosen


def _specificity(selector: str) -> int:
    """How narrow a selector is: ``ALL``, a shorter prefix, a longer one, a code or a name."""
    if selector.upper() == "ALL":
        return 0
    return len(selector) if selector.upper().startswith(_PREFIX) else len("AMP101")


def ineffective(choice: Choice) -> Iterator[str]:
    """The selectors that choose only rules which need ``--preview``, where it is not given."""
    for selector in (*(choice.select or ()), *choice.extend_select):
        if not choice.preview and all(rule.preview for rule in matching(selector)):
            yield selector


def check_selectors(choice: Choice, others: Iterable[str] = ()) -> None:
    """Refuse a selector that matches no rule.

    Raises:
        ConfigError: naming the selector and where it stands.
    """
    for selector in (*(choice.select or ()), *choice.extend_select, *choice.ignore, *others):
        if not matching(selector):
            raise ConfigError(
                f"{choice.origin}: {selector!r} matches no rule; `amp-lint rule` lists them"
            )


def load(pyproject: Path) -> Config | None:
    """The ``[tool.amp-lint]`` table of a file; None where there is no file or no table.

    Raises:
        ConfigError: the file is broken, a key is unknown, or a value is wrong.
    """
    try:
        tool = (_toml.read(pyproject) or {}).get("tool", {})
    except _toml.TomlError as error:
        raise ConfigError(f"{pyproject}: {error}; correct it") from error
    table = tool.get("amp-lint") if isinstance(tool, dict) else None
    return None if table is None else _Table(pyproject, table).config()


class _Table:
    """Reads the values of one table; every error names the file and the key."""

    def __init__(self, path: Path, values: object) -> None:
        self._path = path
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: tool.amp-lint must be a table")
        self._values: dict[str, Any] = values
        unknown = sorted(values.keys() - _KEYS)
        if unknown:
            raise self._error(unknown[0], f"is no setting; settings are {', '.join(_KEYS)}")

    def config(self) -> Config:
        """The table, checked.

        Raises:
            ConfigError: a value is wrong.
        """
        choice = Choice(
            origin=str(self._path),
            select=self._strings("select") if "select" in self._values else None,
            extend_select=self._strings("extend-select"),
            ignore=self._strings("ignore"),
            preview=self._preview(),
            target_torch=self._target_torch(),
        )
        exclude, per_file = self._strings("exclude"), self._per_file_ignores()
        check_selectors(choice, (selector for _, selectors in per_file for selector in selectors))
        for pattern in exclude:
            self._check_pattern("exclude", pattern)
        for pattern, _ in per_file:
            self._check_pattern("per-file-ignores", pattern)
        return Config(self._path.parent, choice, exclude, per_file)

    def _error(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self._path}: tool.amp-lint.{key} {what}")

    def _strings(self, key: str) -> tuple[str, ...]:
        return self._string_list(key, self._values.get(key, []))

    def _string_list(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(key, 'must be a list of strings such as ["..."]')
        return tuple(value)

    def _preview(self) -> bool | None:
        value = self._values.get("preview")
        if value is not None and not isinstance(value, bool):
            raise self._error("preview", "must be true or false")
        return value

    def _target_torch(self) -> Version | None:
        if "target-torch" not in self._values:
            return None
        value = self._values["target-torch"]
        version = parse_version(value) if isinstance(value, str) else None
        if version is None:
            raise self._error("target-torch", f'must be a string such as "2.3", not {value!r}')
        return version

    def _per_file_ignores(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        value = self._values.get("per-file-ignores", {})
        if not isinstance(value, dict):
            raise self._error("per-file-ignores", 'must be a table such as {"tests/*" = ["AMP1"]}')
        return tuple(
            (pattern, self._string_list(f"per-file-ignores.{pattern!r}", selectors))
            for pattern, selectors in value.items()
        )

    def _check_pattern(self, key: str, pattern: str) -> None:
        try:
            Pattern.parse(pattern)
        except PatternError as error:
            raise self._error(key, f"has a bad pattern: {error}") from error


_KEYS = (
    "exclude",
    "extend-select",
    "ignore",
    "per-file-ignores",
    "preview",
    "select",
    "target-torch",
)


def _ignored_here(config: Config, path: Path) -> Iterator[str]:
    """The selectors that ``per-file-ignores`` takes away from a file."""
    for pattern, selectors in config.per_file_ignores:
        if _matches(config, (pattern,), path):
            yield from selectors


def _matches(
    config: Config, patterns: tuple[str, ...], path: Path, directory: bool = False
) -> bool:
    if not patterns:
        return False
    names = absolute(path).relative_to(absolute(config.root)).parts
    return bool(_compiled(patterns).verdict_from_above(names, directory=directory))


@functools.cache
def _compiled(patterns: tuple[str, ...]) -> Patterns:
    """The patterns, understood.

    Raises:
        PatternError: one of them is malformed.
    """
    return Patterns(filter(None, map(Pattern.parse, patterns)))
