"""What is said of the pages is what a reviewer has seen."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import golden
import pytest
from golden import GOLDEN


def test_pages() -> None:
    """Where a difference is meant: ``python benchmarks/golden.py --update``, in the same commit."""
    before = GOLDEN.read_text("utf-8").splitlines()
    now = "".join(golden.of_pages()).splitlines()
    assert "\n".join(difflib.unified_diff(before, now, "golden.txt", "now", lineterm="")) == ""


def test_a_folder_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same, then another fix: a diff that names it, and exit status 1."""
    code = "import torch\ns = torch.cuda.amp.GradScaler({})\n"
    (tmp_path / "a.py").write_text(code.format(""))
    record = tmp_path / "record.txt"

    def run(*options: str) -> int:
        monkeypatch.setattr(sys, "argv", ["golden.py", *options, str(tmp_path)])
        return golden.main()

    assert run(f"--record={record}") == 0
    assert run(f"--against={record}") == 0
    assert not capsys.readouterr().out
    (tmp_path / "a.py").write_text(code.format("init_scale=4.0"))
    assert run(f"--against={record}") == 1
    changed = capsys.readouterr().out
    assert '-    +s = torch.amp.GradScaler("cuda")\n' in changed
    assert '+    +s = torch.amp.GradScaler("cuda", init_scale=4.0)\n' in changed
