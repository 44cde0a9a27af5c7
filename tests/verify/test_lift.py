"""What terms keep of expressions: whatever no experiment looks at may not change unseen."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_lint.verify.compare import compare, lifted
from amp_lint.verify.compare.erase import Eraser
from amp_lint.verify.obligations import Expression

PROGRAM = """
    import torch
    import torch.nn.functional as F
    from torch import nn


    def pick(x, *, dim):
        return x.argmax(dim)


    class Step:
        def __init__(self, model, T):
            self.model = model
            self.T = T
            self.layer = nn.Linear(4, 4)
            self.layers = [self.layer, self.layer]
            self.drop = nn.Dropout(0.1)
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95))
            self.optimizers = [torch.optim.SGD(p, lr=0.1, nesterov=True) for p in model.groups()]

        def loss(self, model, x, y, low, high, first, second, scaler):
            noise = torch.randn_like(x)
            kept = self.drop(x)
            found = model(x + noise)
            if first and second:
                found = found * 2
            if low < y < high:
                found = found + 1
            old = model.weight.detach().clone()
            size = x.norm()
            self.change(x)
            moved = (model.weight - old).norm()
            logs = {**self.state, "moved": moved, "text": f"{moved:.2f} of {size}"}
            names = [name for name, value in model.items() if value.ndim > 1]
            key = lambda item, reverse=False: item.size
            loss = F.mse_loss(found, noise) + kept.mean() + pick(x, dim=1).sum()
            loss = loss + -torch.log(F.softmax(found / self.T, dim=1)).mean()
            scaler.scale(loss).backward()
            return loss.item(), logs, names, key
"""
CHANGES = {
    "optimizer class": ("torch.optim.AdamW(", "torch.optim.Adam("),
    "learning rate": ("lr=3e-4", "lr=3e-3"),
    "betas": (", betas=(0.9, 0.95)", ""),
    "learning rate in a list": ("lr=0.1, nesterov", "lr=0.2, nesterov"),
    "nesterov": (", nesterov=True", ""),
    "and, or": ("first and second", "first or second"),
    "chained comparison": ("low < y < high", "low > y > high"),
    "one of two comparisons": ("low < y < high", "low < y <= high"),
    "noise drawn again": ("F.mse_loss(found, noise)", "F.mse_loss(found, torch.randn_like(x))"),
    "dropout drawn again": ("kept.mean()", "self.drop(x).mean()"),
    "late snapshot": ("(model.weight - old)", "(model.weight - model.weight.detach().clone())"),
    "late reading": ("of {size}", "of {x.norm()}"),
    "format": (":.2f}", ":.3f}"),
    "text around a format": ("of {size}", "in {size}"),
    "conversion": ("{size}", "{size!r}"),
    "unpacked dict": ("**self.state,", "self.state: 1,"),
    "condition of a comprehension": ("value.ndim > 1]", "value.ndim >= 1]"),
    "default of a lambda": ("reverse=False", "reverse=True"),
    "logged loss": ("return loss.item()", "return scaler.scale(loss).item()"),
    "argument by name": ("pick(x, dim=1)", "pick(x, dim=0)"),
    "temperature": ("found / self.T", "found / self.t"),
}


def test_an_unchanged_program_leaves_nothing() -> None:
    text = textwrap.dedent(PROGRAM)
    found = compare(text, text + "\n# a comment\n")
    assert (found.obligations, found.reasons) == ((), ())


@pytest.mark.parametrize("name", CHANGES)
def test_what_no_check_looks_at_is_told(name: str) -> None:
    old, new = CHANGES[name]
    before = textwrap.dedent(PROGRAM)
    assert before.count(old) == 1
    found = compare(before, before.replace(old, new))
    assert found.obligations or found.reasons


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scaler.scale(loss).backward()", "scaled = scaler.scale(loss); scaled.backward()"),
        (
            "F.mse_loss(found, noise) +",
            "F.mse_loss(\n                found, noise\n            ) +",
        ),
        (
            "if first and second:",
            "if (\n                first\n                and second  # both\n            ):",
        ),
        ("old = model", "before = model; old = model"),
        ("moved = (model", "change = (model"),
    ],
)
def test_what_makes_no_difference_is_not_told(old: str, new: str) -> None:
    before = textwrap.dedent(PROGRAM)
    after = before.replace(old, new)
    if "change =" in new:
        after = after.replace('"moved": moved', '"moved": change').replace("{moved:", "{change:")
    assert before != after
    found = compare(before, after)
    assert (found.obligations, found.reasons) == ((), ())


def test_a_temperature_is_no_transpose() -> None:
    before = textwrap.dedent(PROGRAM)
    new = "F.log_softmax(found / self.T, dim=1).mean()"
    after = before.replace("torch.log(F.softmax(found / self.T, dim=1)).mean()", new)
    (obligation,) = compare(before, after).obligations
    assert "key='self.T'" in repr(obligation)


@pytest.mark.parametrize("wrap", ["torch.nn.DataParallel", "torch.compile"])
def test_a_module_that_wraps_what_it_replaces(wrap: str) -> None:
    """What it was before comes from elsewhere, so that its only value is made of itself."""
    before = textwrap.dedent(f"""
        import torch


        class Trainer:
            def __init__(self, parts):
                self.model, self.optimizer = parts
                self.model = {wrap}(self.model)

            def train(self, batches):
                for batch in batches:
                    with torch.cuda.amp.autocast():
                        loss = self.model(batch).mean()
                    loss.backward()
                    self.optimizer.step()
    """)
    found = compare(before, before.replace("cuda.amp.autocast()", 'amp.autocast("cuda")'))
    assert found.obligations and found.reasons == ()


GATE = """
    import torch
    from torch import nn


    class Gate(nn.Module):
        def __init__(self, width, parts):
            super().__init__()
            self.gate = nn.Softmax(dim=1)
            self.body = nn.Linear(width, width)
            self.attend(parts)

        def attend(self, parts):
            self.parts = parts

        def forward(self, x):
            found = self.body(x)
            return torch.log(self.gate(found))


    class Options:
        def __init__(self, given):
            self.given = given


    def change(net, name, layer, seen):
        return net
