"""The oldest torch that a project says it runs on."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from amp_lint import _toml

Version = tuple[int, int]
"""A torch release, major and minor."""

OPTION = "--target-torch"
"""The option that stands above all that is said about it elsewhere."""
_TORCH = re.compile(r"torch(?![\w.-])", re.IGNORECASE)
_LOWER_BOUNDS = {">=", ">", "==", "~=", "==="}
_CONDA = re.compile(
    r"^\s*-\s*[\"']?(?:[\w-]+::)?(?:py)?torch\s*(?P<operator>[<>=!~]=?)\s*(?P<version>\d[\w.]*)",
    re.MULTILINE,
)
_NOT_REQUIREMENT = re.compile(r"\s+#.*|\s+--.*|\\$")


def parse_version(text: str) -> Version | None:
    """``"2.3"``, ``"2.3.1+cu121"`` or ``"2"`` as (major, minor); None for what is no version."""
    from packaging.version import Version as Parsed

    try:
        parsed = Parsed(text)
    except ValueError:  # InvalidVersion, and what `int` says about thousands of digits
        return None
    return parsed.major, parsed.minor


@dataclass(frozen=True)
class Target:
    """The oldest torch that fixed code must run on."""

    version: Version
    reason: str
    """Who says so, as a clause such as "requirements.txt asks for torch>=1.10"."""


Declared = tuple[str, Path]
"""A requirement on torch and the file that declares it."""


def torch_requirements(folder: Path) -> list[Declared]:
    """The requirements on torch that the files of this very directory declare.

    Read are pyproject.toml, setup.cfg, requirements.txt, the texts in setup.py, and conda's
    environment.yml, extras included; what cannot be read or parsed declares nothing.
    """
    return [
        (requirement, folder / name)
        for name, read in _READERS.items()
        for requirement in read(folder / name)
        if _TORCH.match(requirement)
    ]


def lower_bound(requirement: str) -> Version | None:
    """The oldest release that a requirement such as ``torch>=2.1,<3`` lets in; None for any."""
    from packaging.requirements import Requirement

    try:
        specifiers = Requirement(requirement).specifier
    except ValueError:  # InvalidRequirement, and what `int` says about thousands of digits
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
    text = _text(path)
    if "torch" not in text:
        return
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    yield from _lines(parser.get("options", "install_requires", fallback=""))
    if parser.has_section("options.extras_require"):
        for _, extra in parser.items("options.extras_require"):
            yield from _lines(extra)


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
    return "\n" not in text and bool(re.search(r"[<>=~]", text))


def _environment(path: Path) -> Iterator[str]:
    """What conda is to install: ``pytorch=1.12`` is a version, ``pytorch>=1.12`` a bound."""
    for match in _CONDA.finditer(_text(path)):
        operator = "==" if match["operator"] == "=" else match["operator"]
        yield f"torch{operator}{match['version']}"


def _requirements_txt(path: Path) -> Iterator[str]:
    return _lines(_text(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _lines(text: str) -> Iterator[str]:
    """Requirements, one a line, without comments and options such as ``--hash``."""
    for line in text.splitlines():
        yield _NOT_REQUIREMENT.sub("", line.strip()).strip()


_READERS: dict[str, Callable[[Path], Iterator[str]]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "requirements.txt": _requirements_txt,
    "setup.py": _setup_py,
    "environment.yml": _environment,
    "environment.yaml": _environment,
}
