"""What the model knows about values: where they come from, what they are, what becomes of them."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_lint.edit import edits
from amp_lint.flow import branches
from amp_lint.flow.counters import Counters
from amp_lint.flow.values import literal
from amp_lint.model import Model
from amp_lint.text.source import Source


def model_of(text: str) -> Model:
    return Model(Source(textwrap.dedent(text).encode(), "test.py"))


def call_of(model: Model, name: str) -> cst.Call:
    """The only call of something that ends in ``name``."""
    found = [
        call
        for call in model.tree.nodes(cst.Call)
        if (call.func.attr if isinstance(call.func, cst.Attribute) else call.func).deep_equals(
            cst.Name(name)
        )
    ]
    assert len(found) == 1
    return found[0]


def argument(model: Model, name: str = "use") -> cst.BaseExpression:
    """The first argument of the only call of ``name``."""
    return call_of(model, name).args[0].value


def sources(model: Model, text: str = "use") -> list[str]:
    """What the values that reach ``use(x)`` are, as text."""
    name = argument(model, text)
    assert isinstance(name, cst.Name)
    return [
        model.tree.source(b.value) if b.value is not None else b.kind
        for b in model.flow.reaching(name)
    ]


# --- which assignment reaches a use -------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = 1\nx = 2\nuse(x)", ["2"]),
        ("x = 1\nif c:\n    x = 2\nuse(x)", ["2", "1"]),
        ("x = 1\nif c:\n    x = 2\nelse:\n    use(x)", ["1"]),
        ("x = 1\nif c:\n    x = 2\n    use(x)", ["2"]),
        ("x = 1\nwith c:\n    x = 2\nuse(x)", ["2"]),
        ("x = 1\nfor i in c:\n    use(x)\n    x = 2", ["1", "2"]),
        ("x = 1\nfor i in c:\n    x = 2\n    use(x)", ["2"]),
        ("x = 1\nwhile c:\n    x = 2\nuse(x)", ["2", "1"]),
        ("for i in c:\n    x = 1\n    for j in c:\n        use(x)\n    x = 2", ["1"]),
        ("x = 1\nx = use(x)", ["1"]),
        ("for i in c:\n    x = use(x)", ["use(x)"]),
        ("x = 1\nx += 1\nuse(x)", ["augment"]),
        ("x, y = 1, 2\nuse(x)", ["1"]),
        ("if c:\n    x = 1\nelif d:\n    x = 2\nelse:\n    x = 3\nuse(x)", ["3", "2", "1"]),
        ("try:\n    x = 1\nexcept E:\n    use(x)", ["1"]),
        ("use(x)", []),
    ],
)
def test_reaching(body: str, expected: list[str]) -> None:
    function = "def f(c, d):\n" + textwrap.indent(body, "    ")
    assert sources(model_of(function)) == expected


def test_reaching_parameter() -> None:
    assert sources(model_of("def f(x):\n    use(x)\n")) == ["parameter"]
    assert sources(model_of("def f(x, c):\n    if c:\n        x = 1\n    use(x)\n")) == [
        "1",
        "parameter",
    ]


def test_reaching_from_another_scope() -> None:
    assert sources(model_of("x = 1\ndef f():\n    use(x)\n")) == ["1"]
    assert sources(model_of("x = 1\nx = 2\ndef f():\n    use(x)\n")) == []


@pytest.mark.parametrize(
    ("body", "held"),
    [
        ("x = f()\ny = x + 1\nuse(x)", True),
        ("x = f()\nfor i in c:\n    use(x)", True),
        ("x = f()\nx[0] = 1\nuse(x)", False),
        ("x = f()\nx[0] += 1\nuse(x)", False),
        ("x = f()\nx.add_(1)\nuse(x)", False),
        ("x = f()\nx.t().zero_()\nuse(x)", True),
        ("x = f()\nx.data = 1\nuse(x)", True),
        ("x = f()\nuse(x)\nx[0] = 1", True),
        ("x = f()\nfor i in c:\n    use(x)\n    x[0] = 1", False),
        ("if c:\n    x = f()\nuse(x)", False),
        ("for x in c:\n    use(x)", False),
        ("x = f()\nx = use(x)", True),
    ],
)
def test_held(body: str, held: bool) -> None:
    model = model_of("def g(c):\n" + textwrap.indent(body, "    "))
    assert (model.flow.held(argument(model)) is not None) is held


@pytest.mark.parametrize(
    ("between", "changed"),
    [
        ("pass", False),
        ("z = 1", True),
        ("z.mul_(2)", True),
        ("z.mul(2)", False),
        ("t = 1", False),
        ("self.w = 1", True),
        ("self.w.grad = 1", True),
        ("self.v = 1", False),
        ("self = 1", True),
        ("self.update()", True),
        ("z.run()", False),
        ("use(1)\nfor i in c:\n    z = 1", True),
    ],
)
def test_changed(between: str, changed: bool) -> None:
    body = f"p = g(z, self.w)\n{between}\nlog(p)\nt = z = 2"
    model = model_of("def f(self, z, c):\n" + textwrap.indent(body, "    "))
    assign = model.tree.nodes(cst.Assign)[0]
    assert model.flow.changed(assign.value, assign, call_of(model, "log")) is changed


@pytest.mark.parametrize(
    ("text", "movable"),
    [
        ("z / t", True),
        ("z.view(-1, n)[:, 0].float()", True),
        ("self.head(z)", False),
        ("F.dropout(z)", False),
        ("[a for a in z]", False),
        ("(y := z)", False),
    ],
)
def test_movable(text: str, movable: bool) -> None:
    model = model_of(f"use({text})\n")
    assert model.flow.movable(argument(model)) is movable


def test_readers() -> None:
    text = "def f(c):\n    x = 1\n    a(x)\n    if c:\n        x = 2\n    b(x)\n    g(x=c, y=o.x)\n"
    model = model_of(text)
    first, second = (b for b in model.names.every_binding() if b.name == "x")
    assert [model.tree.order(n) for n in model.flow.readers(first)] == [
        model.tree.order(argument(model, "a")),
        model.tree.order(argument(model, "b")),
    ]
    assert model.flow.readers(second) == [argument(model, "b")]


@pytest.mark.parametrize(
    ("text", "contradict"),
    [
        ("if c:\n    a()\nif not c:\n    b()\n", True),
        ("if c:\n    a()\nelse:\n    b()\n", True),
        ("if not c :\n    a()\nif not c:\n    b()\n", False),
        ("if c:\n    a()\nif d:\n    b()\n", False),
        ("x = a() if c else b()\n", True),
        ("if (c).d:\n    a()\nif not c.d:\n    b()\n", True),
        ("def f():\n    if c:\n        a()\n    if c:\n        return\n    b()\n", True),
        ("def f():\n    if not c:\n        return\n    a()\n    if not c: b()\n", True),
        ("def f():\n    if c:\n        a()\n    else:\n        return\n    b()\n", False),
        ("def f():\n    if d:\n        return\n    elif c:\n        return\n    a()\n"
         "    if c:\n        b()\n", True),
        ("def f():\n    for x in y:\n        if c:\n            break\n    a()\n    if c: b()\n",
         False),
    ],
)  # fmt: skip
def test_contradict(text: str, contradict: bool) -> None:
    model = model_of(text)
    assert branches.contradict(model.linked, call_of(model, "a"), call_of(model, "b")) is contradict


# --- operations ---------------------------------------------------------------------------------

PRELUDE = """\
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from functools import partial
from torch import softmax as sm

