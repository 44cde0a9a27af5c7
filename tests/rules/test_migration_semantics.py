"""What AMP401 rewrites means the same to torch as before, and warns no more."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amp_lint import engine, fixing, registry
from amp_lint.edit import edits
from amp_lint.selection import Selection
from amp_lint.text.source import Source

RULE = registry.find("AMP401")
_AUTOCAST = ("_enabled", "fast_dtype", "_cache_enabled", "device")
_SCALER = (
    "_enabled", "_device", "_init_scale", "_growth_factor", "_backoff_factor", "_growth_interval"
)  # fmt: skip


@pytest.fixture(autouse=True)
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without a GPU, CUDA contexts and scalers switch themselves off, and all look alike."""
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *args: True)
    yield
    assert not torch.is_autocast_enabled("cpu")


def migrated(text: str) -> str:
    """The text after safe fixes, in which nothing is left to find."""
    assert RULE is not None
    result = fixing.fix(Source(text.encode(), "snippet.py"), Selection((RULE,)))
    assert result.fixed and not result.remaining and not result.refused
    return result.text


def run(text: str) -> tuple[object, list[type[Warning]]]:
    """What a program leaves in ``subject``, observed, and the categories of its warnings."""
    scope: dict[str, object] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(text, "snippet.py", "exec"), scope)
    return observed(scope["subject"]), [warning.category for warning in caught]


def observed(subject: object) -> object:
    """The attributes that decide what an autocast context or a scaler does."""
    if isinstance(subject, torch.amp.autocast):
        return [getattr(subject, name) for name in _AUTOCAST]
    if isinstance(subject, torch.amp.GradScaler):
        return [getattr(subject, name, None) for name in _SCALER]  # some only when enabled
    return subject


