"""What the engine promises of every rule: rounds, refusals, suppression."""

from __future__ import annotations

import pytest

from amp_lint import engine, registry, runner
from amp_lint.rule import Applicability, Diagnostic, Edit, Fix, Rule, Severity
from amp_lint.source import Source

ALL = engine.Selection(registry.all_rules())


def source(text: str) -> Source:
    return Source(text.encode(), "train.py")


def test_findings_come_in_order_of_place() -> None:
    text = (
        "import torch\n"
        "with torch.cuda.amp.autocast():\n"
        "    loss = torch.log(torch.softmax(x, -1))\n"
        "    loss.backward()\n"
    )
    found = engine.check(source(text), ALL)
    assert [finding.code for finding in found] == ["AMP401", "AMP301", "AMP201"]


def test_a_suppressed_use_is_not_rewritten_by_the_fix_of_another() -> None:
    text = (
        "from torch.cuda.amp import autocast\n"
        "with autocast():  # noqa: AMP401\n"
        "    pass\n"
        "with autocast():\n"
        "    pass\n"
    )
    (finding,) = engine.check(source(text), ALL)
    assert finding.fix is None
    assert engine.fix(source(text), ALL).text == text


def test_noqa_can_be_ignored() -> None:
    text = "import torch\nwith torch.cuda.amp.autocast():  # noqa\n    pass\n"
    assert engine.check(source(text), ALL) == []
    everything = engine.Selection(registry.all_rules(), noqa=False)
    assert [f.code for f in engine.check(source(text), everything)] == ["AMP401"]


def test_a_named_file_must_be_python() -> None:
    (finding,) = engine.check(source("x = (\n"), ALL, named=True)
    assert finding.code == "AMP900"
    assert engine.check(source("x = (\n"), ALL) == []


class _Rename(Rule):
    """Replaces each use of ``old`` by what a test says."""

    code = "AMP999"
    name = "toy"
    severity = Severity.ERROR
    requires = (frozenset({"old"}),)

    def __init__(self, content: str) -> None:
        self.content = content

    def check(self, model: object) -> list[Diagnostic]:
        text = model.tree.text  # type: ignore[attr-defined]
        starts = [i for i in range(len(text)) if text.startswith("old", i)]
        return [
            Diagnostic(
                self.code, self.name, self.severity, "toy", at, at + 3,
                fix=Fix("toy", (Edit(at, at + 3, self.content),), Applicability.SAFE),
            )
            for at in starts
        ]  # fmt: skip


@pytest.mark.parametrize("content", ["(", "old", "'"])
def test_a_fix_that_fails_is_dropped_and_the_text_stays(content: str) -> None:
    text = "x = old\ny = old\n"
    result = engine.fix(source(text), engine.Selection((_Rename(content),)))
    assert result.text == text
    assert result.fixed == []
    assert result.dropped


class _Other(_Rename):
    """Finds what the other rule writes."""

    code = "AMP997"
    name = "other"
    requires = (frozenset({"old", "new"}),)

    def __init__(self, severity: Severity) -> None:
        self.found = severity

    def check(self, model: object) -> list[Diagnostic]:
        at = model.tree.text.find("new")  # type: ignore[attr-defined]
        return [Diagnostic(self.code, self.name, self.found, "toy", at, at + 3)] * (at >= 0)


@pytest.mark.parametrize("severity", Severity)
def test_what_a_fix_brings_out_must_be_less_severe(severity: Severity) -> None:
    rules = (_Rename("new"), _Other(severity))
    result = engine.fix(source("x = old\n"), engine.Selection(rules))
    less = severity is not _Rename.severity
    assert _Rename.severity is Severity.ERROR
    assert result.text == ("x = new\n" if less else "x = old\n")
    assert [finding.code for finding in result.remaining] == ["AMP997" if less else _Rename.code]
    assert bool(result.dropped) is not less


def test_a_fix_may_bring_out_what_an_error_hid() -> None:
    text = (
        "import torch\n"
        "with torch.cuda.amp.autocast:\n"
        "    loss = model(x).sum()\n"
        "    loss.backward()\n"
    )
    result = engine.fix(source(text), ALL)
    assert [finding.code for finding in result.fixed] == ["AMP207", "AMP401", "AMP201"]
    assert not result.remaining and not result.dropped


def test_rounds_go_on_until_nothing_is_left() -> None:
    result = engine.fix(source("x = old\ny = old\n"), engine.Selection((_Rename("new"),)))
    assert result.text == "x = new\ny = new\n"
    assert len(result.fixed) == 2
    assert result.remaining == []


def test_ctrl_c_that_became_another_error_is_still_one(
    clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **options: object) -> list[Diagnostic]:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("in a library") from error

    monkeypatch.setattr(engine, "check", interrupted)
    job = runner.Job("a.py", clip.encode(), named=True, selection=ALL)
    with pytest.raises(KeyboardInterrupt):
        runner.lint(job)
