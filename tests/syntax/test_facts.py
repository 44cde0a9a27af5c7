"""What one pass over `ast` tells of a file, and what follows for the files that are parsed."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import fractions
import inspect
import math
import time
import types
import typing
from collections.abc import Set

import pytest

from amp_lint.registry import all_rules, find
from amp_lint.sieve import Sieve
from amp_lint.syntax.facts import Facts, facts
from amp_lint.vocabulary.expressions import Stage

THROUGH = {"clamp"}
WAY = (Stage(frozenset({"log"})), Stage(frozenset({"softmax", "Softmax"})))


def of(text: str, *, linked: Set[str] = frozenset()) -> Facts:
    return facts(ast.parse(text), linked=linked)


def leads(text: str, *, linked: Set[str] = frozenset()) -> bool:
    """Whether a call of log in some code may be of a softmax."""
    found = of(text, linked=linked)
    logs = (call for name, calls in found.calls.items() if "log" in name for call in calls)
    return any(found.leads(call, WAY, THROUGH) for call in logs)


HEAD = """
class Head:
    def forward(self, x):
        return x.mean(), x.softmax(1)
class Other:
    def forward(self, x):
        return x.relu()
"""


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("head = Head()\ndef f(x):\n    a, b = head(x)\n    return b.log()", True),
        ("head = Head()\ndef f(x):\n    a, b = head(x)\n    return a.log()", False),
        ("def f(head, x):\n    a, b = head(x)\n    return b.log()", True),
        ("def f(p):\n    return p.log()\nf(x.softmax(1))", True),
        ("def f(p, q=2):\n    return q.log()\nf(1, q=x.softmax(1))", True),
        ("def f(p):\n    return p.log()\nf(x.relu())", False),
        ("other = Other()\ndef f(x):\n    p = other(x)\n    return p.log()", False),
        ("def f(x):\n    p = x.softmax(1)\ndef g(p):\n    return p.log()", False),
    ],
)
def test_functions_are_entered(text: str, reached: bool) -> None:
    found = of(HEAD + text)
    (log,) = found.calls["log"]
    assert found.leads(log, WAY, THROUGH, entering=True) is reached
    assert not found.leads(log, WAY, THROUGH)


@pytest.mark.parametrize(
    ("text", "called", "reached"),
    [
        ("def cost(p):\n    return p.log()", "cost", True),
        ("def cost(p):\n    return p.log()", "other", False),
        ("def cost(p):\n    q = 2\n    return q.log()", "cost", False),
        ("class Cost:\n    def forward(self, p):\n        return p.log()", "Cost", True),
        ("class Cost:\n    def forward(self, p):\n        return p.log()", "forward", False),
        ("class Cost:\n    def forward(self):\n        return self.log()", "Cost", False),
    ],
)
def test_calls_in_other_files_may_give_anything(text: str, called: str, reached: bool) -> None:
    found = of(text, linked=frozenset({called}))
    (log,) = found.calls["log"]
    assert found.leads(log, WAY, THROUGH, entering=True) is reached
    assert not found.leads(log, WAY, THROUGH)


@pytest.mark.parametrize(
    "text",
    [
        "torch.log(x.softmax(-1))",
        "p = x.softmax(-1)\np.clamp(min=1e-9).log()",
        "p, q = F.softmax(x, 1), 2\n(p + 1e-9)[0].log()",
        "from torch import softmax as s\ntorch.log(s(x, -1))",
        "from torch import log as ln\nln(softmax(x))",
        "self.act = nn.Softmax(1)\ntorch.log(self.act(x))",
        "act = partial(F.softmax, dim=1)\ntorch.log(act(x))",
        "def probs(x):\n    return x.softmax(1)\nprobs(x).log()",
        "def safe_log(t):\n    return t.log()\nsafe_log(softmax(x))",
        "make = {1: nn.Softmax}\nself.act = make[1]()\ntorch.log(self.act(x))",
        "torch.log(nn.Softmax(1)(x))",
        "(p := softmax(x)).log()",
    ],
)
def test_a_softmax_is_reached(text: str) -> None:
    assert leads(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = softmax(x)\ntorch.log(y)",
        "torch.log(y.softmax(-1).sum())",
        "logger.info(softmax(x))",
        "def probs(x):\n    return x.relu()\nprobs(x).log()\nsoftmax(x)",
        "self.act = nn.ReLU()\ntorch.log(self.act(x))\nnn.Softmax(1)",
        "p = p.exp()\np.log()",
    ],
)
def test_no_softmax_is_reached(text: str) -> None:
    assert not leads(text)


@pytest.mark.parametrize(
    ("expression", "reached"),
    [
        ("torch.log(1 - x.sigmoid())", True),
        ("(1.0 - torch.sigmoid(x) + 1e-8).log()", True),
        ("torch.log(torch.sub(1, p))", True),
        ("torch.log1p(-p)", True),
        ("torch.log(1 / (1 + (-x).exp()))", True),
        ("torch.log(1 / one_more(x))", True),
        ("torch.log(less(p))", True),
        ("torch.log(p / (1 - p))", False),
        ("torch.log(2 - p)", False),
        ("torch.log(p - 1e-3)", False),
        ("torch.log(-p)", False),
        ("torch.log1p(x.exp())", False),
        ("torch.log(1 + x.exp())", False),
        ("torch.log(2 / (1 + (-x).exp()))", False),
    ],
)
def test_only_the_operations_of_a_pair_in_their_order(expression: str, reached: bool) -> None:
    text = (
        "def less(p):\n    return 1 - p\n"
        "def one_more(x):\n    return 1 + torch.exp(-x)\n"
        f"p = torch.sigmoid(x)\nq = {expression}\n"
    )
    rule = find("AMP302")
    assert rule is not None and rule.may(of(text)) is reached


def test_what_is_imported_from_the_project_is_unclear() -> None:
    text = "from .helpers import probs\ntorch.log(probs(x))"
    assert leads(text, linked={"probs"}) and not leads(text) and not leads(text, linked={"other"})
    assert not leads("from torch import exp\ntorch.log(exp(x))", linked={"exp"})


@pytest.mark.parametrize(
    "text",
    [
        "opt.step()",
        "from x import step",
        "do = opt.step",
        "run(opt.step)",
        "def f(): return opt.step",
        "hooks = [opt.step]",
        "do = opt.step if a else b",
        "self.step *= 2\nopt.step()",
    ],
)
def test_what_may_be_called(text: str) -> None:
    assert "step" in of(text).done


@pytest.mark.parametrize(
    "text",
    [
        "self.step = 1",
        "x = self.step * 2",
        "x = -self.step",
        "self.step += 1",
        "if self.step > 3: ...",
        "def step(self): ...",
        "f(step=1)",
        "print(f'{self.step}')",
        "x = {'step': 1}",
        "self.step.item()",
        "run(step)",
    ],
)
def test_what_is_not_called(text: str) -> None:
    assert "step" not in of(text).done and "step" in of(text).words


@pytest.mark.parametrize(
    "text, least",
    [("x = 1", math.inf), ("x = 1e-5, 1e-8", 1e-8), ("x = -1e-9", 1e-9), ("x = 10 ** -8", 0.0)],
)
def test_the_least_number(text: str, least: float) -> None:
    assert of(text).least == least


@pytest.mark.parametrize(
    "text, entered, fits",
    [
        ("with torch.autocast('cuda'): ...", True, True),
        ("with torch.autocast(x.device.type, enabled=False): ...", True, True),
        ("from torch import autocast\nwith autocast('cuda'): ...", True, False),
        ("with torch.autocast('cpu', dtype=torch.float32): ...", True, False),
        ("d = torch.device(0)\nwith torch.autocast(d): ...", True, False),
        ("with torch.autocast(device_type=d, dtype=True): ...", True, False),
        ("with torch.autocast(): ...", True, False),
        ("with torch.cuda.amp.autocast(False): ...", True, False),
        ("with torch.autocast('cuda', cache=True): ...", True, False),
        ("with torch.autocast('cuda', enabled='no'): ...", True, False),
        ("with torch.autocast(d): ...\nGradScaler(True)", True, False),
        ("with torch.autocast('cuda'): yield 1", False, False),
        ("with torch.autocast: ...", False, False),
        ("torch.autocast('cuda')", False, False),
        ("with torch.autocast('cuda') as a: ...", False, False),
        ("@torch.autocast('cuda')\ndef f(): ...", False, False),
        ("from torch import autocast as a\nwith a('cuda'): ...", False, False),
        ("a = getattr(torch, 'autocast')", False, False),
    ],
)
def test_regions_that_are_plain(text: str, entered: bool, fits: bool) -> None:
    judging = [rule for rule in all_rules() if rule.code in ("AMP206", "AMP207")]
    assert [rule.may(of(text)) for rule in judging] == [not fits, not entered]
    assert all(rule.may(of(text, linked={"autocast"})) for rule in judging)


@pytest.mark.parametrize(
    "text, fits",
    [
        ("with torch.autocast('cuda'): ...", True),
        ("d = x.device.type\nwith torch.autocast(d, enabled=False): ...", True),
        ("with torch.autocast(x.device.type): ...", True),
        ("d = x.device.other\nwith torch.autocast(d): ...", False),
        ("other = x.device.type\nwith torch.autocast(other): ...", True),
        ("def f(d):\n    d = d or 'cuda'\n    with torch.autocast(d): ...", False),
        ("def f(d):\n    with torch.autocast(d): ...", False),
    ],
)
def test_regions_that_are_plain_whatever_other_files_say(text: str, fits: bool) -> None:
    rule = find("AMP206")
    assert rule is not None and not rule.may(of(text))
    assert rule.may(of(text, linked={"other", "type"})) is not fits


@pytest.mark.parametrize("text", ["", "x = 0\n"])
@pytest.mark.parametrize(
    "eps, has",
    [("1e-12", True), ("10 ** -8", True), ("(10) ** -8", True), ("0.1**9", True),
     ("d ** -0.5", False), ("x.size(-1) ** -0.5", False), ("d2 ** 0.5", False)],
)  # fmt: skip
def test_how_a_small_number_is_written(text: str, eps: str, has: bool) -> None:
    rule = find("AMP311")
    assert rule is not None and rule.pattern is not None
    assert rule.pattern.found_in(f"{text}f({eps})".encode()) is has


def test_files_without_a_log_of_a_softmax_are_not_parsed() -> None:
    rule = find("AMP301")
    assert rule is not None
    sieve = Sieve([rule], preview=True)
    common = b"import torch\nlogger.info(1)\ny = x.softmax(-1)\n"
    for other in (b"", b"# log\n", b'"""A log."""\n', b"z = math.log(2)\n", b"loglog(2)\n",
                  b"f('a log mel')\n", b"f(log=1)\n", b"log.info(1)\n", b"log * 2\n",
                  b"torch.log(-y)\n"):  # fmt: skip
        assert sieve.by_bytes(common + other) == (), other
    for other in (b"torch.log(x / y)\n", b"torch.log(x * y)\n", b"log(y + x / z)\n",
                  b"torch.log(f(')') / y)\n", b"log(y, x / z)\n",
                  b"f = torch.log\n-y\n", b"log = torch.log if a else b\n", b"log(-x or y)\n",
                  b"from torch import log as l\n", b"y.log()\n", b"(y / 2).log()\n"):  # fmt: skip
        assert sieve.by_bytes(common + other) == (rule,), other
    for other, found in ((b"torch.log(y / x)\n", ()), (b"torch.log(y)\n", (rule,))):
        assert Sieve([rule]).by_bytes(common + other) == found  # the former: in preview alone
    assert sieve.by_bytes(common + b"from math import log\nlog(2)\n") == (rule,)
    assert sieve.by_syntax(common + b"from math import log\nlog(2)\n", [rule]) == ()
    assert sieve.by_syntax(common + b"y.log()\n", [rule]) == (rule,)


@pytest.mark.parametrize(
    ("helper", "called", "may"),
    [
        ("def my_log(n):\n    'Of n.'\n    return torch.log(n)", "my_log", True),
        ("def my_log(n):\n    return torch.log(1 + n)", "my_log", True),
        ("def my_log(n):\n    return torch.log(x)", "my_log", False),
        ("def my_log(x):\n    y = torch.log(n)\n    return x + y", "my_log", False),
        ("def my_log(x):\n    return torch.log(n)", "self.my_log", False),
        ("my_log = torch.log", "my_log", True),
        ("self.my_log = torch.log", "self.my_log", True),
    ],
)
def test_calls_of_helpers_that_only_return_a_logarithm(helper: str, called: str, may: bool) -> None:
    """What others do is told of what they call themselves."""
    rule = find("AMP301")
    assert rule is not None
    text = f"{helper}\n{called}(x.softmax(-1))\n"
    assert rule.may(of(text)) is may
    assert rule.may(of(text, linked={"my_log"}))


@pytest.mark.parametrize(("made", "may"), [("Head", False), ("Probs", True)])
def test_an_item_of_a_list_of_modules_is_what_the_list_holds(made: str, may: bool) -> None:
    rule = find("AMP301")
    assert rule is not None
    text = (
        "class Head(nn.Module):\n    def forward(self, x):\n        return self.last(x)\n"
        "class Probs(nn.Module):\n    def forward(self, x):\n        return x.softmax(-1)\n"
        "class Net(nn.Module):\n    def __init__(self):\n"
        f"        self.heads = nn.ModuleList([{made}(), {made}()])\n"
        "    def forward(self, x):\n        return torch.log(self.heads[0](x) / 2)\n"
    )
    assert rule.may(of(text)) is may


def test_what_is_told_in_preview_alone_is_looked_for_there_alone() -> None:
    rule = find("AMP113")
    assert rule is not None
    asked = b"if not torch.isfinite(p.grad).all():\n    raise\nscaler.scale(loss).backward()\n"
    clip = b"nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)\n"
    for text, preview, wanted in ((asked, False, ()), (asked, True, (rule,)), (clip, True, ())):
        assert Sieve([rule], preview=preview).by_bytes(text) == wanted
    for preview in (False, True):
        sieve = Sieve([rule], preview=preview)
        assert sieve.by_bytes(asked + clip) == sieve.by_syntax(asked + clip, [rule]) == (rule,)


@pytest.mark.parametrize(("value", "sure"), [("p", True), ("p / 2", False), ("(p + 1) * 2", False)])
def test_what_makes_a_pair_that_is_told_in_preview_alone(value: str, sure: bool) -> None:
    rule = find("AMP301")
    assert rule is not None
    text = f"import torch\np = torch.softmax(x, 1)\nq = {value}\nprint(torch.log(q))\n"
    assert rule.may(of(text)) and rule.may_unless_preview(of(text)) is sure
    for sieve in (Sieve([rule], preview=True), Sieve([rule], unsure=True)):
        assert sieve.by_syntax(text.encode(), [rule]) == (rule,)
    assert Sieve([rule]).by_syntax(text.encode(), [rule]) == ((rule,) if sure else ())


def test_gradients_are_read_where_something_goes_backward() -> None:
    rule = find("AMP102")
    assert rule is not None
    read = b"for p in parameters():\n    print(p.grad.norm())\nwandb.watch(net)\nscaler.scale(1)\n"
    assert Sieve([rule]).by_bytes(read) == ()
    for scaled in (b"loss.backward()\n", b"scaler = GradScaler()\n"):
        assert Sieve([rule]).by_bytes(read + scaled) == (rule,)
        assert Sieve([rule]).by_syntax(read + scaled, [rule]) == (rule,)


@pytest.mark.parametrize("module", [ast, argparse, dataclasses, fractions, typing])
def test_all_nodes_of_a_tree_are_met(module: types.ModuleType) -> None:
    """But for operators, and for what makes no difference where it is more than two."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, (ast.BoolOp, ast.JoinedStr)):
            del node.values[2 if isinstance(node, ast.BoolOp) else 1 :]
    signs = (ast.boolop, ast.cmpop, ast.expr_context, ast.operator, ast.unaryop)
    nodes = [node for node in ast.walk(tree) if not isinstance(node, signs)]
    assert facts(tree).nodes == nodes


