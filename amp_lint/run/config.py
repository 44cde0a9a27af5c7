"""What governs a file: settings files, the command line, the torch that the project requires.

The settings of a file come from the nearest directory upwards that has some, in
``.amp-lint.toml``, ``amp-lint.toml`` or the table ``[tool.amp-lint]`` of ``pyproject.toml``; those
of several directories are not merged. ``--config`` and the options of the command line stand above
them. Path patterns are those of ``.gitignore``, relative to the directory of the settings file, or
to the current one on the command line.

``target-torch`` defaults to the lower bound of the torch requirement in the nearest directory
upwards that declares one, within the checkout; no bound means the newest torch.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from amp_lint import registry
from amp_lint.rule import Rule
from amp_lint.run import settings_file
from amp_lint.run.choice import (
    Choice,
    ConfigError,
    check_selectors,
    follows_imports,
    ineffective,
    is_docstring_code,
    is_preview,
    matching,
    resolve,
)
from amp_lint.run.target import OPTION, Declared, Target, lower_bound, torch_requirements
from amp_lint.selection import Selection
from amp_lint.text.files import absolute, from_here, is_checkout

if TYPE_CHECKING:
    from amp_lint.run.gitignore import Patterns
    from amp_lint.run.silence import Silence

__all__ = [
    "Choice",
    "ConfigError",
    "Settings",
    "ineffective",
    "matching",
]


@dataclass(frozen=True)
class Governing:
    """What governs a file."""

    layers: tuple[Choice, ...]
    """A later one stands above an earlier one."""
    sound: bool
    """Whether no settings file was passed over, for an error, that would have been nearer."""
    ignored: tuple[str, ...]
    """The selectors that ``per-file-ignores`` takes away from the file."""
    target: Target | None

    def asks_for(self, code: str) -> bool:
        """Whether a rule or its family is selected, and not only all there are."""
        every = registry.every_rule()
        for layer in reversed(self.layers):
            named = map(matching, layer.selectors)
            if any(rules != every and code in {rule.code for rule in rules} for rules in named):
                return True
            if layer.select is not None:
                return False
        return False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that are chosen."""
        dropped = {rule for selector in self.ignored for rule in matching(selector)}
        return tuple(rule for rule in resolve(self.layers) if rule not in dropped)


class Settings:
    """The settings of every file of a run."""

    def __init__(
        self,
        options: Choice,
        *,
        config: Sequence[str] = (),
        noqa: bool = True,
        isolated: bool = False,
        on_error: Callable[[str], None] | None = None,
    ) -> None:
        """Settings below the choices of the command line; whether ``noqa`` comments count.

        ``config`` are the values of ``--config``. ``isolated`` settings are the command line and
        nothing else: no file is read. A settings file with an error is told to ``on_error`` and
        passed over; without that function every question about a file below raises ConfigError.

        Raises:
            ConfigError: a selector in ``options`` matches no rule, ``config`` is wrong, or the
                current directory was deleted.
        """
        _require_current_directory()
        check_selectors(options)
        self._named, inline = settings_file.named(config)
        if self._named and isolated:
            raise ConfigError("command line: --isolated reads no settings file; leave one out")
        self._above = (*inline, options)
        self._noqa = noqa
        self._isolated = isolated
        self._on_error = on_error
        self._read = [choice for choice in (self._named, *inline) if choice]
        self._nearest = functools.cache(self._find)
        self._target = functools.cache(self._find_target)
        self._selection = functools.cache(self._build)
        self._silences = functools.cache(_silences)
        self._heard: dict[tuple[Rule, Target], tuple[Silence, frozenset[str]]] = {}
        self._latest = functools.lru_cache(1)(self._govern)

    def governing(self, path: Path) -> Governing:
        """What governs a file."""
        return self._latest(path)

    def selection(self, path: Path) -> Selection:
        """The rules for a file, and the torch its fixes are for."""
        return self._selection(self.governing(path))

    def silences(self, path: Path) -> tuple[Silence, ...]:
        """What rules do not report in a file because of its target."""
        return self._silences(self.governing(path))

    def listen(self, path: Path, data: bytes) -> None:
        """Look for what rules do not report in a file because of its target, for `notes`."""
        for silence in self.silences(path):
            if words := silence.heard_in(data):
                key = silence.rule, silence.target
                _, others = self._heard.get(key, (silence, frozenset[str]()))
                self._heard[key] = silence, others | words

    def notes(self) -> Iterator[str]:
        """A line for each rule that was kept from reporting something in the run so far."""
        return (silence.note(words) for silence, words in self._heard.values())

    def excluded(self, path: Path, *, directory: bool = False, alone: bool = False) -> bool:
        """Whether the settings leave this path out; ``alone``, whatever holds for those above."""
        layers, _ = self._layers(absolute(path).parent)
        base = next((layer for layer in reversed(layers) if layer.exclude is not None), None)
        excluding = [(base, base.exclude or ())] if base else []
        excluding += [(layer, layer.extend_exclude) for layer in layers]
        verdict: bool | None = None
        for layer, patterns in excluding:
            if patterns:
                names, compiled = _names(layer, path), _compiled(patterns)
                ask = compiled.verdict if alone else compiled.verdict_from_above
                said = ask(names, directory=directory)
                verdict = verdict if said is None else said
        return bool(verdict)

    def included(self, path: Path) -> bool:
        """Whether the settings want a file that is neither Python nor a notebook by its name."""
        layers, _ = self._layers(absolute(path).parent)
        verdict: bool | None = None
        for layer in layers:
            if layer.extend_include:
                compiled = _compiled(layer.extend_include)
                said = compiled.verdict(_names(layer, path), directory=False)
                verdict = verdict if said is None else said
        return bool(verdict)

    def follows_imports(self, folder: Path) -> bool:
        """Whether what the files of a folder import is read, where the run has not got it."""
        return follows_imports(self._layers(absolute(folder))[0])

    def warnings(self) -> Iterator[str]:
        """What is of no use in the settings that were read so far, and what was not read at all."""
        for choice in self._read:
            if not is_preview([choice, *self._above]):
                for selector in ineffective(choice):
                    yield f"{choice.origin}: {selector} has no effect without `preview = true`"
        options = self._above[-1]
        if not any(is_preview([choice, *self._above]) for choice in (*self._read, options)):
            for selector in ineffective(options):
                yield f"{selector} has no effect without --preview"
        if not self._isolated and not self._named:
            for choice in self._read:
                yield from settings_file.shadowed(Path(choice.origin))
            yield from settings_file.unread(Path.cwd())

    def _govern(self, path: Path) -> Governing:
        folder = absolute(path).parent
        layers, sound = self._layers(folder)
        return Governing(layers, sound, tuple(_ignored(layers, path)), self._oldest(layers, folder))

    def _layers(self, folder: Path) -> tuple[tuple[Choice, ...], bool]:
        """The layers for the files of a directory, and whether the nearest settings count."""
        choice, sound = (self._named, True) if self._named else self._nearest(folder)
        return (choice, *self._above) if choice else self._above, sound

    def _find(self, folder: Path) -> tuple[Choice | None, bool]:
        """The settings in a directory or above it, and whether none had to be passed over."""
        if self._isolated:
            return None, True
        sound = True
        try:
            if choice := settings_file.in_folder(folder):
                self._read.append(choice)
                return choice, True
        except ConfigError as error:
            if self._on_error is None:
                raise
            self._on_error(f"{error} (passed over, nothing below it is changed)")
            sound = False
        if folder.parent == folder:
            return None, sound
        choice, above = self._nearest(folder.parent)
        return choice, above and sound

    def _oldest(self, layers: Sequence[Choice], folder: Path) -> Target | None:
        for layer in reversed(layers):
            if layer.target_torch:
                version = "{}.{}".format(*layer.target_torch)
                says = f"{from_here(Path(layer.origin))} says target-torch {version}"
                given = layer is self._above[-1]
                return Target(layer.target_torch, f"{OPTION} is {version}" if given else says)
        return self._target(folder)

    def _find_target(self, folder: Path) -> Target | None:
        if self._isolated:
            return None
        if declared := torch_requirements(folder):
            return _target(declared)
        if folder.parent == folder or is_checkout(folder):
            return None
        return self._target(folder.parent)

    def _build(self, governing: Governing) -> Selection:
        off = {silence.rule for silence in self._silences(governing) if silence.whole}
        rules = tuple(rule for rule in governing.rules if rule not in off)
        target = governing.target.version if governing.target else None
        layers = governing.layers
        return Selection(rules, target, self._noqa, is_preview(layers), is_docstring_code(layers))