local = nn.Softmax(dim=1)
either = nn.Softmax(dim=1) if flag else nn.Sigmoid()
stack = nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=1))

def helper(t, eps=1e-9):
    "Documented."
    return t.clamp(min=eps).log()

def two_lines(t):
    t = t + 1
    return t.log()
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("F.softmax(x, 1)", "softmax FUNCTION x"),
        ("torch.softmax(dim=1, input=x)", "softmax FUNCTION x"),
        ("torch.special.softmax(x, 1)", "softmax FUNCTION x"),
        ("sm(x, 1)", "softmax FUNCTION x"),
        ("x.softmax(1)", "softmax METHOD x"),
        ("(a + b).log()", "log METHOD a + b"),
        ("local(x)", "softmax MODULE x"),
        ("nn.Softmax(dim=1)(x)", "softmax MODULE x"),
        ("stack(x)", "softmax LAST None"),
        ("x + 1e-8", "add OPERATOR x"),
        ("1e-8 + x", "add OPERATOR x"),
        ("x - 1", "sub OPERATOR x"),
        ("x[0]", "getitem OPERATOR x"),
        ("either(x)", None),
        ("np.log(x)", None),
        ("F.softmax(*x)", None),
        ("softmax(x)", None),
        ("self.softmax(x)", None),
        ("x", None),
    ],
)
def test_operation(text: str, expected: str | None) -> None:
    model = model_of(f"{PRELUDE}\nuse({text})\n")
    found = model.operations.of(argument(model))
    if expected is None:
        assert found is None
    else:
        assert found is not None
        source = model.tree.source(found.input) if found.input is not None else None
        assert f"{found.name} {found.form.name} {source}" == expected


