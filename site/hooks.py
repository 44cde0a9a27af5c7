"""What mkdocs is given: the repository's pages in their places, one for each message of torch.

A page links to others as it does in the repository, so each keeps its path.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from amp_lint import registry
from amp_lint.handbook import pages
from amp_lint.handbook.pages import Page
from amp_lint.handbook.uncovered import CAUSES
from amp_lint.rule import Rule

ROOT = Path(__file__).parents[1]
_PATTERNS = (
    "*.md", "docs/**/*.md", "docs/img/*", "rules/**/*.md", "benchmarks/**/*.md",
    "LICENSE", "examples/*.py", ".github/**/*.yml",
)  # fmt: skip
_GUIDES = {
    "Start": "README.md",
    "Rules": "docs/rules.md",
    "Messages": "messages/index.md",
    "Run": "docs/running.md",
    "Editors": "docs/editors.md",
    "Beside other tools": "docs/integrations.md",
    "From Python": "docs/api.md",
    "Fleets": "docs/census.md",
    "Settings": "docs/settings.md",
    "Proofs": "docs/proofs.md",
    "What no linter sees": "docs/beyond.md",
    "How it works": "docs/how-it-works.md",
    "How often it is right": "docs/precision.md",
}
_PROJECT = {
    "Measurements": "benchmarks/README.md",
    "Earlier measurements": "benchmarks/history.md",
    "Architecture": "ARCHITECTURE.md",
    "Contributing": "CONTRIBUTING.md",
    "Changelog": "CHANGELOG.md",
}

_MARKED = re.compile(r"^(```py) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")
_TITLES = {
    "fixed": "after the fix",
    "fixed unsafe": "after the fix, which is unsafe",
    "ok": "right as it is",
    "todo": "wrong, and not found",
    "wrong": "a wrong fix",
}


def on_config(config: MkDocsConfig) -> None:
    """Say what the menu has: guides, the rules by family, the project."""
    families: dict[str, list[dict[str, str]]] = defaultdict(list)
    for rule in registry.every_rule():
        families[f"{rule.code[:4]}xx"].append({f"{rule.code} {rule.name}": page_of(rule)})
    guides = [{title: path} for title, path in _GUIDES.items()]
    project = [{title: path} for title, path in _PROJECT.items()]
    config.nav = [*guides, *({name: each} for name, each in families.items()), {"Project": project}]


def on_page_markdown(markdown: str, **_: object) -> str:
    """Say in words what a fence is: the word behind ``py`` that the tests of a page read."""
    return _MARKED.sub(lambda found: f'{found[1]} title="{_title(found[2])}"', markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Give the pages of the repository, not those of ``docs/`` alone, and what the theme has."""
    docs = Path(config.docs_dir)
    kept = [file for file in files if docs not in Path(file.abs_src_path or "").parents]
    paths = sorted({path for pattern in _PATTERNS for path in ROOT.glob(pattern)})
    for path in paths:
        if path.is_file():
            name = path.relative_to(ROOT).as_posix()
            kept.append(File.generated(config, name, abs_src_path=str(path)))
    kept += (File.generated(config, name, content=text) for name, text in messages())
    return Files(kept)


def page_of(rule: Rule) -> str:
    """The path of a rule's page."""
    return type(rule).__module__.split(".", 1)[1].replace(".", "/") + ".md"


def messages() -> Iterator[tuple[str, str]]:
    """A page for each message of torch, found by who searches for it, and their list."""
    told: dict[str, list[str]] = defaultdict(list)
    for rule in registry.every_rule():
        page = pages.parse(registry.page(rule))
        for symptom in page.symptoms:
            if symptom.message:
                told[symptom.text].append(_of_rule(rule, page))
    for cause in CAUSES:
        for text in cause.messages:
            told[text].append(f"{_sentence(cause.cause)}\n\nWhat to do: {cause.fix}.")
    for text, causes in told.items():
        yield _path(text), "\n\n".join([f"# {_code(text)}", *causes]) + "\n"
    lines = (f"* [{_code(text)}]({Path(_path(text)).name})" for text in sorted(told))
    yield "messages/index.md", "# Messages of torch\n\n" + "\n".join(lines) + "\n"


def _title(mark: str) -> str:
    name, _, value = mark.partition("=")
    return f"with {name} = {value}" if value else _TITLES[mark]


def _of_rule(rule: Rule, page: Page) -> str:
    """What a rule's page says first."""
    link = f"[{rule.code} {rule.name}]({posixpath.basename(page_of(rule))})"
    parts = [f"## {link}", _sentence(registry.summary(rule)), page.paragraph("Why it is a bug")]
    if page.examples:
        example = page.examples[0]
        parts.append(f"```py\n{example.flagged.text}```")
        fixed = example.fixed or example.unsafe
        parts += [f"Fixed:\n\n```py\n{fixed.text}```"] if fixed else []
    return _LINK.sub(lambda found: f"]({_moved(found[1], page_of(rule))})", "\n\n".join(parts))


def _moved(link: str, page: str) -> str:
    """A link of a rule's page as it is from a message's."""
    there = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return posixpath.relpath(there, "messages")


def _path(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower().replace("...", " any ")).strip("-")
    return f"messages/{slug[:100].strip('-')}.md"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"
