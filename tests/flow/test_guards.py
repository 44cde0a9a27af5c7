"""AMP401 stays silent where the old API stands for want of the new one, and only there."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint import engine, registry
from amp_lint.selection import Selection
from amp_lint.text.source import Source

RULE = registry.find("AMP401")

FALLBACKS = {
    "version in an if": """
        import torch
        from packaging.version import parse
        if parse(torch.__version__) < parse("2.3"):
            scaler = torch.cuda.amp.GradScaler()
        else:
            scaler = torch.amp.GradScaler("cuda")
    """,
    "conditional expression on an imported flag": """
        import torch
        from project.versions import _TORCH_GREATER_EQUAL_2_4
        scaler = torch.amp.GradScaler() if _TORCH_GREATER_EQUAL_2_4 else torch.cuda.amp.GradScaler()
    """,
    "a helper that compares the versions of packages": """
        import operator
        import torch
        from project.packages import compare_version
        def scaler(**kwargs):
            if compare_version("torch", operator.ge, "2.3"):
                return torch.amp.GradScaler("cuda", **kwargs)
            return torch.cuda.amp.GradScaler(**kwargs)
    """,
    "a helper that compares versions": """
        import torch
        from accelerate.utils import is_torch_version
        def scaler(**kwargs):
            if is_torch_version(">=", "2.3"):
                return torch.amp.GradScaler("cuda", **kwargs)
            return torch.cuda.amp.GradScaler(**kwargs)
    """,
    "a flag computed from the version": """
        import torch
        NEW = tuple(int(x) for x in torch.__version__.split(".")[:2]) >= (2, 4)
        if not NEW:
            scaler = torch.cuda.amp.GradScaler()
    """,
    "an attribute computed from the version": """
        import torch
        class Trainer:
            def __init__(self):
                self.new = torch.__version__ >= "2.4"
                self.scaler = None if self.new else torch.cuda.amp.GradScaler()
    """,
    "a function of this file": """
        import torch
        def has_new_amp():
            return torch.__version__ >= "2.3"
        if not has_new_amp():
            scaler = torch.cuda.amp.GradScaler()
    """,
    "a flag set by an attempt": """
        import torch
        try:
            from torch.amp import GradScaler
            NEW = True
        except ImportError:
            NEW = False
        if not NEW:
            scaler = torch.cuda.amp.GradScaler()
    """,
    "hasattr": """
        import torch
        if hasattr(torch.amp, "GradScaler"):
            scaler = torch.amp.GradScaler("cuda")
        else:
            scaler = torch.cuda.amp.GradScaler()
    """,
    "hasattr, the other way round": """
        import torch
        if not hasattr(torch, "autocast"):
            context = torch.cuda.amp.autocast()
    """,
    "getattr": """
        import torch
        custom_fwd = getattr(torch.amp, "custom_fwd", torch.cuda.amp.custom_fwd)
    """,
    "or": """
        import torch
        GradScaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    """,
    "attempt to import": """
        try:
            from torch.amp import GradScaler
        except ImportError:
            from torch.cuda.amp import GradScaler
        scaler = GradScaler()
    """,
    "attempt to call": """
        import torch
        try:
            scaler = torch.amp.GradScaler(device="cuda")
        except (AttributeError, TypeError):
            scaler = torch.cuda.amp.GradScaler()
    """,
    "attempt to use the old one first": """
        import torch
        try:
            context = torch.cuda.amp.autocast()
        except AttributeError:
            context = torch.autocast("cuda")
    """,
    "import under a version": """
        import torch
        if torch.__version__ >= "2.4":
            from torch.amp import custom_bwd
        else:
            from torch.cuda.amp import custom_bwd
        class F:
            @custom_bwd
            def backward(ctx): ...
    """,
    "alias under a version": """
        from functools import partial
        import torch
        if torch.__version__ >= "2.4":
            cast = partial(torch.amp.autocast, device_type="cuda")
        else:
            cast = torch.cuda.amp.autocast
        with cast(enabled=True):
            pass
    """,
}

FALLBACKS["the arm for older releases than the last without it"] = """
    import torch
    from packaging import version
    from project.versions import is_torch_greater_or_equal_than_1_10
    if is_torch_greater_or_equal_than_1_10:
        context = None
    else:
        context = torch.cuda.amp.autocast()
    if version.parse(torch.__version__) < version.parse("1.10"):
        context = torch.cuda.amp.autocast()
    """

NO_FALLBACKS = {
    "the arm for releases from an old one on": """
        import torch
        from project.versions import is_torch_greater_or_equal_than_1_10
        if is_torch_greater_or_equal_than_1_10:
            context = torch.cuda.amp.autocast(dtype=dtype)  # here
        else:
            context = None
    """,
    "a version before the new API": """
        import torch
        if torch.__version__ >= "1.6":
            from torch.cuda.amp import autocast
        else:
            autocast = None
        with autocast():  # here
            pass
    """,
    "hasattr on the old module": """
        import torch
        if hasattr(torch.cuda.amp, "autocast"):
            context = torch.cuda.amp.autocast()  # here
    """,
    "the version of something else": """
        import torch
        if version == "v2" and torch.version.cuda is not None:
            context = torch.cuda.amp.autocast()  # here
    """,
    "a device": """
        import torch
        if device == "cpu":
            context = torch.amp.autocast("cpu")
        else:
            context = torch.cuda.amp.autocast()  # here
    """,
    "a version that is only demanded": """
        import torch
        if torch.__version__ < "2.4":
            raise RuntimeError("too old")
        context = torch.cuda.amp.autocast()  # here
    """,
    "an attempt at something else": """
        import torch
        try:
            context = torch.cuda.amp.autocast()  # here
        except RuntimeError:
            context = None
    """,
    "a flag of another kind": """
        import torch
        use_amp = torch.cuda.is_available()
        context = torch.cuda.amp.autocast() if use_amp else None  # here
    """,
    "torch from a star import": """
        from project.common import *
        context = torch.cuda.amp.autocast()  # here
    """,
}


def reported(text: str) -> list[int]:
    assert RULE is not None
    source = Source(textwrap.dedent(text).encode(), "guards.py")
    found = engine.check(source, Selection((RULE,)))
    return [source.position(finding.start)[0] for finding in found]


@pytest.mark.parametrize("text", FALLBACKS.values(), ids=FALLBACKS.keys())
def test_fallback_is_silent(text: str) -> None:
    assert reported(text) == []


@pytest.mark.parametrize("text", NO_FALLBACKS.values(), ids=NO_FALLBACKS.keys())
def test_other_branches_are_reported(text: str) -> None:
    lines = textwrap.dedent(text).split("\n")
    assert reported(text) == [row for row, line in enumerate(lines, 1) if "# here" in line]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (None, {"autocast", "GradScaler", "custom_fwd"}),
        ((2, 4), {"autocast", "GradScaler", "custom_fwd"}),
        ((2, 3), {"autocast", "GradScaler"}),
        ((2, 2), {"autocast"}),
        ((1, 10), {"autocast"}),
        ((1, 9), set()),
    ],
)
def test_only_what_the_oldest_torch_can_replace(
    target: tuple[int, int] | None, found: set[str]
) -> None:
    assert RULE is not None
    text = "import torch\n" + "".join(
        f"torch.cuda.amp.{member}()\n" for member in ("autocast", "GradScaler", "custom_fwd")
    )
    source = Source(text.encode(), "target.py")
    findings = engine.check(source, Selection((RULE,), target))
    assert {text[f.start : f.end].rpartition(".")[2] for f in findings} == found


@pytest.mark.parametrize(
    ("use", "lines"),
    [
        ("run(model, x, amp)", [5]),  # what is handed on is changed where it is made
        ("run(model, x, autocast=amp)\n    run(model, amp)", [5]),
        ("with amp():\n        run(model, x)", [6]),
        ("with amp():\n        run(model, x, amp)", [6, 7]),
    ],
)
def test_an_alias_is_reported_once(use: str, lines: list[int]) -> None:
    text = f"""\
import contextlib
import torch

def train(model, x):
    amp = torch.cuda.amp.autocast
    {use}
"""
    assert reported(text) == lines