def test_module_in_an_attribute() -> None:
    text = """
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            self.act = nn.Softmax(dim=-1)
        def forward(self, x):
            return use(self.act(x))
    """
    model = model_of(text)
    found = model.operations.of(argument(model))
    assert found is not None and found.name == "softmax"
    assert found.constructor is not None
    assert model.tree.source(found.constructor) == "nn.Softmax(dim=-1)"


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("use(F.softmax(x, 1).clamp(min=1e-8).log())", "log clamp softmax"),
        ("p = x.softmax(1)\nq = p + 1e-8\nuse(q.log())", "log add softmax"),
        ("p = x.softmax(1)\np[0] = 1\nuse(p.log())", "log"),
        ("use(helper(x.softmax(1)))", "log clamp softmax"),
        ("use(two_lines(x.softmax(1)))", ""),
    ],
)
def test_chain(body: str, names: str) -> None:
    model = model_of(f"{PRELUDE}\ndef f(x):\n{textwrap.indent(body, '    ')}\n")
    assert " ".join(step.name for step in model.operations.chain(argument(model))) == names


def test_chain_tells_what_it_passed() -> None:
    model = model_of("def f(x):\n    p = x.exp()\n    q = p\n    use(q.log())\n")
    log, exp = model.operations.chain(argument(model))
    assert [through.binding.name for through in log.via] == []
    assert [through.binding.name for through in exp.via] == ["q", "p"]


@pytest.mark.parametrize(
    ("body", "weighted"),
    [
        ("p * use(p)", True),
        ("-use(p) * p", True),
        ("(y * p) * use(p)", True),
        ("torch.mul(p, use(p))", True),
        ("q = use(p)\nr = (p * q).sum()", True),
        ("q = use(p)\nr = (p * q).sum() + q", False),
        ("y * use(p)", False),
        ("(1 - p) * use(p)", False),
        ("p * (use(p) - y)", True),
        ("q = y - use(p)\n(p * q).sum()", True),
        ("y * (use(p) - p)", False),
        ("p + use(p)", False),
        ("use(p)", False),
    ],
)
def test_weighted_by(body: str, weighted: bool) -> None:
    text = f"import torch\ndef f(x, y):\n    p = x.exp()\n{textwrap.indent(body, '    ')}\n"
    model = model_of(text)
    (binding,) = (b for b in model.names.every_binding() if b.name == "p")
    assert model.operations.weighted_by(call_of(model, "use"), binding) is weighted


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("import torch.nn.functional as F", "F.relu"),
        ("from torch.nn.functional import relu as r", "r"),
        ("from torch import nn", "nn.functional.relu"),
        ("import torch", "torch.nn.functional.relu"),
        ("import numpy", None),
    ],
)
def test_spelling_of(imports: str, expected: str | None) -> None:
    model = model_of(f"{imports}\ndef f():\n    use(1)\n")
    at = call_of(model, "use")
    assert model.names.spelling_of(at, "torch.nn.functional.relu") == expected
    shadowed = model_of(f"{imports}\ndef f(F, r, nn, torch):\n    use(1)\n")
    at = call_of(shadowed, "use")
    assert shadowed.names.spelling_of(at, "torch.nn.functional.relu") is None


def test_is_free() -> None:
    model = model_of("logits = 1\ndef f():\n    use(1)\ndef g(logits):\n    other(1)\n")
    assert model.names.is_free("logits", call_of(model, "use"))
    assert not model.names.is_free("logits", call_of(model, "other"))