"""
TAKEN, BODY = "        self.parts = parts", "    return net"
"""Where a method of the class, and a function beside it, do more."""


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (BODY, "net.gate.register_forward_hook(seen)"),
        (BODY, "net.gate.register_full_backward_hook(seen)"),
        (BODY, "for part in net.modules():\n        part.register_forward_pre_hook(seen)"),
        (BODY, "nn.modules.module.register_module_forward_pre_hook(seen)"),
        (BODY, "nn.Module.register_forward_hook(net.gate, seen)"),
        (BODY, 'getattr(net.gate, "register_forward_hook")(seen)'),
        (BODY, "net.gate._forward_hooks[0] = seen"),
        (BODY, 'net.add_module("gate", layer)'),
        (BODY, 'nn.Module.register_module(net, "gate", layer)'),
        (BODY, 'net.set_submodule("gate", layer)'),
        (BODY, "setattr(net, name, layer)"),
        (BODY, "list(map(setattr, [net], [name], [layer]))"),
        (BODY, 'net._modules["gate"] = layer'),
        (BODY, "net._modules.update(gate=layer)"),
        (BODY, 'vars(net)["gate"] = layer'),
        (BODY, "net.gate, net.body = layer"),
        (BODY, "net.gate: nn.Module = layer"),
        (BODY, "for net.gate in layer:\n        seen(net)"),
        (BODY, "net.gate.dim = 0"),
        (BODY, "net.gate.__class__ = layer"),
        (BODY, 'net.gate.__dict__["dim"] = 0'),
        (BODY, "nn.Softmax.forward = layer"),
        (BODY, 'getattr(net.gate, f"register_{name}_hook")(seen)'),
        (BODY, "net.gate.forward = layer"),
        (BODY, "for part in net.children():\n        part.dim = 0"),
        (TAKEN, "setattr(self, parts[0], parts[1])"),
        (TAKEN, "self.__dict__.update(parts)"),
        (TAKEN, "super().__setattr__(*parts)"),
        (TAKEN, "self.gate, self.body = parts"),
        (TAKEN, "self.gate.dim = len(parts)"),
    ],
)
def test_a_module_that_is_changed_or_hooked_is_no_function(place: str, code: str) -> None:
    before = textwrap.dedent(GATE)
    after = before.replace("torch.log(self.gate(found))", "torch.log_softmax(found, dim=1)")
    assert not compare(before, after).reasons
    more = f"{place[: len(place) - len(place.lstrip())]}{code}\n{place}"
    assert compare(before.replace(place, more), after.replace(place, more)).reasons


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (BODY, "net.body.register_forward_hook(seen)"),
        (BODY, 'setattr(net, "body", layer)'),
        (BODY, 'net._modules["body"] = layer'),
        (BODY, "net.body.weight.data = layer"),
        (BODY, "net.limit = layer"),
        (BODY, "torch.backends.cudnn.benchmark = True"),
        (BODY, "Gate(3, layer).register_forward_hook(seen)"),
        (BODY, "seen(net._modules.values())"),
        (
            "        self.given = given",
            "for key in given:\n            setattr(self, key, given[key])",
        ),
        ("        self.given = given", "self.__dict__.update(given)"),
    ],
)
def test_other_changes_leave_a_module_what_it_is(place: str, code: str) -> None:
    before = textwrap.dedent(GATE)
    after = before.replace("torch.log(self.gate(found))", "torch.log_softmax(found, dim=1)")
    more = f"{place[: len(place) - len(place.lstrip())]}{code}\n{place}"
    assert not compare(before.replace(place, more), after.replace(place, more)).reasons


@pytest.mark.parametrize(
    "code",
    ["act = nn.Softmax(dim=1)\n    act.register_forward_hook(seen)\n    return torch.log(act(x))"],
)
def test_a_hooked_module_of_a_local_name(code: str) -> None:
    before = f"import torch\nfrom torch import nn\n\n\ndef f(x, seen):\n    {code}\n"
    after = before.replace("torch.log(act(x))", "torch.log_softmax(x, dim=1)")
    assert compare(before, after).reasons


NAMED = """
    import torch
    from torch import nn

    act = nn.Softmax(dim=1).cuda()


    def score(x, seen):
        return torch.log(act(x))
