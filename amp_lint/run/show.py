"""``--show-settings``: what governs files, and why a rule runs on them or does not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from amp_lint import registry
from amp_lint.rule import Rule
from amp_lint.run.choice import Choice, Ignored, resolve
from amp_lint.run.config import Governing, Settings
from amp_lint.run.discover import SKIPPED
from amp_lint.run.settings_file import KEYS
from amp_lint.run.silence import Silence
from amp_lint.text.files import from_here
from amp_lint.text.printable import printable


def settings(governed: Settings, paths: Sequence[Path]) -> Iterator[str]:
    """Lines about each group of files that are governed alike."""
    groups: dict[Governing, list[Path]] = {}
    for path in paths:
        groups.setdefault(governed.governing(path), []).append(path)
    for number, (governing, files) in enumerate(groups.items()):
        silences = {each.rule: each for each in governed.silences(files[0])}
        yield "\n" * bool(number)
        yield f"# {printable(_few(files))}\n"
        for line in (*_values(governing), *_rules(governing, silences)):
            yield f"{line}\n"


def _few(files: Sequence[Path]) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{from_here(files[0])}{more}"


def _values(governing: Governing) -> Iterator[str]:
    """What the layers say, as they would say it in a file, and where they say it."""
    layers = governing.layers
    yield f"# settings: {', then '.join(str(from_here(Path(each.origin))) for each in layers)}"
    if not governing.sound:
        yield "# a nearer settings file has an error and is passed over"
    if governing.target:
        version = "{}.{}".format(*governing.target.version)
        yield f'target-torch = "{version}"  # {governing.target.reason}'
    else:
        yield "# target-torch: the newest, as nothing asks for an older one"
    for layer in layers:
        said = f"  # {from_here(Path(layer.origin))}"
        for key, value in _said(layer):
            yield f"{key} = {value}{said}"
    yield f"# skipped unless named: {', '.join(sorted(SKIPPED))}"


def _said(layer: Choice) -> Iterator[tuple[str, str]]:
    """Each setting of a layer as TOML, but for the target."""
    for key in KEYS:
        value = getattr(layer, key.replace("-", "_"))
        if key == "target-torch" or value is None or value == ():
            continue
        yield key, _pairs(value) if key.endswith("per-file-ignores") else json.dumps(value)


def _pairs(ignored: Ignored) -> str:
    pairs = (f"{json.dumps(pattern)} = {json.dumps(rules)}" for pattern, rules in ignored)
    return f"{{{', '.join(pairs)}}}"


def _rules(governing: Governing, silences: dict[Rule, Silence]) -> Iterator[str]:
    running = [rule for rule in governing.rules if not _is_off(rule, silences)]
    yield f"# {len(running)} rules run:"
    for rule in running:
        partly = f", {silences[rule].why(silences[rule].words)}" if rule in silences else ""
        yield f"{rule.code} {rule.name}{partly}"
    yield f"# {len(registry.every_rule()) - len(running)} rules do not:"
    for rule in registry.every_rule():
        if rule not in running:
            yield f"{rule.code} {rule.name}: {_why_not(rule, governing, silences)}"


def _is_off(rule: Rule, silences: dict[Rule, Silence]) -> bool:
    return rule in silences and silences[rule].whole


def _why_not(rule: Rule, governing: Governing, silences: dict[Rule, Silence]) -> str:
    layers = governing.layers
    if _is_off(rule, silences):
        return silences[rule].why(silences[rule].words)
    if rule in resolve(layers):
        return "left out by per-file-ignores"
    if rule in resolve((*layers, replace(layers[-1], select=None, ignore=(), preview=True))):
        return "needs --preview"
    return "not selected"
