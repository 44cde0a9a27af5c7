"""The README as the package index shows it: its links and pictures lead to the repository.

All else about the package stands in pyproject.toml, and so does the one setting of this file:
``Repository`` in ``[project.urls]``. Without it the README is left as it is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from setuptools import setup  # type: ignore[import-untyped, unused-ignore]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<part>#[^)\s]*)?\)")


def repository(pyproject: str) -> str:
    """The address of the repository, without a slash at its end; "" if there is none."""
    urls = tomllib.loads(pyproject)["project"].get("urls", {})
    return str(urls.get("Repository", "")).rstrip("/")


def published(readme: str, address: str) -> str:
    """The README with addresses for its relative links; code in it stays as it is."""
    if not address:
        return readme

    def absolute(link: re.Match[str]) -> str:
        way = "raw" if link["picture"] else "blob"
        target = f"{address}/{way}/HEAD/{link['path']}{link['part'] or ''}"
        return f"{link['picture']}[{link['text']}]({target})"

    parts = _FENCE.split(readme)
    parts[::2] = [_LINK.sub(absolute, part) for part in parts[::2]]
    return "".join(parts)


if __name__ == "__main__":
    folder = Path(__file__).parent
    address = repository((folder / "pyproject.toml").read_text(encoding="utf-8"))
    setup(
        long_description=published((folder / "README.md").read_text(encoding="utf-8"), address),
        long_description_content_type="text/markdown",
    )
