"""The oldest torch that a project says it runs on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_lint import _toml

Version = tuple[int, int]
"""A torch release, major and minor."""

_TORCH = re.compile(r"torch(?![\w.-])", re.IGNORECASE)
_LOWER_BOUNDS = {">=", ">", "==", "~=", "==="}
_CONDA = re.compile(
    r"^\s*-\s*[\"']?(?:[\w-]+::)?(?:py)?torch\s*(?P<operator>[<>=!~]=?)\s*(?P<version>\d[\w.]*)",
    re.MULTILINE,
)
_NOT_REQUIREMENT = re.compile(r"\s+#.*|\s+--.*|\\$")


def parse_version(text: str) -> Version | None:
    """``"2.3"``, ``"2.3.1+cu121"`` or ``"2"`` as (major, minor); None for what is no version."""
    from packaging.version import InvalidVersion
    from packaging.version import Version as Parsed

    try:
        parsed = Parsed(text)
    except InvalidVersion:
        return None
    return parsed.major, parsed.minor


def torch_requirements(folder: Path) -> list[str]:
    """The requirements on torch that the files of this very directory declare.

    Read are pyproject.toml, setup.cfg, requirements.txt, the texts in setup.py, and conda's
    environment.yml, extras included; what cannot be read or parsed declares nothing.
    """
    found = [*_pyproject(folder), *_setup_cfg(folder), *_requirements_txt(folder)]
    found += [*_setup_py(folder), *_environment(folder)]
    return [requirement for requirement in found if _TORCH.match(requirement)]


def lower_bound(requirements: Iterable[str]) -> Version | None:
    """The oldest release that requirements such as ``torch>=2.1,<3`` let in.

    The lowest bound counts where there are several, as extras and markers choose between them;
    None where nothing is a bound.
    """
    return min(filter(None, map(_bound, requirements)), default=None)


def _bound(requirement: str) -> Version | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        specifiers = Requirement(requirement).specifier
    except InvalidRequirement:
        return None
    versions = (
        parse_version(specifier.version.removesuffix(".*"))
        for specifier in specifiers
        if specifier.operator in _LOWER_BOUNDS
    )
    return max(filter(None, versions), default=None)


def _pyproject(folder: Path) -> Iterator[str]:
    try:
        project = (_toml.read(folder / "pyproject.toml") or {}).get("project")
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


def _setup_cfg(folder: Path) -> Iterator[str]:
    text = _text(folder / "setup.cfg")
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


def _setup_py(folder: Path) -> Iterator[str]:
    """The strings in a setup.py, which is read and never run."""
    text = _text(folder / "setup.py")
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


def _environment(folder: Path) -> Iterator[str]:
    """What conda is to install: ``pytorch=1.12`` is a version, ``pytorch>=1.12`` a bound."""
    for name in ("environment.yml", "environment.yaml"):
        for match in _CONDA.finditer(_text(folder / name)):
            operator = "==" if match["operator"] == "=" else match["operator"]
            yield f"torch{operator}{match['version']}"


def _requirements_txt(folder: Path) -> Iterator[str]:
    return _lines(_text(folder / "requirements.txt"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _lines(text: str) -> Iterator[str]:
    """Requirements, one a line, without comments and options such as ``--hash``."""
    for line in text.splitlines():
        yield _NOT_REQUIREMENT.sub("", line.strip()).strip()
