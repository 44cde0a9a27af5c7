"""Under which settings a scaler is on while its region is bf16."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.scaling._precision import Bf16Scaler, Precision
else:
    from amp_lint.rules.scaling._precision import Bf16Scaler, Precision


def scalers(text: str) -> list[Bf16Scaler]:
    return model_of("import torch\n" + textwrap.dedent(text)).part(Precision).bf16_scalers


def found(setup: str, dtype: str, region: str = "") -> str:
    """Whether the scaler made in ``setup`` is found: "no", "sometimes" or "always" bf16."""
    text = "def f(args, model, loader, dtype, amp):\n" + textwrap.indent(
        f"{textwrap.dedent(setup)}\nfor x in loader:\n"
        f"    with torch.autocast('cuda', dtype={dtype}{region}):\n        loss = model(x)\n"
        "    grad_scaler.scale(loss).backward()\n",
        "    ",
    )
    result = scalers(text)
    assert len(result) < 2
    return {True: "always", False: "sometimes"}[result[0].always] if result else "no"


def made(arguments: str = "") -> str:
    return f"grad_scaler = torch.amp.GradScaler('cuda'{arguments})"


CHOICE = "torch.bfloat16 if args.bf16 else torch.float16"
TABLE = "{'bf16': torch.bfloat16, 'fp16': torch.float16}[args.dtype]"


@pytest.mark.parametrize(
    ("arguments", "dtype", "expected"),
    [
        ("", "torch.bfloat16", "always"),
        (", enabled=True", "torch.bfloat16", "always"),
        (", init_scale=2.0", "torch.bfloat16", "always"),
        (", enabled=amp", "torch.bfloat16", "always"),
        (", enabled=False", "torch.bfloat16", "no"),
        ("", "torch.float16", "no"),
        ("", "torch.half", "no"),
        ("", "None", "no"),
        ("", "dtype", "no"),
        (", **args", "torch.bfloat16", "no"),
        ("", CHOICE, "sometimes"),
        (", enabled=amp", CHOICE, "sometimes"),
        (", enabled=args.bf16", CHOICE, "sometimes"),
        (", enabled=not args.bf16", CHOICE, "no"),
        (", enabled=amp and not args.bf16", CHOICE, "no"),
        (", enabled=args.fp16", CHOICE, "no"),
        (", enabled=args.loss_scale > 0", CHOICE, "no"),
        ("", TABLE, "sometimes"),
        (", enabled=args.dtype == 'fp16'", TABLE, "no"),
        (", enabled=args.dtype != 'bf16'", TABLE, "no"),
        (", enabled=args.dtype in ('fp16', 'bf16')", TABLE, "sometimes"),
        (", enabled=dtype == torch.float16", "dtype", "no"),
        (", enabled=dtype is torch.half", "dtype", "no"),
    ],
)
def test_in_one_expression(arguments: str, dtype: str, expected: str) -> None:
    assert found(made(arguments), dtype) == expected


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        (f"t = {CHOICE}\n{made()}", "sometimes"),
        (f"t = {CHOICE}\n{made(', enabled=t == torch.float16')}", "no"),
        (f"t = {CHOICE}\n{made(', enabled=t != torch.bfloat16')}", "no"),
        (f"t = torch.bfloat16\n{made()}", "always"),
        (f"t = u = torch.bfloat16\n{made()}", "always"),
        (f"u = torch.bfloat16\nt = u\n{made()}", "always"),
        (f"t = {TABLE}\n{made(', enabled=amp')}", "sometimes"),
        (f"on = args.amp and not args.bf16\nt = {CHOICE}\n{made(', enabled=on')}", "no"),
        (f"half = not args.bf16\non = half\nt = {CHOICE}\n{made(', enabled=on')}", "no"),
        (
            "if args.bf16:\n    t = torch.bfloat16\nelse:\n    t = torch.float16\n" + made(),
            "sometimes",
        ),
        (
            "if args.bf16:\n    t = torch.bfloat16\nelse:\n    t = torch.float16\n"
            + made(", enabled=not args.bf16"),
            "no",
        ),
        (
            "t = torch.float16\nif args.bf16:\n    t = torch.bfloat16\n"
            + made(", enabled=args.bf16"),
            "sometimes",
        ),
        (f"t = {CHOICE}\ngrad_scaler = None\nif not args.bf16:\n    {made()}", "no"),
        (f"t = {CHOICE}\n{made()} if t == torch.float16 else None", "no"),
        (f"t = {CHOICE}\n{made()} if amp else None", "sometimes"),
        (f"t = {CHOICE}\nif args.bf16:\n    return\n{made()}", "no"),
        (f"t = torch.bfloat16\nif amp:\n    {made()}\nelse:\n    grad_scaler = None", "always"),
    ],
)
def test_through_variables(setup: str, expected: str) -> None:
    assert found(setup, "t") == expected


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ("amp", "always"),
        ("not amp", "no"),
        ("False", "no"),
        ("args.bf16", "always"),
    ],
)
def test_the_region_must_be_on(switch: str, expected: str) -> None:
    text = made(", enabled=amp")
    assert found(text, "torch.bfloat16", f", enabled={switch}") == expected


CLASS = """
class T:
    def __init__(self, config, amp=True):
        self.amp = amp
        self.dtype = {dtype}
        self.scaler = torch.amp.GradScaler("cuda"{arguments})

    def step(self, x):
        with torch.autocast("cuda", dtype=self.dtype, enabled=self.amp):
            loss = self.model(x)
        self.scaler.scale(loss).backward()
