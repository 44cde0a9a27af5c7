"""The oldest torch that a project says it runs on."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from amp_lint.run import _toml
from amp_lint.text import files

Version = tuple[int, int]
"""A torch release, major and minor."""

OPTION = "--target-torch"
"""The option that stands above all that is said about it elsewhere."""
_TORCH = re.compile(r"torch(?![\w.-])", re.IGNORECASE)
_LOWER_BOUNDS = {">=", ">", "==", "~=", "==="}
_OPERATORS = frozenset("<>=~")
_CONDA = re.compile(r"\A(?:py)?torch[ \t]*([<>=!~]+)[ \t]*(\d[\w.]*)", re.IGNORECASE)
MAX_BYTES = 1_000_000
"""Bytes of a file that says what a project needs; a larger one is something else."""
_SEVERAL = "requirements"
"""The folder in which some projects have one file of requirements for each of several uses."""
_MAX_SEVERAL = 20
MAX_LENGTH = 1_000
"""Characters of one requirement."""


def parse_version(text: str) -> Version | None:
    """``"2.3"``, ``"2.3.1+cu121"`` or ``"2"`` as (major, minor); None for what is no version."""
    from packaging.version import Version as Parsed

    try:
        parsed = Parsed(text)
    except ValueError:  # no version, or a number of more digits than Python reads
        return None
    return parsed.major, parsed.minor


@dataclass(frozen=True)
class Target:
    """The oldest torch that fixed code must run on."""

    version: Version
    reason: str
    """Who says so, as a clause such as "requirements.txt asks for torch>=1.10"."""


Reader = Callable[[Path], Iterator[str]]
"""Gives the requirements in a file."""
Declared = tuple[str, Path]
"""A requirement on torch and the file that declares it."""


def torch_requirements(folder: Path) -> list[Declared]:
    """The requirements on torch that the files of this very directory declare.

    Read are pyproject.toml, setup.cfg, requirements.txt, the texts in setup.py, conda's
    environment.yml, extras included, and each .txt in a folder ``requirements``; what cannot be
    read or parsed declares nothing.
    """
    return [
        (requirement, path)
        for path, read in sources(folder)
        for requirement in read(path)
        if len(requirement) <= MAX_LENGTH and _TORCH.match(requirement)
    ]


def sources(folder: Path) -> Iterator[tuple[Path, Reader]]:
    """The files of a directory that may say which torch a project requires, and what reads them."""
    yield from ((folder / name, read) for name, read in _REQUIREMENTS.items())
    try:
        several = sorted((folder / _SEVERAL).glob("*.txt"))
    except OSError:
        return
    yield from ((path, _requirements_txt) for path in several[:_MAX_SEVERAL])


def lower_bound(requirement: str) -> Version | None:
    """The oldest release that a requirement such as ``torch>=2.1,<3`` lets in; None for any."""
    from packaging.requirements import Requirement

    try:
        specifiers = Requirement(requirement).specifier
    except ValueError:
        return None
    versions = (
        parse_version(specifier.version.removesuffix(".*"))
        for specifier in specifiers
        if specifier.operator in _LOWER_BOUNDS
    )
    return max(filter(None, versions), default=None)


def _pyproject(path: Path) -> Iterator[str]:
    try:
        project = (_toml.read(path) or {}).get("project")
    except _toml.TomlError:
        return
    if isinstance(project, dict):
        yield from _strings(project.get("dependencies"))
        extras = project.get("optional-dependencies")
        for extra in extras.values() if isinstance(extras, dict) else ():
            yield from _strings(extra)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from (item.strip() for item in value if isinstance(item, str))


def _setup_cfg(path: Path) -> Iterator[str]:
    """The requirements of a setup.cfg: behind their key, or on lines of their own below it."""
    section = key = ""
    for line in _text(path).splitlines():
        value = line
        if line.startswith("["):
            section, key, value = line[1:].partition("]")[0], "", ""
        elif line.strip() and not line[0].isspace():
            key, _, value = line.replace(":", "=", 1).partition("=")
        if section == "options.extras_require" or (
            section == "options" and key.strip() == "install_requires"
        ):
            yield from _lines(value)


def _setup_py(path: Path) -> Iterator[str]:
    """The strings in a setup.py, which is read and never run."""
    text = _text(path)
    if "torch" not in text:
        return
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_plain(node.value):
            yield node.value


def _is_plain(text: str) -> bool:
    return "\n" not in text and not _OPERATORS.isdisjoint(text)


def _environment(path: Path) -> Iterator[str]:
    """What conda is to install: ``pytorch=1.12`` is a version, ``pytorch>=1.12`` a bound."""
    for line in _text(path).splitlines():
        entry, _, spelled = line.strip().partition("-")
        package = spelled.strip(" \t\"'").rpartition("::")[2]
        if not entry and (match := _CONDA.match(package)):
            yield f"torch{'==' if match[1] == '=' else match[1]}{match[2]}"


def _requirements_txt(path: Path) -> Iterator[str]:
    return _lines(_text(path))


def _text(path: Path) -> str:
    try:
        return files.read(path, MAX_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _lines(text: str) -> Iterator[str]:
    """Requirements, one a line, without comments and options such as ``--hash``."""
    for line in text.splitlines():
        kept = itertools.takewhile(lambda word: not word.startswith(("#", "--")), line.split())
        yield " ".join(kept).removesuffix("\\").strip()


_REQUIREMENTS: dict[str, Reader] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "requirements.txt": _requirements_txt,
    "setup.py": _setup_py,
    "environment.yml": _environment,
    "environment.yaml": _environment,
}
"""The files of fixed names, and what reads them."""
