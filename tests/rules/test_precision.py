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


@pytest.mark.parametrize(("again", "count"), [(", enabled=False", 0), ("", 1)])
def test_a_scaler_whose_name_is_bound_anew(again: str, count: int) -> None:
    text = f"""
    scaler = torch.amp.GradScaler("cuda")
    print(scaler.get_scale())
    scaler = torch.amp.GradScaler("cuda"{again})
    for x in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x)
        scaler.scale(loss).backward()
    """
    assert len(scalers(text)) == count


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


PICK = {
    "returns": "if name == 'bf16':\n        return torch.bfloat16\n    return torch.float16",
    "table": "return {'bf16': torch.bfloat16, 'fp16': torch.float16}[name]",
    "get": "t = dict(bf16=torch.bfloat16, fp16=torch.float16)\n    return t.get(name)",
}


@pytest.mark.parametrize("body", PICK.values(), ids=PICK)
@pytest.mark.parametrize(
    ("name", "switch", "expected"),
    [
        ("args.dtype", "True", True),
        ("args.dtype", "args.dtype != 'fp32'", True),
        ("args.dtype", "args.dtype == 'fp16'", False),
        ("args.dtype", "args.dtype != 'bf16'", False),
        ("args.dtype", "t == torch.float16", False),
        ("'bf16'", "True", True),
        ("'fp16'", "True", False),
    ],
)
def test_a_function_picks_the_dtype(body: str, name: str, switch: str, expected: bool) -> None:
    text = f"""
def pick(name):
    {body}
def f(args, model, loader):
    t = pick({name})
    scaler = torch.amp.GradScaler("cuda", enabled={switch})
    for x in loader:
        with torch.autocast("cuda", dtype=t):
            loss = model(x)
        scaler.scale(loss).backward()
"""
    assert bool(scalers(text)) is expected


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        (f"{made()}\nt = {{'bf16': torch.bfloat16, 'fp16': torch.float16}}['fp16']", "no"),
        (f"{made()}\nt = {{'bf16': torch.bfloat16, 'fp16': torch.float16}}['bf16']", "always"),
        (f"{made()}\nt = getattr(torch, 'bfloat16')", "always"),
        (f"{made()}\nt = getattr(torch, 'float16')", "no"),
        (f"ok = args.t in ('float16', 'bfloat16')\n{made()}\nt = getattr(torch, args.t)",
         "sometimes"),
        (f"{made()}\nt = getattr(torch, args.t)", "no"),
        (f"{made(', **dict(enabled=False))')[:-1]}\nt = torch.bfloat16", "no"),
        (f"{made(', **dict(init_scale=2.0))')[:-1]}\nt = torch.bfloat16", "sometimes"),
        (f"{made(', **args')}\nt = torch.bfloat16", "no"),
        (f"t = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16\n{made()}",
         "sometimes"),
        ("t = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16\n"
         + made(", enabled=not torch.cuda.is_bf16_supported()"), "no"),
        ("t = torch.bfloat16 if amp else None\n"
         f"if t is None:\n    {made()}\nelse:\n    grad_scaler = None", "no"),
    ],
)  # fmt: skip
def test_the_set_of_dtypes(setup: str, expected: str) -> None:
    assert found(setup, "t") == expected


STEP = """
def f(args, model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with {}:
            loss = model(x)
        scaler.scale(loss).backward()
"""