"""


@pytest.mark.parametrize(
    ("dtype", "arguments", "expected"),
    [
        ("torch.bfloat16", "", 1),
        ("torch.bfloat16", ", enabled=amp", 1),
        ("torch.bfloat16", ", enabled=self.amp", 1),
        ("torch.float16", "", 0),
        ("torch.bfloat16 if config.bf16 else torch.float16", ", enabled=self.amp", 1),
        (
            "torch.bfloat16 if config.bf16 else torch.float16",
            ", enabled=self.dtype == torch.float16",
            0,
        ),
        ("torch.bfloat16 if config.bf16 else torch.float16", ", enabled=not config.bf16", 0),
    ],
)
def test_in_a_class(dtype: str, arguments: str, expected: int) -> None:
    assert len(scalers(CLASS.format(dtype=dtype, arguments=arguments))) == expected


TWO = """
def first(model, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda", dtype={}):
            loss = model(x)
        scaler.scale(loss).backward()

def second(model, loader):
    grad_scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda", dtype={}):
            loss = model(x)
        grad_scaler.scale(loss).backward()
"""


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("second", [0, 1])
def test_a_scaler_serves_its_own_function(first: int, second: int) -> None:
    dtypes = ("torch.float16", "torch.bfloat16")
    assert len(scalers(TWO.format(dtypes[first], dtypes[second]))) == first + second


def test_a_scaler_that_is_passed_on() -> None:
    text = """
    def step(model, x, scaler):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x)
        scaler.scale(loss).backward()

    def main(model, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            step(model, x, scaler)
    """
    assert len(scalers(text)) == 1


def test_a_region_on_a_stack() -> None:
    text = """
    def step(model, x, stack):
        scaler = torch.amp.GradScaler("cuda")
        stack.enter_context(torch.autocast("cuda", dtype=torch.bfloat16))
        scaler.scale(model(x)).backward()
    """
    assert len(scalers(text)) == 1
    assert not scalers(text.replace("bfloat16", "float16"))


def test_a_scaler_of_whichever_api_there_is() -> None:
    text = """
    def step(model, x, amp):
        if hasattr(torch.amp, "GradScaler"):
            scaler = torch.amp.GradScaler("cuda", enabled=amp)
        else:
            scaler = torch.cuda.amp.GradScaler(enabled=amp)
        with torch.autocast("cuda", enabled=amp, dtype=torch.bfloat16):
            loss = model(x)
        scaler.scale(loss).backward()
    """
    assert len(scalers(text)) == 2
    assert not scalers(text.replace("hasattr", "is_fp16"))


def test_where_bf16_is_chosen() -> None:
    model = model_of(
        f"""
        import torch
        t = {CHOICE}
        scaler = torch.amp.GradScaler("cuda")
        with torch.autocast("cuda", dtype=t):
            loss = model(x)
        scaler.scale(loss).backward()
        """
    )
    (scaler,) = model.part(Precision).bf16_scalers
    assert model.tree.source(scaler.dtype) == "torch.bfloat16"
    assert model.tree.source(scaler.call) == 'torch.amp.GradScaler("cuda")'
