"""The beginning of a rule is a rule and a page."""

from __future__ import annotations

import sys
from pathlib import Path

import new_rule
import pytest

from amp_lint.handbook import pages
from amp_lint.rule import Rule


def begin(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    (folder / "scaling").mkdir(exist_ok=True)
    monkeypatch.setattr(sys, "argv", ["new_rule.py", *words, f"--rules={folder}"])
    return new_rule.main()


def test_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert begin(tmp_path, monkeypatch, "AMP199", "forgotten-thing") == 0
    names: dict[str, object] = {"__name__": "forgotten_thing"}
    exec((tmp_path / "scaling/forgotten_thing.py").read_text(), names)
    made = names["ForgottenThing"]
    assert isinstance(made, type) and issubclass(made, Rule)
    assert (made.code, made.name) == ("AMP199", "forgotten-thing")
    page = pages.parse((tmp_path / "scaling/forgotten_thing.md").read_text())
    assert [example.flagged.text for example in page.examples] and page.silent and page.symptoms


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("AMP101", "forgotten-thing"), "AMP101: is taken"),
        (("AMP199", "clip-before-unscale"), "clip-before-unscale: is taken"),
        (("AMP1999", "forgotten-thing"), "a code is AMP116"),
        (("AMP199", "Forgotten"), "a name forgotten-thing"),
        (("AMP199", "forgotten-thing", "--family=other"), "no such family"),
    ],
)
def test_what_is_refused(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=said):
        begin(tmp_path, monkeypatch, *words)
