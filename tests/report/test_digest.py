"""What people see of a run: in which order, and deprecations in one line for each file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from amp_lint.report import Finding, Style, digest, renderer
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from amp_lint.text.source import Source
from tests.conftest import Result

Run = Callable[..., Result]
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
SOURCES = {name: Source(b"x\n" * 99, name) for name in ("a.py", "b.py", "c.py")}
CONCISE = ("--output-format=concise", "--quiet")


def finding(
    row: int, severity: Severity = WARNING, name: str = "a.py", old: str = "", code: str = "AMP101"
) -> Finding:
    start = 2 * row - 2
    fix = Fix("Do it", (Edit(start, start, "y"),), Applicability.SAFE)
    found = Diagnostic(code, "rule", severity, "wrong", start, start + 1, (), fix, deprecated=old)
    return Finding(SOURCES[name], found)


def use(row: int, name: str = "a.py", old: str = "torch.old", code: str = "AMP401") -> Finding:
    return finding(row, WARNING, name, old, code)


def folded(*findings: Finding, asked: bool = False) -> list[str]:
    """The lines of the concise format."""
    digested = [*digest.folded(findings, lambda _: asked)]
    return "".join(renderer("concise")(digested, Style())).splitlines()


# --- order ----------------------------------------------------------------------------------------


def order(*findings: Finding) -> list[Finding]:
    return digest.ordered(findings)


def test_the_worst_comes_last() -> None:
    ruins, loses, old, note = finding(1, ERROR), finding(2), use(3), finding(4, INFO)
    assert order(ruins, loses, old, note) == [note, old, loses, ruins]


def test_what_is_as_bad_keeps_its_order() -> None:
    findings = [finding(row, ERROR) for row in (1, 5, 9)]
    assert order(*findings) == findings


def test_files_stay_together_and_those_with_the_worst_come_last() -> None:
    ruined = [finding(1, INFO, "a.py"), finding(2, ERROR, "a.py")]
    fine, old = finding(1, INFO, "b.py"), use(1, "c.py")
    assert order(*ruined, fine, old) == [fine, old, *ruined]


def test_files_alike_keep_their_order() -> None:
    one, other = finding(1, ERROR, "b.py"), finding(1, ERROR, "a.py")
    assert order(one, other) == [one, other]


# --- folding --------------------------------------------------------------------------------------


def test_uses_in_one_file_are_one_line() -> None:
    assert folded(use(3), finding(4, ERROR), use(9)) == [
        "a.py:3:1: AMP401 [*] warning: 2 uses of `torch.old` are deprecated (lines 3, 9); "
        "show them with `--show-all`",
        "a.py:4:1: AMP101 [*] error: wrong",
    ]


def test_dots_stand_for_more_lines() -> None:
    (line,) = folded(*map(use, (1, 1, 3, 5, 7, 9)))
    assert "6 uses of `torch.old` are deprecated (lines 1, 3, 5, 7, ...); " in line
    (line,) = folded(use(2), use(2))
    assert "(line 2)" in line


def test_two_modules() -> None:
    (line,) = folded(use(1, old="torch.older"), use(2))
    assert "2 uses of `torch.old` and `torch.older` are deprecated" in line


def test_a_single_use_says_what_it_is() -> None:
    assert folded(use(1), use(1, "b.py"), use(2, code="AMP402")) == [
        "a.py:1:1: AMP401 [*] warning: wrong",
        "b.py:1:1: AMP401 [*] warning: wrong",
        "a.py:2:1: AMP402 [*] warning: wrong",
    ]


def test_what_is_asked_for_is_shown() -> None:
    assert len(folded(use(1), use(2), asked=True)) == 2


def test_a_fold_is_marked_if_one_use_is_fixable() -> None:
    unfixable = use(2)
    unfixable = replace(unfixable, diagnostic=replace(unfixable.diagnostic, fix=None))
    assert "[*]" in folded(use(1), unfixable)[0]
    assert "[*]" not in folded(unfixable, unfixable)[0]


def test_lines_of_several_files_stand_together() -> None:
    folds = [*digest.folded([use(3), finding(4, ERROR), use(1, "b.py"), use(2, "c.py")], no)]
    text = "".join(renderer("full")([*folds, folds[1]], Style()))
    assert re.search(r"\nb\.py.*\nc\.py.*\n\n", text)
    assert text.startswith("a.py:3:1: AMP401 [*] warning: wrong\n\n")


def no(_: Finding) -> bool:
    return False


def test_a_fold_in_the_full_format() -> None:
    fold = [*digest.folded([use(3), use(9)], lambda _: False)]
    (line,) = folded(use(3), use(9))
    assert "".join(renderer("full")(fold, Style())) == f"{line}\n\n"
    style = Style(color=True, width=60, wrap=True)
    lines = re.sub(r"\033\[[\d;]*m", "", "".join(renderer("full")(fold, style))).splitlines()
    assert lines == [
        "a.py:3:1: AMP401 [*] warning: 2 uses of `torch.old` are",
        "  deprecated (lines 3, 9); show them with `--show-all`",
        "",
    ]


# --- on the command line --------------------------------------------------------------------------

OLD = """\
import torch
from torch.cuda.amp import GradScaler, autocast


