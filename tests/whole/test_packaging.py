"""What is published: the sdist has all that its tests need, the README's links lead somewhere."""

from __future__ import annotations

import email.parser
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from readme_renderer import markdown

ROOT = Path(__file__).parents[2]
ADDRESS = "https://code.example/team/amp-lint"
GENERATED = re.compile(r"PKG-INFO|setup\.cfg|amp_lint\.egg-info/.+")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="is no checkout"
)


@pytest.fixture(scope="module")
def setup_py() -> ModuleType:
    """The functions of setup.py."""
    spec = importlib.util.spec_from_file_location("amp_lint_setup", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tracked() -> set[str]:
    """The files that git knows and does not ignore, as paths from the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    names = listed.stdout.decode().strip("\0").split("\0")
    return {name for name in names if (ROOT / name).exists()}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the sdist, made of what git tracks, as it is where an address is set."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    project = folder / "pyproject.toml"
    set_ = f'[project.urls]\nRepository = "{ADDRESS}/"\n'
    text = re.sub(
        r"^\[project\.urls\]\n(Repository = .*\n)?", set_, project.read_text(), flags=re.M
    )
    project.write_text(text)
    command = [sys.executable, "-c", BUILD, str(folder / "dist")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (made,) = (folder / "dist").iterdir()
    with tarfile.open(made) as archive:
        files = [member for member in archive if member.isfile()]
        read = {member.name: archive.extractfile(member) for member in files}
        return {name.partition("/")[2]: file.read() for name, file in read.items() if file}


def test_the_sdist_has_every_file(sdist: dict[str, bytes]) -> None:
    assert tracked() - sdist.keys() == set(), "see MANIFEST.in"
    assert [n for n in sdist.keys() - tracked() if not GENERATED.fullmatch(n)] == []


class _Targets(HTMLParser):
    """The links and pictures of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, v) for name, v in attrs if name in ("href", "src") and v is not None]


def test_on_the_package_index_links_and_pictures_lead_to_the_repository(
    sdist: dict[str, bytes],
) -> None:
    about = email.parser.BytesParser().parsebytes(sdist["PKG-INFO"])
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_all("Project-URL") == [f"Repository, {ADDRESS}/"]
    page = markdown.render(sdist["PKG-INFO"].decode().partition("\n\n")[2])
    assert page is not None, "the index could not show it"
    targets = _Targets(page).found
    assert {tag for tag, _ in targets} == {"a", "img"}
    for tag, target in targets:
        way = f"{ADDRESS}/{'raw' if tag == 'img' else 'blob'}/HEAD/"
        assert target.startswith(("https://", "#")), target
        file = target.partition("#")[0].removeprefix(way)
        assert not target.startswith(ADDRESS) or (ROOT / file).is_file(), target


def test_the_address_stands_in_one_place(setup_py: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert setup_py.published(readme, "") == readme
    bare = '[project]\nname = "x"\n'
    assert setup_py.repository(bare) == ""
    urls = f'[project.urls]\nRepository = "{ADDRESS}/"\n'
    assert setup_py.repository(bare + urls) == ADDRESS


def test_what_is_no_relative_link_stays(setup_py: ModuleType) -> None:
    kept = "[a](https://x.example/y) [b](#part) [c]: d\n\n```py\nx[0](path)\n```\n"
    assert setup_py.published(kept, ADDRESS) == kept
    made = setup_py.published("[a](b/c.md#d) ![e](f.svg)", ADDRESS)
    assert made == f"[a]({ADDRESS}/blob/HEAD/b/c.md#d) ![e]({ADDRESS}/raw/HEAD/f.svg)"