# --- modules ------------------------------------------------------------------------------------

TRAINED = """
import torch
from torch import nn
from torch.optim import Adam
import apex
"""


@pytest.mark.parametrize(
    "body",
    [
        "m = nn.Linear(1, 1).half()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1)\nm.half()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1)\nm.cuda().half()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).to(dtype=torch.half).cuda()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nm = torch.compile(m)\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nAdam([{'params': m.parameters()}, {'params': x}])",
        "m = nn.Linear(1, 1).half()\np = [q for q in m.parameters() if q.ndim]\nAdam(p)",
        "m = nn.Linear(1, 1).half()\nAdam(filter(lambda p: p.requires_grad, m.parameters()))",
        "m = nn.Linear(1, 1)\nif a.fp16:\n    m = m.half()\nm = m.cuda()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1)\nif not a.deepspeed:\n    m.half()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1)\no = Adam(m.parameters())\nm.half()\nm(x).backward()\no.step()",
        "m = nn.Linear(1, 1).half()\ny = m(x).float()\nAdam(m.parameters())",
        "m = M.from_pretrained('x', dtype='float16')\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nfor n in m.modules():\n"
        "    if isinstance(n, nn.BatchNorm2d): n.float()\nAdam(m.parameters())",
    ],
)
def test_half_training(body: str) -> None:
    model = model_of(TRAINED + "def f(a, x):\n" + textwrap.indent(body, "    "))
    assert len(model.modules.half_trainings) == 1


@pytest.mark.parametrize(
    "body",
    [
        "m = nn.Linear(1, 1)\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half().float()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half().to(torch.bfloat16)\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).to(torch.bfloat16)\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nm.bias.float()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nfor n in m.modules():\n"
        "    if isinstance(n, nn.Linear): n.float()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nm.requires_grad_(False)\nAdam(m.parameters())",
        "m = nn.Linear(1, 1)\nt = nn.Linear(1, 1).half()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nm = nn.Linear(1, 1)\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nm = adapt(m)\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nAdam([p.float() for p in m.parameters()])",
        "m = nn.Linear(1, 1).half()\nAdam(x.parameters())",
        "m = nn.Linear(1, 1).half()\nmake_optimizer(m.parameters())",
        "m = nn.Linear(1, 1).half()\nAdam(m.parameters())\napex.amp.initialize(m)",
        "m = nn.Linear(1, 1)\nif a.deepspeed:\n    m.half()\nAdam(m.parameters())",
        "m = nn.Linear(1, 1)\nif a:\n    m.half()\n    return m\nAdam(m.parameters())",
        "m = nn.Linear(1, 1)\nif a:\n    m.half()\nelse:\n    Adam(m.parameters())",
        "m = nn.Linear(1, 1)\nAdam(m.parameters())\nm(x).backward()\nm.half()\nsave(m)",
        "m = nn.Linear(1, 1)\nAdam(m.parameters())\nsave(m.half())",
        "m = M.from_pretrained('x', dtype='float16', load_in_8bit=True)\nAdam(m.parameters())",
        "m = nn.Linear(1, 1).half()\nfor p in m.parameters():\n    p.data = p.data.float()\n"
        "Adam(m.parameters())",
    ],
)
def test_no_half_training(body: str) -> None:
    model = model_of(TRAINED + "def f(a, x):\n" + textwrap.indent(body, "    "))
    assert model.modules.half_trainings == []


METHODS = """
class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        {init}
    def set_up(self):
        self.optimizer = Adam(self.model.parameters())
    def export(self):
        {export}
def main():
    Trainer({made})
"""


@pytest.mark.parametrize(
    ("init", "export", "made", "count"),
    [
        ("pass", "pass", "nn.Linear(1, 1)", 0),
        ("self.model.half()", "pass", "nn.Linear(1, 1)", 1),
        ("self.model = self.model.half()", "pass", "nn.Linear(1, 1)", 1),
        ("pass", "pass", "nn.Linear(1, 1).half()", 1),
        ("pass", "self.model.half()", "nn.Linear(1, 1)", 0),
        ("pass", "self.model = self.model.half()", "nn.Linear(1, 1)", 0),
        ("self.model.half()", "self.model.float()", "nn.Linear(1, 1)", 0),
        ("self.model = adapt(self.model)", "pass", "nn.Linear(1, 1).half()", 0),
    ],
)
def test_half_training_across_methods(init: str, export: str, made: str, count: int) -> None:
    model = model_of(TRAINED + METHODS.format(init=init, export=export, made=made))
    assert len(model.modules.half_trainings) == count


