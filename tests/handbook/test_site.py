"""The web site: what it is made of, that its links lead somewhere, and how a browser shows it."""

from __future__ import annotations

import functools
import html
import re
import runpy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from amp_lint import registry
from amp_lint.handbook import pages
from amp_lint.handbook.uncovered import CAUSES
from tests.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

pytest.importorskip("mkdocs")

from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]
HOOKS = runpy.run_path(str(ROOT / "site" / "hooks.py"))


def test_the_menu_leads_to_pages() -> None:
    for path in (*HOOKS["_GUIDES"].values(), *HOOKS["_PROJECT"].values()):
        assert path == "messages/index.md" or (ROOT / path).is_file(), path
    assert all((ROOT / HOOKS["page_of"](rule)).is_file() for rule in registry.every_rule())


def test_each_message_has_a_page_with_all_that_is_about_it() -> None:
    made = dict(HOOKS["messages"]())
    texts = {text for cause in CAUSES for text in cause.messages}
    for rule in registry.every_rule():
        for symptom in pages.parse(registry.page(rule)).symptoms:
            if symptom.message:
                texts.add(symptom.text)
                assert f"[{rule.code} " in made[HOOKS["_path"](symptom.text)]
    assert len(made) == len(texts) + 1, "two messages have one path"
    assert made["messages/index.md"].count("\n* [") == len(texts)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built so that a link to nowhere is an error."""
    folder = tmp_path_factory.mktemp("site")
    made = load_config(str(ROOT / "site" / "mkdocs.yml"), site_dir=str(folder), strict=True)
    build(made)
    return folder


def test_no_fence_is_read_as_text(site: Path) -> None:
    """A fence whose mark is not understood makes code of the text behind it."""
    shown = 0
    for path in site.glob("rules/**/index.html"):
        text = html.unescape(re.sub(r"<[^>]+>", "", path.read_text("utf-8")))
        assert "```py" not in text, path
        shown += text.count("a wrong fix")
    assert shown > 200


SIZES: tuple[ViewportSize, ...] = ({"width": 1280, "height": 900}, {"width": 390, "height": 844})
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGES = ("", "docs/rules/", "docs/proofs/", "docs/beyond/", "messages/", "benchmarks/")
RULE = "rules/protocol/clip_before_unscale/"


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Where the site is found as long as it is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_browser_shows_the_site(site: Path) -> None:
    """On a desk in light, on a phone in dark: nothing missing, nothing beyond the edge."""
    with served(site) as address, chromium() as browser:
        for size, scheme in zip(SIZES, SCHEMES, strict=True):
            with browser.new_context(viewport=size, color_scheme=scheme) as context:
                look_at(context.new_page(), address, scheme)


def look_at(page: Page, address: str, scheme: str) -> None:
    page.set_default_timeout(120_000)  # of a busy machine
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(f"console: {said.text}"))
    page.on("response", lambda got: wrong.append(got.url) if got.status >= 400 else None)
    page.on("request", lambda it: None if it.url.startswith(address) else wrong.append(it.url))
    for name in (*PAGES, RULE):
        page.goto(address + name, wait_until="load")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert page.evaluate(ALL_PICTURES), name
        assert (brightness(page, "body") > 128) is (scheme == "light"), name
    assert not wrong
    search(page, "clipped before unscale_")


ALL_PICTURES = "[...document.images].every(each => each.complete && each.naturalWidth > 0)"


def brightness(page: Page, selector: str) -> float:
    """Of what is behind an element, from 0 to 255."""
    style = f"getComputedStyle(document.querySelector('{selector}'))"
    colour = page.evaluate(f"{style}.backgroundColor")
    parts = [float(each) for each in re.findall(r"[\d.]+", colour)[:3]]
    return sum(parts) / len(parts)


def search(page: Page, words: str) -> None:
    """Look for words as somebody would, and follow what is found."""
    if not page.is_visible(".md-search__input"):
        page.click("label.md-header__button[for=__search]")
    page.fill(".md-search__input", words)
    page.wait_for_selector(".md-search-result__link")
    found = page.eval_on_selector_all(".md-search-result__link", "all => all.map(it => it.href)")
    assert any(RULE in each for each in found), found