def _require_current_directory() -> None:
    try:
        Path.cwd()
    except OSError as error:
        raise ConfigError("the current directory does not exist; change to another one") from error


def _silences(governing: Governing) -> tuple[Silence, ...]:
    """What the target keeps the rules from reporting."""
    if governing.target is None:
        return ()
    from amp_lint.run.silence import Silence

    found = [Silence(rule, governing.target) for rule in governing.rules]
    return tuple(silence for silence in found if silence.words)


def _target(declared: Sequence[Declared]) -> Target | None:
    """The lowest bound counts where there are several: extras and markers choose between them."""
    bounds = [(bound, *each) for each in dict.fromkeys(declared) if (bound := lower_bound(each[0]))]
    if not bounds:
        return None
    lowest, requirement, file = min(bounds, key=operator.itemgetter(0))
    return Target(lowest, f"{from_here(file)} asks for {requirement}")


def _ignored(layers: Sequence[Choice], path: Path) -> Iterator[str]:
    """The selectors that ``per-file-ignores`` takes away from a file."""
    said = [layer for layer in layers if layer.per_file_ignores is not None]
    base = [(layer, layer.per_file_ignores or ()) for layer in said[-1:]]
    for layer, ignored in (*base, *((each, each.extend_per_file_ignores) for each in layers)):
        for pattern, selectors in ignored:
            if _means(layer, pattern, path):
                yield from selectors


def _means(layer: Choice, pattern: str, path: Path) -> bool:
    """Whether a pattern is for a file; one with ``!`` is for all others."""
    others = pattern.startswith("!")
    compiled = _compiled((pattern.removeprefix("!"),))
    return bool(compiled.verdict_from_above(_names(layer, path), directory=False)) != others


def _names(layer: Choice, path: Path) -> tuple[str, ...]:
    """The names on the way to a path from where the patterns of a layer stand.

    Beside it only what a pattern says of any directory counts, for which an empty name stands.
    """
    root, path = absolute(layer.root), absolute(path)
    return path.relative_to(root).parts if root in path.parents else ("", *path.parts[1:])


@functools.cache
def _compiled(patterns: tuple[str, ...]) -> Patterns:
    """The patterns, understood; ``./`` at the beginning is how a shell completes a path.

    Raises:
        PatternError: one of them is malformed.
    """
    from amp_lint.run.gitignore import Pattern, Patterns

    rooted = (pattern.removeprefix(".") if pattern[:2] == "./" else pattern for pattern in patterns)
    return Patterns(filter(None, map(Pattern.parse, rooted)))
