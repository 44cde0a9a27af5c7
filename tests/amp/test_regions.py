"""Autocast regions in every form: calls, contexts behind names, decorators, and their tails."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_lint.amp.regions import Region, Tail
from amp_lint.model import Model
from tests.programs import model_of

HEADER = """\
import contextlib
import functools
import torch
from contextlib import nullcontext
from functools import partial
from torch.amp import autocast
from torch.cuda.amp import autocast as cuda_autocast
"""


def model(text: str) -> Model:
    return model_of(HEADER + textwrap.dedent(text))


def opened(text: str) -> Region | None:
    """The region that the ``with`` around ``inside`` opens."""
    found = model(text)
    (name,) = (n for n in found.tree.nodes(cst.Name) if n.value == "inside")
    regions = found.regions.around(name)
    return regions[0] if regions else None


def settings(region: Region | None) -> str:
    """The device, dtype and switch of a region, and whether it is certain, as a text."""
    assert region is not None
    code = cst.Module([]).code_for_node
    given = (region.device, region.dtype, region.enabled, region.cache_enabled)
    texts = [code(node) if node is not None else "-" for node in given]
    return " ".join(texts) + (" ?" if region.conditional else "")


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("torch.autocast('cuda')", "'cuda' - - -"),
        ("torch.autocast('cuda', torch.bfloat16)", "'cuda' torch.bfloat16 - -"),
        ("torch.autocast('cuda', torch.bfloat16, a, b)", "'cuda' torch.bfloat16 a b"),
        ("torch.autocast(device_type=d, dtype=t, enabled=False)", "d t False -"),
        ("torch.amp.autocast('cpu', cache_enabled=False)", "'cpu' - - False"),
        ("autocast('cuda')", "'cuda' - - -"),
        ("torch.cuda.amp.autocast()", "- - - -"),
        ("torch.cuda.amp.autocast(a)", "- - a -"),
        ("torch.cuda.amp.autocast(a, torch.bfloat16, b)", "- torch.bfloat16 a b"),
        ("cuda_autocast(dtype=torch.bfloat16)", "- torch.bfloat16 - -"),
        ("torch.cpu.amp.autocast(enabled=a)", "- - a -"),
        ("accelerator.autocast()", "- - - -"),
        ("self.fabric.autocast()", "- - - -"),
        ("torch.autocast('cuda') if a else nullcontext()", "'cuda' - - - ?"),
        ("nullcontext() if a else torch.autocast('cuda')", "'cuda' - - - ?"),
        ("torch.autocast('cuda') if a else torch.autocast('cpu')", "'cuda' - - -"),
        ("(autocast if a else nullcontext)('cuda')", "'cuda' - - -"),
        ("partial(torch.autocast, 'cuda')(dtype=t)", "'cuda' t - -"),
        ("functools.partial(autocast, device_type='cuda', enabled=a)()", "'cuda' - a -"),
        ("(lambda: torch.autocast('cuda', dtype=t))()", "'cuda' t - -"),
        ("(c := torch.autocast('cuda'))", "'cuda' - - -"),
    ],
)
def test_context_expressions(context: str, expected: str) -> None:
    assert settings(opened(f"with {context}:\n    inside")) == expected
    assert settings(opened(f"with open(p) as f, {context}:\n    inside")) == expected
    assert settings(opened(f"x = {context}\nwith x:\n    inside")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = autocast if a else nullcontext\nwith c('cuda'):\n    inside", "'cuda' - - -"),
        ("c = partial(autocast, 'cuda')\nwith c(enabled=b):\n    inside", "'cuda' - b -"),
        ("c = lambda: autocast('cuda')\nwith c():\n    inside", "'cuda' - - -"),
        (
            "if a:\n    c = autocast('cuda')\nelse:\n    c = nullcontext()\nwith c:\n    inside",
            "'cuda' - - - ?",
        ),
        ("def c():\n    return autocast('cuda', dtype=t)\nwith c():\n    inside", "'cuda' t - -"),
        (
            "def c():\n    if a:\n        return nullcontext()\n    return autocast('cuda')\n"
            "with c():\n    inside",
            "'cuda' - - -",
        ),
        (
            "@contextlib.contextmanager\ndef c():\n    with autocast('cuda'):\n        yield\n"
            "with c():\n    inside",
            "'cuda' - - -",
        ),
        (
            "class T:\n    def __init__(self):\n        self.c = autocast('cuda') if a else b()\n"
            "    def f(self):\n        with self.c:\n            inside",
            "'cuda' - - - ?",
        ),
        (
            "class T:\n    def __init__(self):\n        self.c = partial(autocast, 'cuda')\n"
            "    def f(self):\n        with self.c(dtype=t):\n            inside",
            "'cuda' t - -",
        ),
        (
            "class T:\n    def c(self):\n        return autocast('cuda', enabled=self.amp)\n"
            "    def f(self):\n        with self.c():\n            inside",
            "'cuda' - self.amp -",
        ),
        (
            "def f(c=k):\n    with c():\n        inside\n"
            "f(partial(autocast, 'cuda') if a else nullcontext)",
            "'cuda' - - -",
        ),
        ("def f(c):\n    with c:\n        inside\nf(c=autocast('cuda'))\nf(k)", "'cuda' - - - ?"),
        (
            "def c(**k):\n    if old:\n        from torch.cuda.amp import autocast\n"
            "        return autocast(**k)\n    from torch.amp import autocast\n"
            "    return autocast('cuda', **k)\nwith c(enabled=a):\n    inside",
            "- - a -",
        ),
        ("@autocast('cuda')\ndef f():\n    inside", "'cuda' - - -"),
        ("@cuda_autocast(enabled=False)\ndef f():\n    inside", "- - False -"),
        ("@other\n@autocast('cuda')\ndef f():\n    inside", "'cuda' - - -"),
        ("async def f():\n    with autocast('cuda'):\n        inside", "'cuda' - - -"),
        ("with autocast('cuda'):\n    with k():\n        inside", "'cuda' - - -"),
        ("with autocast('cuda'):\n    for x in y:\n        inside", "'cuda' - - -"),
    ],
)
def test_contexts_behind_names(text: str, expected: str) -> None:
    assert settings(opened(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "with nullcontext():\n    inside",
        "with model.no_sync():\n    inside",
        "c = model.no_sync if a else nullcontext\nwith c():\n    inside",
        "with torch.no_grad():\n    inside",
        "with autocast('cuda') as c:\n    pass\ninside",
        "with autocast('cuda'):\n    pass\nwith k():\n    inside",
        "with k(inside), autocast('cuda'):\n    pass",
        "with autocast('cuda'):\n    def f():\n        inside",
        "with autocast('cuda'):\n    f = lambda: inside",
        "def f():\n    def autocast(d):\n        pass\n    with autocast('cuda'):\n        inside",
        "class T:\n    def autocast(self):\n        return k()\n"
        "    def f(self):\n        with self.autocast():\n            inside",
        "with paddle.amp.auto_cast():\n    inside",
        "with tf.autocast():\n    inside",
        "c = c\nwith c:\n    inside",
        "def c():\n    return c()\nwith c():\n    inside",
        "with torch.autocast:\n    inside",
        "autocast('cuda').__enter__()\ninside",
        "@other\ndef f():\n    inside",
    ],
)
def test_no_region(text: str) -> None:
    assert opened(text) is None


def test_around_is_innermost_first() -> None:
    found = model(
        """
        @autocast("cuda")
        def f():
            with autocast("cpu"), autocast("xpu"):
                with autocast("mps", enabled=False):
                    inside
        """
    )
    (name,) = (n for n in found.tree.nodes(cst.Name) if n.value == "inside")
    around = found.regions.around(name)
    assert [settings(r).split()[0] for r in around] == ['"mps"', '"xpu"', '"cpu"', '"cuda"']
    assert [r.never_enabled for r in around] == [True, False, False, False]


def test_all_regions() -> None:
    found = model(
        """
        c = autocast("cuda")
        with c:
            pass
        with c:
            pass

        @torch.autocast("cpu")
        def f():
            with torch.cuda.amp.autocast(), nullcontext():
                pass
        """
    )
    assert len(found.regions.all) == 3


def test_hidden_arguments() -> None:
    region = opened("with autocast('cuda', **options):\n    inside")
    assert region is not None and region.starred


# --- what can leave a region ----------------------------------------------------------------------


def tail(body: str, *, header: str = "with autocast('cuda'):\n", rest: str = "") -> str | None:
    """The first statement that moves with ``loss.backward()`` out of its region, as text."""
    found, moved = moving(body, header=header, rest=rest)
    return found.tree.source(moved.first) if moved else None


def moving(body: str, *, header: str, rest: str = "") -> tuple[Model, Tail | None]:
    found = model(header + textwrap.indent(body, "    ") + rest)
    (call,) = (
        call
        for call in found.tree.nodes(cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
    )
    return found, found.regions.trailing(call)


@pytest.mark.parametrize(
    ("after", "moves"),
    [
        ("", True),
        ("optimizer.step()", True),
        ("scaler.unscale_(o)\nscaler.step(o)\nscaler.update()", True),
        ("torch.nn.utils.clip_grad_norm_(p, 1.0)", True),
        ("torch.cuda.synchronize()", True),
        ("torch.distributed.barrier()", True),
        ("losses.append(loss.item())", True),
        ("print(f'{loss.item():.3f}', float(loss))", True),
        ("writer.add_scalar('loss', loss.item(), i)", True),
        ("run.log({'loss': loss.item() / 2})", True),
        ("if i % 10 == 0:\n    optimizer.step()\n    break", True),
        ("for o in optimizers:\n    o.step()", True),
        ("time.sleep(math.sqrt(2))", False),
        ("del loss", True),
        ("total += loss.detach()", True),
        ("loss.log()", False),
        ("total += loss ** 2", False),
        ("y = a @ b", False),
        ("a @= b", False),
        ("torch.log(loss)", False),
        ("torch.save(model)", False),
        ("y = model(x)", False),
        ("evaluate(model)", False),
        ("model.forward(x)", False),
        ("return loss", True),
        ("yield loss", False),
        ("await loss", False),
        ("if a:\n    return", True),
        ("def g():\n    pass", False),
        ("log(loss.item())", True),
        ("matters(a)", False),
    ],
)
def test_tail(after: str, moves: bool) -> None:
    header = "def log(v):\n    print(v)\ndef matters(v):\n    return v @ v\n"
    header += "async def f():\n with autocast('cuda'):\n"
    body = "loss = model(x)\nloss.backward()\n" + after + "\n"
    found, moved = moving(body, header=header)
    assert moved is not None and found.tree.source(moved.first) == "loss.backward()"
    rest = found.tree.source(moved.rest).splitlines()[0] if moved.rest is not None else None
    assert rest == (None if moves else after.splitlines()[0])


def test_a_region_made_elsewhere_is_not_opened_again() -> None:
    header = "c = autocast('cuda')\nwith c:\n"
    assert tail("loss = k()\nloss.backward()\nk()\n", header=header) is None


@pytest.mark.parametrize(
    ("body", "first"),
    [
        ("loss = k()\nif a:\n    loss.backward()", "if a:"),
        ("loss = k()\nfor x in y:\n    loss.backward()", "for x in y:"),
        ("loss = k()\nx = 1; loss.backward()", "x = 1; loss.backward()"),
        ("loss = k()\n\n# why\nloss.backward()", "loss.backward()"),
    ],
)
def test_first_of_the_tail(body: str, first: str) -> None:
    found = tail(body + "\n")
    assert found is not None and found.splitlines()[0] == first


@pytest.mark.parametrize(
    "header",
    [
        "with autocast('cuda'), opened() as f:\n",
        "with autocast('cuda'), autocast('cpu'):\n",
        "with nullcontext():\n",
        "for x in y:\n",
        "@autocast('cuda')\ndef f():\n",
        "with autocast('cuda'):\n  with nullcontext():\n",
        "async def f():\n async with autocast('cuda'):\n",
    ],
)
def test_nothing_moves_out_of(header: str) -> None:
    assert tail("loss = k()\nloss.backward()\n", header=header) is None


def test_a_region_with_a_name() -> None:
    header = "with autocast('cuda') as on:\n"
    assert tail("loss = k()\nloss.backward()\n", header=header) == "loss.backward()"
    assert tail("loss = k()\nloss.backward()\nk(on)\n", header=header) is None


def test_nothing_stays() -> None:
    assert tail("loss.backward()\n") == "loss.backward()"
    assert tail("x = k(); loss.backward()\n") is None


@pytest.mark.parametrize(
    ("decorators", "moves"),
    [
        ("", False),
        ("    @torch.amp.custom_bwd(device_type='cuda')\n", True),
        ("    @custom_bwd\n", True),
    ],
)
def test_own_backward_of_an_autograd_function(decorators: str, moves: bool) -> None:
    rest = (
        "class Square(torch.autograd.Function):\n    @staticmethod\n"
        + decorators
        + "    def backward(ctx, g):\n        return g\n"
    )
    assert (tail("loss = k()\nloss.backward()\n", rest=rest) is not None) is moves


OF_AN_OBJECT = """\
class Precision:
    def __init__(self, on):
        self.on = on

    def context(self):
        return autocast("cuda") if self.on else nullcontext()


precision = Precision(True)
with precision.context():
    inside
"""


@pytest.mark.parametrize(
    ("old", "new", "opens"),
    [
        ("", "", True),
        ("precision = Precision(True)", "precision = make()", False),
        ('autocast("cuda") if self.on else nullcontext()', "nullcontext()", False),
    ],
)
def test_a_context_that_a_method_of_an_object_gives(old: str, new: str, opens: bool) -> None:
    text = OF_AN_OBJECT.replace(old, new) if old else OF_AN_OBJECT
    assert (opened(text) is not None) is opens