SNIPPETS = {
    "autocast": "import torch\nsubject = torch.cuda.amp.autocast()\n",
    "autocast positional bool": "import torch\nsubject = torch.cuda.amp.autocast(False)\n",
    "autocast positional": (
        "import torch\nsubject = torch.cuda.amp.autocast(True, torch.bfloat16, False)\n"
    ),
    "autocast mixed": (
        "import torch\nsubject = torch.cuda.amp.autocast(True, cache_enabled=False)\n"
    ),
    "autocast keywords": (
        "from torch.cuda.amp import autocast as ac\n"
        "subject = ac(**{'enabled': False, 'cache_enabled': False})\n"
    ),
    "cpu autocast": "import torch.cpu.amp as amp\nsubject = amp.autocast()\n",
    "cpu autocast positional": (
        "import torch\nsubject = torch.cpu.amp.autocast(False, torch.float16)\n"
    ),
    "nested in another dtype": (
        "import torch\n"
        "with torch.autocast('cpu', dtype=torch.float16):\n"
        "    subject = torch.cpu.amp.autocast()\n"
    ),
    "nested in a variable dtype": (
        "import torch\n"
        "dtype = torch.float16\n"
        "with torch.autocast('cpu', dtype=dtype, cache_enabled=False):\n"
        "    subject = torch.cpu.amp.autocast(True)\n"
    ),
    "nested in the same dtype": (
        "import torch\nwith torch.cpu.amp.autocast():\n    subject = torch.cpu.amp.autocast(True)\n"
    ),
    "a forward in another region": (
        "import torch\n"
        "class Head:\n"
        "    def forward(self):\n"
        "        return torch.cpu.amp.autocast()\n"
        "with torch.autocast('cpu', dtype=torch.float16):\n"
        "    subject = Head().forward()\n"
    ),
    "entered": (
        "import torch\n"
        "from torch.cpu import amp\n"
        "with amp.autocast():\n"
        "    subject = (torch.ones(2, 2) @ torch.ones(2, 2)).dtype\n"
    ),
    "decorator": (
        "import torch\n"
        "@torch.cpu.amp.autocast()\n"
        "def product(x):\n"
        "    return x @ x\n"
        "subject = product(torch.ones(2, 2)).dtype\n"
    ),
    "scaler": "from torch.cuda.amp import GradScaler\nsubject = GradScaler()\n",
    "scaler positional": (
        "from torch.cuda import amp\nsubject = amp.GradScaler(1024.0, 3.0, 0.25, 7)\n"
    ),
    "scaler positional switch": (
        "from torch.cuda import amp\nsubject = amp.GradScaler(1024.0, 3.0, 0.25, 7, False)\n"
    ),
    "scaler keywords": (
        "import torch.cuda.amp\n"
        "subject = torch.cuda.amp.GradScaler(growth_interval=7, init_scale=2.0)\n"
    ),
    "cpu scaler": "import torch\nsubject = torch.cpu.amp.GradScaler(8.0)\n",
    "scaler in partial": (
        "from functools import partial\n"
        "from torch.cuda.amp import GradScaler\n"
        "subject = partial(GradScaler, 4.0)(3.0)\n"
    ),
    "scaler under another name": (
        "import torch\nmake = torch.cuda.amp.GradScaler\nsubject = make(16.0)\n"
    ),
    "isinstance": (
        "import torch\n"
        "scaler = torch.cuda.amp.GradScaler()\n"
        "subject = isinstance(scaler, (int, torch.cuda.amp.GradScaler))\n"
    ),
    "custom function": (
        "import torch\n"
        "from torch.cuda.amp import custom_bwd, custom_fwd\n"
        "class Double(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    @custom_fwd(cast_inputs=torch.float32)\n"
        "    def forward(ctx, x):\n"
        "        return 2 * x\n"
        "    @staticmethod\n"
        "    @custom_bwd\n"
        "    def backward(ctx, grad):\n"
        "        return 2 * grad\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "Double.apply(x).sum().backward()\n"
        "subject = x.grad.tolist()\n"
    ),
    "custom function, bare": (
        "import torch\n"
        "class Double(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    @torch.cuda.amp.custom_fwd\n"
        "    def forward(ctx, x):\n"
        "        ctx.seen = (ctx._dtype, ctx._fwd_used_autocast)\n"
        "        return 2 * x\n"
        "    @staticmethod\n"
        "    @torch.cuda.amp.custom_bwd\n"
        "    def backward(ctx, grad):\n"
        "        global subject\n"
        "        subject = ctx.seen\n"
        "        return 2 * grad\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "Double.apply(x).sum().backward()\n"
    ),
}


@pytest.mark.parametrize("text", SNIPPETS.values(), ids=SNIPPETS.keys())
def test_same_meaning(text: str) -> None:
    before, old_warnings = run(text)
    after, new_warnings = run(migrated(text))
    assert after == before
    assert FutureWarning in old_warnings
    assert FutureWarning not in new_warnings


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("torch.cuda.amp.GradScaler(8.0)", "torch.amp.GradScaler(8.0)", id="rename"),
        pytest.param(
            "torch.cpu.amp.autocast(True, torch.bfloat16)",
            "torch.amp.autocast('cpu', True, torch.bfloat16)",
            id="positional",
        ),
        pytest.param(
            "torch.cpu.amp.autocast(False)", "torch.amp.autocast('cpu')", id="switch lost"
        ),
        pytest.param("torch.cuda.amp.autocast()", "torch.amp.autocast('cpu')", id="device"),
    ],
)
def test_wrong_migration_is_noticed(right: str, wrong: str) -> None:
    before, _ = run(f"import torch\nsubject = {right}\n")
    after, _ = run(f"import torch\nsubject = {wrong}\n")
    assert after != before


def test_positional_bool_fails() -> None:
    with pytest.raises(TypeError, match="dtype"):
        run("import torch\nwith torch.amp.autocast('cpu', False):\n    subject = 1\n")


def test_bare_custom_fwd_fails() -> None:
    with pytest.raises(TypeError, match="device_type"):
        run("import torch\n@torch.amp.custom_fwd\ndef subject(ctx, x):\n    return x\n")