def train(model, optimizer, loader):
    scaler = GradScaler()
    for x in loader:
        with autocast():
            loss = model(x).sum()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
FOLD = "a.py:6:14: AMP401 [*] warning: 2 uses of `torch.cuda.amp` are deprecated (lines 6, 8); "
CLIP = "a.py:11:9: AMP101 [*] error: "


@pytest.fixture
def old(main: Run) -> Run:
    """Runs amp-lint where a file has two deprecations above an error."""
    Path("a.py").write_text(OLD)
    return main


def test_deprecations_are_folded(old: Run) -> None:
    fold, clip = old(*CONCISE).out.splitlines()
    assert fold.startswith(FOLD)
    assert clip.startswith(CLIP)
    first, _, title, *_ = old().out.splitlines()
    assert first == fold
    assert title == "AMP101 [*] error: clip-before-unscale"


def test_the_summary_counts_what_is_folded(old: Run) -> None:
    *_, found, fixable = old().out.splitlines()
    assert found == "Found 3 errors: 1 ruins the run, 2 deprecations."
    assert fixable == "[*] 3 fixable with `--fix`."


@pytest.mark.parametrize("options", [(), ("--select=ALL",), ("--select=AMP",), ("--ignore=AMP3",)])
def test_not_asked_for(old: Run, options: tuple[str, ...]) -> None:
    assert old(*CONCISE, *options).out.startswith(FOLD)


ASKED = [
    ("--show-all",),
    ("--select=AMP4",),
    ("--select=AMP401,AMP101",),
    ("--select", "deprecated-cuda-amp"),
    ("--extend-select=AMP401",),
    ("--select=ALL", "--extend-select=AMP4"),
]


@pytest.mark.parametrize("options", ASKED, ids=" ".join)
def test_asked_for(old: Run, options: tuple[str, ...]) -> None:
    lines = old(*CONCISE, *options).out.splitlines()
    assert [line.split(": ")[0] for line in lines if "AMP401" in line] == ["a.py:6:14", "a.py:8:14"]


@pytest.mark.parametrize("key", ["select", "extend-select"])
def test_asked_for_in_the_settings(old: Run, key: str) -> None:
    Path("pyproject.toml").write_text(f'[tool.amp-lint]\n{key} = ["AMP4", "AMP1"]\n')
    assert old(*CONCISE).out.count("AMP401") == 2
    assert old(*CONCISE, "--isolated").out.startswith(FOLD)
    assert old(*CONCISE, "--select=ALL").out.startswith(FOLD)


def test_settings_count_for_their_own_files(old: Run) -> None:
    Path("sub").mkdir()
    Path("sub/b.py").write_text(OLD)
    Path("sub/pyproject.toml").write_text('[tool.amp-lint]\nselect = ["AMP401"]\n')
    lines = old(*CONCISE).out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "sub/b.py:6:14", "sub/b.py:8:14", "a.py:6:14", "a.py:11:9"
    ]  # fmt: skip


def test_stdin(old: Run, amp_lint: Run) -> None:
    assert amp_lint(*CONCISE, "-", stdin=OLD).out.startswith(FOLD.replace("a.py", "-"))
    assert amp_lint(*CONCISE, "-", "--show-all", stdin=OLD).out.count("AMP401") == 2


def test_formats_for_programs_are_in_order_of_place_and_complete(old: Run) -> None:
    codes = ["AMP401", "AMP401", "AMP101"]
    assert [found["code"] for found in json.loads(old("--output-format=json").out)] == codes
    assert re.findall(r"::a.py:\S+ (\w+)", old("--output-format=github").out) == codes
    first, *_ = old("--statistics").out.splitlines()
    assert first == "2\tAMP401\t[*] deprecated-cuda-amp"


def test_a_fold_is_fixed_like_its_findings(old: Run) -> None:
    done = old("--fix")
    assert done.out == "Found 3 errors (3 fixed, 0 remaining).\n"
    assert "torch.cuda" not in Path("a.py").read_text()
