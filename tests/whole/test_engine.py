"""What the engine promises of every rule: order, suppression."""

from __future__ import annotations

import pytest

from amp_lint import engine, fixing, registry
from amp_lint.run.job import Job, lint
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import Diagnostic
from amp_lint.text.source import Source

ALL = Selection(registry.all_rules())


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
    assert fixing.fix(source(text), ALL).text == text


def test_noqa_can_be_ignored() -> None:
    text = "import torch\nwith torch.cuda.amp.autocast():  # noqa\n    pass\n"
    assert engine.check(source(text), ALL) == []
    everything = Selection(registry.all_rules(), noqa=False)
    assert [f.code for f in engine.check(source(text), everything)] == ["AMP401"]


def test_a_named_file_must_be_python() -> None:
    (finding,) = engine.check(source("x = (\n"), ALL, named=True)
    assert finding.code == "AMP900"
    assert engine.check(source("x = (\n"), ALL) == []


def test_ctrl_c_that_became_another_error_is_still_one(
    clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **options: object) -> list[Diagnostic]:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("in a library") from error

    monkeypatch.setattr(engine, "check", interrupted)
    job = Job("a.py", clip.encode(), named=True, selection=ALL)
    with pytest.raises(KeyboardInterrupt):
        lint(job)


def test_a_module_that_cannot_be_loaded_costs_one_file(
    clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unloadable(*_: object, **__: object) -> None:
        raise ImportError("native.so: failed to map segment from shared object")

    monkeypatch.setattr(engine, "check", unloadable)
    outcome = lint(Job("a.py", clip.encode(), named=True, selection=ALL))
    what = "is not linted, as a module cannot be loaded: native.so: failed to map segment"
    assert outcome.errors == [f"{what} from shared object"]