@pytest.mark.parametrize(
    ("before", "context", "expected"),
    [
        ("kw = dict(device_type='cuda', dtype=torch.bfloat16)", "torch.autocast(**kw)", 1),
        ("kw = {'dtype': torch.float16}\nx = torch.bfloat16", "torch.autocast('cuda', **kw)", 0),
        ("kw = {'dtype': torch.bfloat16}\nkw['dtype'] = z", "torch.autocast('cuda', **kw)", 0),
        ("kw = {'dtype': torch.bfloat16}\nkw.update(z)", "torch.autocast('cuda', **kw)", 0),
        ("kw = {'dtype': torch.bfloat16}\nz(kw)", "torch.autocast('cuda', **kw)", 0),
        ("kw = {'dtype': torch.bfloat16, **z}", "torch.autocast('cuda', **kw)", 0),
        ("def kw():\n    return dict(dtype=torch.bfloat16)", "torch.autocast('cuda', **kw())", 1),
        ("def c(t):\n    return torch.autocast('cuda', dtype=t)", "c(torch.bfloat16)", 1),
        ("def c(t):\n    return torch.autocast('cuda', dtype=t)", "c(torch.float16)", 0),
        ("class C:\n    t: object = torch.bfloat16\nc = C()", "torch.autocast('cuda', c.t)", 1),
        ("class C:\n    t: object = torch.float16\nc = C()", "torch.autocast('cuda', c.t)", 0),
    ],
)
def test_regions(before: str, context: str, expected: int) -> None:
    assert len(scalers(before + STEP.format(context))) == expected


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("use_bf16", True),
        ("args.bf16 and amp", True),
        ("not use_bf16", False),
        ("no_bf16", False),
        ("use_bf16 or fp16", False),
        ("use_fp16", False),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "def f(use_bf16, amp, args):\n    return torch.amp.GradScaler('cuda', enabled={})\n",
        "def f(use_bf16, amp, args):\n    if {}:\n        return torch.amp.GradScaler('cuda')\n",
        "def f(use_bf16, amp, args):\n    return torch.amp.GradScaler('cuda') if {} else None\n",
    ],
)
def test_a_scaler_for_bf16_alone(text: str, test: str, found: bool) -> None:
    assert bool(scalers(text.format(test))) is found
    region = "with torch.autocast('cuda', dtype=torch.float16):\n    pass\n"
    assert not scalers(text.format(test) + region)


@pytest.mark.parametrize("decorator", [True, False])
def test_the_region_of_a_module(decorator: bool) -> None:
    region = 'torch.autocast("cuda", dtype=torch.bfloat16)'
    above, within = (f"@{region}", "if x:") if decorator else ("", f"with {region}:")
    text = f"""
class Net(torch.nn.Module):
    {above}
    def forward(self, x):
        {within}
            return x
def f(loader, net):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(net(x)).backward()
"""
    assert len(scalers(text)) == 1
    assert not scalers(text.replace("forward", "generate"))


@pytest.mark.parametrize(
    ("setup", "dtype", "expected"),
    [
        (made(), CHOICE, "not args.bf16"),
        (made(", enabled=amp"), CHOICE, "amp and not args.bf16"),
        (f"{made()}\nprint(grad_scaler._scale)", CHOICE, None),
        (made(", enabled=amp or args.x"), CHOICE, "(amp or args.x) and not args.bf16"),
        (made(", enabled=True"), "torch.float16 if args.fp16 else torch.bfloat16", "args.fp16"),
        (made(), TABLE, 'args.dtype != "bf16"'),
        (
            f"{made()}\nif args.d == 'fp32':\n    t = torch.float32\nelif args.d == 'fp16':\n"
            "    t = torch.half\nelif args.d == 'bf16':\n    t = torch.bfloat16",
            "t",
            'args.d != "bf16"',
        ),
        (
            "t = torch.float16 if args.fp16 else torch.bfloat16\n"
            f"if args.fp16 or args.bf16:\n    {made()}",
            "t",
            "args.fp16",
        ),
        (f"{made()}\nlate = args.b\nt = torch.bfloat16 if late else torch.half", "t", "not args.b"),
        (f"{made()}\nlate = args.b()\nt = torch.bfloat16 if late else torch.half", "t", None),
        (made(), "torch.bfloat16 if args.a or args.b else torch.half", None),
    ],
)
def test_switch(setup: str, dtype: str, expected: str | None) -> None:
    text = "def f(args, model, loader, amp):\n" + textwrap.indent(
        f"{setup}\nfor x in loader:\n    with torch.autocast('cuda', dtype={dtype}):\n"
        "        loss = model(x)\n    grad_scaler.scale(loss).backward()\n",
        "    ",
    )
    assert [scaler.switch for scaler in scalers(text)] == [expected]


KEPT = """\
    class Config:
        amp = True
        dtype: torch.dtype = DTYPE
    class Trainer:
        def __init__(self, config=None):
            self.config = config or Config()
            if self.config.amp:
                self.scaler = torch.amp.GradScaler("cuda")
                self.region = torch.autocast("cuda", dtype=self.config.dtype)
        def step(self, x):
            with self.region:
                loss = self.net(x)
            self.scaler.scale(loss).backward()
"""


@pytest.mark.parametrize(
    ("dtype", "count"), [("torch.bfloat16", 1), ("torch.float16", 0), ("torch.float32", 0)]
)
def test_a_region_that_is_made_under_the_same_test(dtype: str, count: int) -> None:
    assert len(scalers(KEPT.replace("DTYPE", dtype))) == count