# --- float16 gradients --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("s = torch.amp.GradScaler('cuda')", True),
        ("s = torch.amp.GradScaler('cuda', enabled=False)", False),
        ("with torch.autocast('cuda'):\n    pass", True),
        ("with torch.autocast('cuda:0', enabled=flag):\n    pass", True),
        ("with torch.autocast('cuda', enabled=False):\n    pass", False),
        ("with torch.autocast('cpu'):\n    pass", False),
        ("with torch.autocast(device):\n    pass", False),
        ("with torch.autocast('cuda', dtype=torch.bfloat16):\n    pass", False),
        ("with torch.autocast('cuda', dtype=dtype):\n    pass", False),
        (
            "d = torch.half if a else torch.bfloat16\nwith torch.autocast('cuda', d):\n    pass",
            True,
        ),
        (
            "with torch.autocast('cuda', dtype=torch.bfloat16):\n    pass\n"
            "s = torch.amp.GradScaler('cuda')",
            False,
        ),
        ("with torch.autocast(device):\n    pass\ns = torch.amp.GradScaler('cuda')", True),
        ("x = y.half()", False),
        ("m = n.half()\no = torch.optim.SGD(m.parameters())", True),
    ],
)
def test_halves_shown(body: str, shown: bool) -> None:
    assert (model_of(f"import torch\n{body}\n").halves.shown is not None) is shown


# --- edits --------------------------------------------------------------------------------------


def without(text: str) -> str | None:
    """``text`` after removing the statement that calls ``gone``."""
    model = model_of(text)
    small = model.tree.parent(call_of(model, "gone"))
    assert isinstance(small, cst.Expr)
    edit = edits.remove_statement(model.tree, small)
    return edits.splice(model.tree.text, [edit]) if edit is not None else None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a()\ngone()\nb()\n", "a()\nb()\n"),
        ("a()\ngone()", "a()\n"),
        ("a()\n# why\ngone()  # what\nb()\n", "a()\n# why\n# what\nb()\n"),
        ("if c:\n    gone()\n    a()\n", "if c:\n    a()\n"),
        ("a()\nif c:\n    gone()\n", "a()\n"),
        ("a()\nif c: gone()\n", "a()\n"),
        ("a()\nif c:\n    if d:\n        gone()  # x\nb()\n", "a()\n# x\nb()\n"),
        ("if c():\n    gone()\n", "if c():\n    pass\n"),
        ("if c:\n    gone()\nelse:\n    a()\n", "if c:\n    pass\nelse:\n    a()\n"),
        ("if c:\n    a()\nelif d:\n    gone()\n", "if c:\n    a()\nelif d:\n    pass\n"),
        ("for i in c:\n    gone()\n", "for i in c:\n    pass\n"),
        ("for i in c:\n    if i:\n        gone()\n", "for i in c:\n    pass\n"),
        ("for i in c:\n    if i:\n        gone()  # x\n", "for i in c:\n    pass  # x\n"),
        ("for i in c:\n    if i:  # x\n        gone()\n", None),
        ("a(); gone()\n", None),
    ],
)
def test_remove_statement(before: str, after: str | None) -> None:
    assert without(before) == after


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("f(gone, 1)", "f(1)"),
        ("f(1, gone)", "f(1)"),
        ("f(1, gone, k=2)", "f(1, k=2)"),
        ("f(1, gone,)", "f(1,)"),
        ("f(\n    1,\n    k=gone,\n)", "f(\n    1,\n)"),
        ("f((1), (gone))", "f((1))"),
        ("f(\n    1,  # why\n    gone)", None),
    ],
)
def test_remove_argument(call: str, after: str | None) -> None:
    model = model_of(call)
    node = call_of(model, "f")
    (arg,) = (arg for arg in node.args if model.tree.source(arg.value) == "gone")
    edit = edits.remove_argument(model.tree, node, arg)
    assert (edits.splice(model.tree.text, [edit]) if edit else None) == after