def test_parts_of_formatted_strings_are_no_identifiers() -> None:
    text = "a(f'{b}_c', 'd', f'e', f'{f}!')"
    assert of(text).words == {"a", "b", "d", "e", "f"}


def test_every_rule_has_a_condition_on_bytes() -> None:
    empty = Sieve(all_rules())
    assert empty.by_bytes(b"import torch\nx = torch.ones(1)\n") == ()


def module(number: int) -> str:
    made = f"        self.{{}} = M{number + 1}()\n"
    init = f"    def __init__(self):\n{made.format('a')}{made.format('b')}"
    forward = "    def forward(self, x):\n        return torch.log(self.a(x)) + self.b(x)\n"
    return f"class M{number}(nn.Module):\n{init}{forward}"


def nested(count: int) -> str:
    """Modules, each of which holds the next one twice, and the last a softmax."""
    last = (
        f"class M{count}(nn.Module):\n    def forward(self, x):\n        return torch.{{}}(x, 1)\n"
    )
    return "".join(map(module, range(count))) + last


def test_what_leads_far_is_followed_in_linear_time() -> None:
    """However deep, and however many modules have the same names in them."""

    rule = find("AMP301")
    assert rule is not None

    def seconds(count: int) -> float:
        found = [of(nested(count).format(name)) for name in ("softmax", "relu")]
        started = time.process_time()
        assert [rule.may(each) for each in found] == [True, False]
        return time.process_time() - started

    seconds(10)
    assert seconds(1_200) < 20 * max(seconds(120), 0.02)