"""
SCORE = "def score(x, seen):\n"


@pytest.mark.parametrize(
    ("change", "is_followed"),
    [
        ((SCORE, SCORE), True),
        (("nn.Softmax(dim=1).cuda()", "nn.Softmax(dim=1).to(torch.device('cuda'))"), True),
        (("nn.Softmax(dim=1).cuda()", "nn.Softmax(dim=1).apply(print)"), False),
        (("nn.Softmax(dim=1).cuda()", "nn.Softmax(dim=1) if print else nn.Sigmoid()"), False),
        (("score(x, seen)", "score(x, act)"), False),
        ((SCORE, f"def other(x):\n    global act\n    act = x\n\n\n{SCORE}"), False),
        ((SCORE, f"def other(x):\n    act.dim = x\n\n\n{SCORE}"), False),
        ((SCORE, f"def other(x):\n    globals()['act'] = x\n\n\n{SCORE}"), False),
        ((SCORE, f"for act in torch.load('all'):\n    pass\n\n\n{SCORE}"), False),
        ((SCORE, f"{SCORE}    act.register_forward_hook(seen)\n"), False),
    ],
)
def test_a_name_of_the_module_is_followed_to_what_it_was_made(
    change: tuple[str, str], is_followed: bool
) -> None:
    before = textwrap.dedent(NAMED).replace(*change)
    after = before.replace("torch.log(act(x))", "torch.log_softmax(x, dim=1)")
    assert (not compare(before, after).reasons) is is_followed


@pytest.mark.parametrize("given", ["model(next(a)), dim=1)", "input=model(next(a)), dim=next(b))"])
def test_an_operation_of_what_is_called_does_nothing_itself(given: str) -> None:
    head = "import torch\n\n\ndef f(a, b, model):\n    return torch."
    found = compare(f"{head}log(torch.softmax({given})\n", f"{head}log_softmax({given}\n")
    assert not found.reasons
    (obligation,) = found.obligations
    assert isinstance(obligation, Expression) and not obligation.contexts


NOISY = """
    import torch
    from other import Drawn, Read, watched


    class Draw:
        def __get__(self, owner, kind=None):
            return torch.randn(2)


    class Late(Draw):
        pass


    class Width:
        def __init__(self, width):
            self.width = width


    class Net(torch.nn.Module):
        def draw(self):
            return torch.randn(2)

        {of_class}

        def forward(self, x):
            return x + self.noise * self.noise


    {of_module}
"""


@pytest.mark.parametrize(
    ("of_class", "of_module", "reads"),
    [
        ("@property\n        def noise(self):\n            return torch.randn(2)", "", 2),
        ("@watched\n        def noise(self):\n            return torch.randn(2)", "", 2),
        ("@Draw\n        def noise(self):\n            return torch.randn(2)", "", 2),
        ("noise = property(draw)", "", 2),
        ("noise = property(draw) if torch.__version__ else 0.5", "", 2),
        ("noise = Draw()", "", 2),
        ("noise = Late()", "", 2),
        ("noise = Drawn(0.5)", "", 2),
        ("noise: float = Drawn(0.5)", "", 2),
        ("kept = 1", "Net.noise = property(Net.draw)", 2),
        ("kept = 1", 'setattr(Net, "noise", property(Net.draw))', 2),
        ("def __getattr__(self, name):\n            return torch.randn(2)", "", 2),
        ("noise = 0.5", "", 1),
        ("noise = Width(3)", "", 1),
        ("noise = float(3)", "", 1),
        ("noise = torch.ones(3)", "", 1),
        ("def __getattr__(self, name):\n            return getattr(self.net, name)", "", 1),
    ],
)
def test_an_attribute_that_may_compute_is_read_each_time(
    of_class: str, of_module: str, reads: int
) -> None:
    text = textwrap.dedent(NOISY.format(of_class=of_class, of_module=of_module))
    found = lifted(text, "net.py")
    assert isinstance(found, Eraser)
    forward = found.model.tree.below(found.side.units["Net.forward"], cst.Attribute)
    terms = [found.side.lifter.term(each, {}) for each in forward if each.attr.value == "noise"]
    assert (len(terms), len({*terms})) == (2, reads)