# --- names and values that are assigned over and over --------------------------------------------


@pytest.mark.parametrize("line", ["x = a(x) if c else x", "x = x or a", "x = x if c else y; y = x"])
def test_a_name_assigned_from_itself_many_times_takes_no_time(line: str) -> None:
    model = model_of(
        "from torch import amp as x\ndef f(c):\n" + f"    {line}\n" * 40 + "    use(x)"
    )
    name = argument(model)
    assert model.names.qualified(name) == frozenset()
    assert model.values.constants(name)


def test_each_meaning_once() -> None:
    model = model_of("x = 1\nx = x if c else 2\nx = x or 2.5\nuse(x)")
    assert sorted(map(str, model.values.constants(argument(model)))) == ["1", "2", "2.5"]


def test_a_name_that_is_only_itself() -> None:
    model = model_of("x = x\nuse(x)")
    assert model.values.constants(argument(model)) == [...]


def test_meanings_through_several_assignments() -> None:
    model = model_of(
        """
        import torch
        m = torch.cuda if c else torch
        n = m.amp if c else m
        n = n.autocast if c else n
        use(n)
        """
    )
    assert model.names.qualified(argument(model)) == {
        "torch", "torch.amp", "torch.cuda", "torch.cuda.amp", "torch.amp.autocast",
        "torch.cuda.amp.autocast", "torch.autocast", "torch.cuda.autocast",
    }  # fmt: skip


# --- tables that are written out ----------------------------------------------------------------

TABLE = 'T = {"a": one, "b": two}\n'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (TABLE + "use(T[k])", ["one", "two"]),
        (TABLE + 'use(T["b"])', ["two"]),
        (TABLE + "use(T.get(k, three))", ["one", "two", "three"]),
        (TABLE + 'use(T.get("c", three))', ["three"]),
        ("use({True: one, False: two}[k])", ["one", "two"]),
        ("use({16: one, 32: two}[32])", ["two"]),
        (TABLE + 'T["c"] = three\nuse(T[k])', ["T[k]"]),
        (TABLE + "fill(T)\nuse(T[k])", ["T[k]"]),
        (TABLE + "T.update(more)\nuse(T[k])", ["T[k]"]),
        ("T = {**more, 'a': one}\nuse(T[k])", ["T[k]"]),
        ("T = make()\nuse(T[k])", ["T[k]"]),
        (TABLE + "use(T[0:1])", ["T[0:1]"]),
        (TABLE + "S = T\nuse(S[k])", ["one", "two"]),
        (TABLE + "S = T\nR = S\nS['c'] = three\nuse(R[k])", ["R[k]"]),
        (
            'class A:\n    t = {"a": one}\n    def f(self):\n        use(self.t["a"])',
            ['self.t["a"]'],
        ),
    ],
)
def test_what_a_table_holds(body: str, expected: list[str]) -> None:
    model = model_of(body)
    found = model.values.alternatives(argument(model))
    assert [model.tree.source(value) for value in found] == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("f'name'", "name"),
        ("f''", ""),
        ("f'{x}'", ...),
        ("f'name{x}'", ...),
        ("f'na{{me'", ...),
        (r"f'na\tme'", ...),
    ],
)
def test_a_text_in_which_nothing_is_filled_in(text: str, value: object) -> None:
    assert literal(argument(model_of(f"use({text})"))) == value


@pytest.mark.parametrize(
    ("test", "past"),
    [
        ("index > warmup", True),
        ("not index <= warmup", True),
        ("not (not index > warmup)", True),
        ("not warm", False),
        ("not use(index)", False),
    ],
)
def test_how_far_a_run_has_come(test: str, past: bool) -> None:
    model = model_of(f"for index in range(9):\n    if {test}:\n        pass\n")
    (branch,) = model.tree.nodes(cst.If)
    assert Counters(model.program).is_past(branch.test) is past


def test_parts_of_what_a_function_gives_that_calls_itself() -> None:
    model = model_of(
        """
        def split(items):
            if len(items) < 2:
                return GradScaler(), items
            first, rest = split(items[1:])
            return first, rest

        scaler, left = split(items)
        use(scaler)
        """
    )
    ends = model.values.alternatives(argument(model))
    assert [model.tree.source(end) for end in ends] == ["scaler"]
