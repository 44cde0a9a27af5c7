"""Finds the rules: every `Rule` subclass in a module below ``amp_lint.rules``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from amp_lint.rule import Rule
from amp_lint.text.diagnostic import SYNTAX_ERROR

PACKAGE = "amp_lint.rules"
_CODE = re.compile(r"AMP[1-9]\d\d")


class RegistryError(Exception):
    """Two rules claim one code or name, or a code is malformed."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule that the linter asks about code, in order of code.

    Raises:
        RegistryError: as of `every_rule`.
    """
    return tuple(rule for rule in every_rule() if rule.is_static)


@functools.cache
def every_rule() -> tuple[Rule, ...]:
    """One instance of every rule, in order of code, also of those for runs and for comments.

    Raises:
        RegistryError: if a code or name is taken twice or is not of the form AMP123.
    """
    by_code: dict[str, Rule] = {}
    names: set[str] = set()
    for rule_class in _rule_classes():
        rule = rule_class()
        if not _CODE.fullmatch(rule.code) or rule.code == SYNTAX_ERROR:
            raise RegistryError(f"{rule_class.__qualname__}: {rule.code!r} is not a rule code")
        if rule.code in by_code or rule.name in names:
            raise RegistryError(f"{rule_class.__qualname__}: {rule.code} {rule.name} is taken")
        by_code[rule.code] = rule
        names.add(rule.name)
    return tuple(by_code[code] for code in sorted(by_code))


def find(key: str) -> Rule | None:
    """The rule with this code or name, in any case."""
    wanted = key.lower()
    return next((r for r in every_rule() if wanted in (r.code.lower(), r.name)), None)


def summary(rule: Rule) -> str:
    """What the rule finds, in one line; "" where Python leaves docstrings out."""
    first, _, _ = (sys.modules[type(rule).__module__].__doc__ or "").partition("\n")
    return first.removeprefix(f"{rule.code}: ").rstrip(".")


def page(rule: Rule) -> str:
    """The rule's documentation, Markdown."""
    from importlib.resources import files  # 10 ms

    package, _, module = type(rule).__module__.rpartition(".")
    return files(package).joinpath(f"{module}.md").read_text(encoding="utf-8")


@functools.cache
def address(rule: Rule) -> str:
    """Where the rule's page can be read: in the published repository, or else on this machine."""
    from importlib import resources

    package, _, module = type(rule).__module__.rpartition(".")
    if home := repository():
        folder = package.removeprefix(f"{PACKAGE}.").replace(".", "/")
        return f"{home}/blob/HEAD/rules/{folder}/{module}.md"
    return Path(str(resources.files(package).joinpath(f"{module}.md"))).as_uri()


@functools.cache
def repository() -> str:
    """The published repository's address, as the installed package says it; "" if it does not."""
    from importlib import metadata

    try:
        urls = metadata.metadata("amp-lint").get_all("Project-URL") or ()
    except metadata.PackageNotFoundError:
        return ""
    named = (url.partition(", ") for url in urls)
    return next((url.rstrip("/") for name, _, url in named if name == "Repository"), "")


def _rule_classes() -> Iterator[type[Rule]]:
    package = importlib.import_module(PACKAGE)
    for module_info in pkgutil.walk_packages(package.__path__, PACKAGE + "."):
        if "._" in module_info.name.removeprefix(PACKAGE):
            continue  # what serves the rules beside it, and needs a parser
        module = importlib.import_module(module_info.name)
        for value in vars(module).values():
            is_rule = isinstance(value, type) and issubclass(value, Rule) and value is not Rule
            if is_rule and value.__module__ == module.__name__:
                yield value
