"""Which rules are chosen: selectors, and the layers of choices that stand above one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_lint import registry
from amp_lint.rule import Rule
from amp_lint.run.target import Version
from amp_lint.run.wording import did_you_mean

_PREFIX = "AMP"

Ignored = tuple[tuple[str, tuple[str, ...]], ...]
"""Patterns of files, and the selectors of the rules that are left out of them."""


class ConfigError(Exception):
    """A setting is wrong; the message names where, which, and what to do."""


@dataclass(frozen=True)
class Choice:
    """One layer of choices: a settings file, or the command line. None: nothing is said."""

    origin: str
    """What to call the layer in an error."""
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    preview: bool | None = None
    docstring_code: bool | None = None
    """Whether the code in documentation strings is linted, too."""
    target_torch: Version | None = None
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    extend_include: tuple[str, ...] = ()
    """Files that are looked for beside those of Python and notebooks."""
    per_file_ignores: Ignored | None = None
    extend_per_file_ignores: Ignored = ()
    follow_imports: bool | None = None
    """Whether files that are imported are read, though the run has not got them."""
    root: Path = Path()
    """The directory that the patterns are relative to."""

    @property
    def selectors(self) -> tuple[str, ...]:
        """The selectors that choose rules for all files."""
        return (*(self.select or ()), *self.extend_select)


def matching(selector: str) -> tuple[Rule, ...]:
    """The rules that a selector names: ``ALL``, a code or a prefix of codes, or a name."""
    upper = selector.upper()
    if upper == "ALL":
        return registry.every_rule()
    return tuple(
        rule
        for rule in registry.every_rule()
        if rule.name == selector.lower()
        or (upper.startswith(_PREFIX) and rule.code.startswith(upper))
    )


def resolve(layers: Sequence[Choice]) -> tuple[Rule, ...]:
    """The rules that run, in order of code; a later layer stands above an earlier one.

    Within a layer a longer selector wins over a shorter one: ``select = ["AMP101"]`` with
    ``ignore = ["AMP1"]`` runs AMP101. A layer without ``select`` changes what the one below chose.
    Rules about comments are not among those that run by default.
    """
    chosen = {rule for rule in registry.every_rule() if not rule.about_comments}
    for layer in layers:
        chosen = _choose(layer, chosen)
    preview = is_preview(layers)
    return tuple(
        rule for rule in registry.every_rule() if rule in chosen and preview >= rule.preview
    )


def is_preview(layers: Sequence[Choice]) -> bool:
    """Whether preview rules run; a later layer stands above an earlier one."""
    return next((c.preview for c in reversed(layers) if c.preview is not None), False)


def is_docstring_code(layers: Sequence[Choice]) -> bool:
    """Whether documentation strings are looked at; a later layer stands above an earlier one."""
    said = (layer.docstring_code for layer in reversed(layers))
    return next((each for each in said if each is not None), False)


def follows_imports(layers: Sequence[Choice]) -> bool:
    """Whether imported files beside the run are read; a later layer stands above an earlier one."""
    said = (layer.follow_imports for layer in reversed(layers))
    return next((each for each in said if each is not None), True)


def _choose(layer: Choice, below: set[Rule]) -> set[Rule]:
    chosen = below if layer.select is None else set()
    adding = [(selector, True) for selector in layer.selectors]
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
    for selector in choice.selectors:
        if not choice.preview and all(rule.preview for rule in matching(selector)):
            yield selector


def check_selectors(choice: Choice) -> None:
    """Refuse a selector that matches no rule.

    Raises:
        ConfigError: naming the selector and where it stands.
    """
    in_files = (*(choice.per_file_ignores or ()), *choice.extend_per_file_ignores)
    ignored = (selector for _, selectors in in_files for selector in selectors)
    for selector in (*choice.selectors, *choice.ignore, *ignored):
        if not matching(selector):
            what = f"{selector!r} matches no rule{_similar(selector) or ';'}"
            raise ConfigError(f"{choice.origin}: {what} `amp-lint rule` lists them")


def _similar(selector: str) -> str:
    """A rule that is spelled nearly so; a code that there is not is no misspelling of another."""
    if selector.upper().startswith(_PREFIX) and selector[len(_PREFIX) :].isdecimal():
        return ""
    rules = registry.every_rule()
    return did_you_mean(selector, [word for rule in rules for word in (rule.code, rule.name)])
