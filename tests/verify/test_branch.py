"""``amp-lint verify --before-ref``: what a branch changes, as the comment of a review."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint.verify import markdown
from amp_lint.verify.proof import Failure, Hunk, Judgement, Proof, Shown, Verdict
from amp_lint.verify.record import Entry
from tests.checkouts import git
from tests.conftest import Result

Run = Callable[..., Result]
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
LOSS = "import torch\n\n\ndef loss(x):\n    return torch.log(torch.softmax(x, 1))\n"
QUICK = ("--mode=eager", "--dtype=float32", "--examples=5", "--device=cpu")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    git("init")
    Path("sub").mkdir()
    Path("sub/a b.py").write_text(LOSS)
    Path("sub/moved.py").write_text("y = 1\n" * 20 + LOSS)
    Path("plain.py").write_text("x = 1\n")
    git("add", "-A")
    git("commit", "-m", "old")
    git("tag", "start")


def change(path: str, old: str, new: str) -> None:
    Path(path).write_text(Path(path).read_text().replace(old, new))


def test_each_hunk_of_a_branch_is_judged(quick: Run, checkout: None) -> None:
    """Renamed files, too; new files and those without AMP are left out."""
    change("sub/a b.py", "torch.log(torch.softmax(x, 1))", "torch.log_softmax(x, 1)")
    git("mv", "sub/moved.py", "moved | file.py")
    change("moved | file.py", "softmax(x, 1)", "softmax(x, 0)")
    change("plain.py", "1", "2")
    Path("new.py").write_text("import torch\n\nscaler = torch.cuda.amp.GradScaler()\n")
    git("add", "-A")
    git("commit", "-m", "new")
    done = quick("verify", "--before-ref", "start", *QUICK)
    assert done.code == 1
    assert done.out.startswith(f"{markdown.TITLE}\n\n**`moved \\| file.py`**: ❌ refuted\n")
    assert "**`sub/a b.py`**: ✅ proven\n" in done.out
    assert "| 5 | ✅ proven | " in done.out and "| 25 | ❌ refuted | " in done.out
    assert "plain.py" not in done.out and "new.py" not in done.out
    assert "2 files against start" in done.err


def test_what_is_not_committed_counts_and_paths_choose(quick: Run, checkout: None) -> None:
    change("sub/a b.py", "torch.log(torch.softmax(x, 1))", "torch.log_softmax(x, 1)")
    done = quick("verify", "--before-ref", "HEAD", "plain.py", *QUICK)
    assert (done.code, done.out) == (0, f"{markdown.TITLE}\n\n{markdown.NOTHING}\n")
    done = quick("verify", "--before-ref", "HEAD", "sub", *QUICK, "--output-format", "json")
    (entry,) = json.loads(done.out)["entries"]
    assert (done.code, entry["place"], entry["proof"]["verdict"]) == (0, "sub/a b.py", "proven")


def test_what_cannot_be_asked_is_one_line(quick: Run, checkout: None, tmp_path: Path) -> None:
    for arguments, said in (
        (["gone"], "--before-ref: git knows no commit 'gone' here"),
        (["HEAD", "AMP101"], "--before-ref takes files and folders, and no rules"),
        (["HEAD", "--before=plain.py", "--after=plain.py"], "--before-ref takes files"),
    ):
        done = quick("verify", "--before-ref", *arguments)
        assert done.code == 2 and not done.out
        assert said in done.err and done.err.count("\n") == 1
    change("sub/a b.py", "import", "\0")
    done = quick("verify", "--before-ref", "HEAD", *QUICK)
    assert done.code == 2 and "error: sub/a b.py: " in done.err


def test_text_stays_text() -> None:
    """Tags, bars and lone backticks of somebody's code do not become part of the page."""
    wrong = Failure("value", "`<b>` is <b> | `", "")
    judged = Shown("expression", "f", 1, 1, "", "", Judgement(Verdict.REFUTED, "", after=wrong))
    hunk = Hunk(1, 2, 1, 0, Verdict.NOT_COMPARABLE, "unowned", "a < `b < c`")
    proof = Proof(Verdict.REFUTED, (judged,), (), None, "", "", hunks=(hunk,))
    text = markdown.comment([Entry("", "change", "a`b.py", proof)], None, 0.0)
    assert "**`` a`b.py ``**: ❌ refuted" in text
    assert r"* \`&lt;b&gt;\` is &lt;b&gt; \| \`" in text
    assert "| 1 to 2 (gone) | ❔ not comparable | a &lt; `b < c` (`unowned`) |" in text