# --- no half-migrated file ------------------------------------------------------------------------

IMPORTS = {
    "import torch": "torch.cuda.amp.{}",
    "import torch.cuda.amp": "torch.cuda.amp.{}",
    "import torch.cuda.amp as amp": "amp.{}",
    "from torch.cuda import amp": "amp.{}",
    "from torch.cuda import amp, device_count": "amp.{}",
    "from torch import cuda": "cuda.amp.{}",
    "from torch.cuda.amp import GradScaler, autocast": "{}",
    "from torch.cuda.amp import (\n    GradScaler,  # scales\n    autocast,\n)": "{}",
    "from torch.cuda.amp.autocast_mode import autocast\n"
    "from torch.cuda.amp.grad_scaler import GradScaler, OptState": "{}",
    "from torch.cuda.amp import *": "{}",
    "try:\n    from torch.cuda.amp import *\nexcept ImportError:\n    pass": "{}",
    "try:\n    from torch.cuda.amp import GradScaler, autocast\nfinally:\n    pass": "{}",
    "import torch\namp = torch.cuda.amp": "amp.{}",
    "import torch as t\nautocast = t.cuda.amp.autocast\nGradScaler = t.cuda.amp.GradScaler": "{}",
}
USES = (
    "see(AUTOCAST(False))",
    "see(AUTOCAST())  # noqa: AMP401",
    "see(AUTOCAST(*[True, None]))",
    "see(AUTOCAST(**{'enabled': False}))",
    "see(SCALER(8.0, enabled=True))",
    "see(isinstance(SCALER(), SCALER))",
    "see(isinstance(SCALER(), SCALER))  # noqa",
    "see(type(SCALER()) is SCALER)  # noqa",
    "makers = [AUTOCAST]\nsee(makers[0](False))",
    "cast = AUTOCAST\nsee(cast(True, None, False))",
    "def typed(scaler: SCALER, other: 'SCALER | None' = None) -> SCALER:\n    see(SCALER)",
    "from functools import partial\nsee(partial(SCALER, 4.0)(3.0))",
    "class Scaler(SCALER):\n    pass\nsee(Scaler(4.0))",
    "def shadowed(autocast, GradScaler, amp):\n    return autocast(False), GradScaler(1.0), amp",
    "def local():\n    from torch.cuda.amp import autocast\n    see(autocast(False))\nlocal()",
    "@AUTOCAST(enabled=False)\ndef decorated():\n    see(torch.is_autocast_enabled('cuda'))\n"
    "decorated()",
)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Uses of the old API under one form of import, with and without ``import torch``."""
    imports = draw(st.sampled_from(sorted(IMPORTS)))
    uses = draw(st.lists(st.sampled_from(USES), min_size=1, max_size=5, unique=True))
    body = "\n".join(uses)
    for word, member in (("AUTOCAST", "autocast"), ("SCALER", "GradScaler")):
        body = body.replace(word, IMPORTS[imports].format(member))
    with_torch = "torch." in body or draw(st.booleans())
    return ("import torch\n" if with_torch else "") + f"{imports}\n{body}\n"


def seen(text: str) -> list[object]:
    """What a program passes to ``see``."""
    subjects: list[object] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(text, "program.py", "exec")
        exec(code, {"see": lambda subject: subjects.append(observed(subject))})
    return subjects


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(programs())
def test_every_choice_of_fixes_leaves_a_working_program(text: str) -> None:
    assert RULE is not None
    source, selection = Source(text.encode(), "program.py"), Selection((RULE,))
    before = seen(text)
    fixes = [f.fix for f in engine.check(source, selection) if f.fix is not None]
    for fix in fixes:
        after, applied = edits.apply(text, [fix])
        assert applied == [fix]
        assert seen(after) == before, after
    assert seen(fixing.fix(source, selection).text) == before
    assert seen(fixing.fix(source, selection, unsafe=True).text) == before
