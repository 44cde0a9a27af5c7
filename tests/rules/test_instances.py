"""Which places enter the same autocast object."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.autocast._instances import Instances
else:
    from amp_lint.rules.autocast._instances import Instances

HEADER = """\
import contextlib
import torch
from torch.amp import autocast
"""


def reentries(text: str) -> list[tuple[str, str, int]]:
    """The inner context, the outer one, and the number of calls between, for each reentry."""
    found = model_of(HEADER + textwrap.dedent(text))
    source = found.tree.source
    return [
        (source(each.inner.context), source(each.outer.context), len(each.chain.calls))
        for each in found.part(Instances).reentries
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = autocast('cuda')\nwith a:\n    with a:\n        pass", [("a", "a", 0)]),
        ("a = autocast('cuda')\nwith a:\n    pass\nwith a:\n    pass", []),
        ("a = autocast('cuda')\nb = autocast('cuda')\nwith a:\n    with b:\n        pass", []),
        ("a = autocast('cuda')\nb = a\nwith a:\n    with b:\n        pass", [("b", "a", 0)]),
        (
            "if c:\n    a = autocast('cuda')\nelse:\n    a = None\nwith a:\n    with a: pass",
            [("a", "a", 0)],
        ),
        (
            "a = autocast('cuda')\nif c:\n    a = autocast('cpu')\nwith a:\n    with a: pass",
            [],
        ),
        ("a = autocast('cuda', enabled=False)\nwith a:\n    with a:\n        pass", []),
        (
            """
            a = autocast("cuda")
            def f():
                with a:
                    pass
            def g():
                f()
            with a:
                g()
            """,
            [("a", "a", 2)],
        ),
        (
            """
            @autocast("cuda")
            def f(n):
                return f(n - 1)
            """,
            [('autocast("cuda")', 'autocast("cuda")', 1)],
        ),
        (
            """
            @autocast("cuda")
            def f(n):
                return g(n)
            def g(n):
                return f(n - 1)
            """,
            [('autocast("cuda")', 'autocast("cuda")', 2)],
        ),
        (
            """
            @contextlib.contextmanager
            def amp():
                with autocast("cuda"):
                    yield
            @amp()
            def f(n):
                return f(n - 1)
            @accelerator.autocast()
            def g(n):
                return g(n - 1)
            """,
            [],
        ),
        (
            """
            def amp():
                return autocast("cuda")
            with amp():
                with amp():
                    pass
            """,
            [],
        ),
        (
            """
            def f(n):
                a = autocast("cuda")
                with a:
                    f(n - 1)
            """,
            [],
        ),
        (
            """
            class A:
                def __init__(self):
                    self.ctx = autocast("cuda")
                def f(self):
                    with self.ctx:
                        pass
                def g(self):
                    with self.ctx:
                        self.f()
            """,
            [("self.ctx", "self.ctx", 1)],
        ),
        (
            """
            class A:
                def __init__(self):
                    self.ctx = autocast("cuda")
                    self.other = A()
                def f(self):
                    with self.ctx:
                        pass
                def g(self):
                    with self.ctx:
                        self.other.f()
            """,
            [],
        ),
        (
            """
            class A:
                @property
                def ctx(self):
                    return autocast("cuda")
                def f(self):
                    with self.ctx:
                        with self.ctx:
                            pass
            """,
            [],
        ),
        (
            """
            class A:
                def __init__(self):
                    self.ctx = autocast("cuda")
                def set(self):
                    self.ctx = autocast("cuda")
                def f(self):
                    with self.ctx:
                        self.set()
                        with self.ctx:
                            pass
            """,
            [],
        ),
    ],
)
def test_reentries(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert reentries(text) == expected
