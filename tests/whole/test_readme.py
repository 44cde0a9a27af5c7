"""README.md and docs/ are true: commands print what is shown, tables and settings are complete."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import proofs
import pytest
import rule_tables
from marked import updated

from amp_lint import registry
from amp_lint.run import settings_file
from amp_lint.run.choice import Choice
from amp_lint.verify import record

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {p: p.read_text(encoding="utf-8") for p in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}
WORDS = 1900
"""What a newcomer reads before the tool is run has an end."""
OMITTED = "[...]"
"""Stands in a shown output for any number of lines."""


@dataclass(frozen=True)
class Shown:
    """A command of a page and the output that stands below it."""

    command: str
    output: tuple[str, ...]


def fences(language: str, text: str = README) -> list[str]:
    """The blocks of code in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(block: str) -> Iterator[Shown]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *output = part.splitlines()
        yield Shown(command, tuple(output))


CONSOLE = [
    shown
    for text in PAGES.values()
    for block in fences("console", text)
    for shown in commands(block)
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another place with examples, where commands may change them."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def run(command: str, folder: Path) -> list[str]:
    """The lines that a command prints, whichever way it ends."""
    program, *arguments = shlex.split(command)
    module = program.replace("-", "_")
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return done.stdout.splitlines()


def shows(shown: Sequence[str], output: Sequence[str]) -> bool:
    """Whether the lines of ``output`` are those shown, but for what is omitted."""
    lines = (r"(.*\n)*" if line == OMITTED else re.escape(line) + "\n" for line in shown)
    return bool(re.fullmatch("".join(lines), "".join(f"{line}\n" for line in output)))


@pytest.mark.parametrize("shown", CONSOLE, ids=[shown.command for shown in CONSOLE])
def test_commands_print_what_is_shown(shown: Shown, checkout: Path) -> None:
    if "--fix" in shown.command:  # the later commands want them broken
        checkout = Path(shutil.copytree(checkout, checkout.with_name("fixed")))
    output = run(shown.command, checkout)
    assert shows(shown.output, output), "\n".join(output)


def test_shown_outputs_are_compared() -> None:
    output = ["one", "two", "three"]
    assert shows(["one", OMITTED, "three"], output)
    assert shows([OMITTED, "two", OMITTED], output)
    for wrong in (["one"], ["one", OMITTED, "two"], [OMITTED, "hree"], [], ["on", "two"]):
        assert not shows(wrong, output)


def test_there_are_two_lines_to_install() -> None:
    lines = re.findall(r"^pip install .*", README, re.MULTILINE)
    assert lines == [
        "pip install . && amp-lint examples/",
        'pip install -e ".[test]" && pytest -n auto --dist=loadfile',
    ]
    assert [f"{line}\n" for line in lines] == fences("sh")


def test_the_table_has_every_rule() -> None:
    """`python benchmarks/rule_tables.py --update docs/rules.md` writes it."""
    page = PAGES[ROOT / "docs" / "rules.md"]
    text = rule_tables.tables(registry.every_rule())
    assert updated(page, rule_tables.BEGIN, rule_tables.END, text) == page
    codes = re.findall(r"^\| \[(AMP\d+)\]", text, re.MULTILINE)
    assert sorted(codes) == [rule.code for rule in registry.every_rule()]


def test_the_readme_names_every_family() -> None:
    named = re.findall(r"^\| (AMP\d)xx \|", README, re.MULTILINE)
    assert named == sorted({rule.code[:4] for rule in registry.every_rule()})


def shown_settings(text: str, folder: Path) -> tuple[list[str], Choice]:
    """The keys of the only table of settings in a page, and what is read of it."""
    (table,) = fences("toml", text)
    path = folder / "pyproject.toml"
    path.write_text(table)
    loaded = settings_file.load(path)
    assert loaded is not None
    return re.findall(r"^([\w-]+) = ", table, re.MULTILINE), loaded


def test_all_settings_are_shown(tmp_path: Path) -> None:
    keys, loaded = shown_settings(PAGES[ROOT / "docs" / "settings.md"], tmp_path)
    assert sorted(keys) == sorted(settings_file.KEYS)
    assert loaded.target_torch == (2, 3)


def test_the_readme_shows_some_settings(tmp_path: Path) -> None:
    keys, loaded = shown_settings(README, tmp_path)
    assert keys and {*keys} < {*settings_file.KEYS}
    assert loaded.target_torch == (2, 3)


def test_hooks_exist() -> None:
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text()
    offered = set(re.findall(r"^- id: (\S+)$", hooks, re.MULTILINE))
    assert set(re.findall(r"amp-lint-fix|(?<=id: )\S+", "".join(fences("yaml")))) == offered


@pytest.mark.parametrize(
    "page",
    (*PAGES, *ROOT.glob("benchmarks/**/*.md")),
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, part in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text):
        path = page.parent / target if target else page
        assert path.exists(), target
        if part:
            titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert part in {anchor(title) for title in titles}, part


def anchor(title: str) -> str:
    """What GitHub and the site call a section."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def test_every_page_is_linked_from_the_readme() -> None:
    for page in PAGES:
        assert page.name == "README.md" or f"](docs/{page.name})" in README, page.name


def test_the_readme_is_short() -> None:
    assert len(README.split()) < WORDS
    assert len(re.findall(r"!\[", README)) == 1


def test_the_table_of_proofs_is_that_of_the_records() -> None:
    """`python benchmarks/proofs.py benchmarks/records/*.json --update docs/proofs.md` writes it."""
    records = [record.read(path) for path in sorted(ROOT.glob("benchmarks/records/*.json"))]
    page = PAGES[ROOT / "docs" / "proofs.md"]
    assert updated(page, proofs.BEGIN, proofs.END, proofs.table(records)) == page
