"""Checkpoints with an optimizer and without its scaler, and where the scaler could be added."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from amp_lint import engine, registry
from amp_lint.model import Model
from amp_lint.selection import Selection
from amp_lint.syntax.project import Links
from amp_lint.text.source import Source
from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.scaling._checkpoints.data import Checkpoint
    from rules.scaling._checkpoints.incomplete import Checkpoints
    from rules.scaling._checkpoints.steps import ScaledSteps
else:
    from amp_lint.rules.scaling._checkpoints.data import Checkpoint
    from amp_lint.rules.scaling._checkpoints.incomplete import Checkpoints
    from amp_lint.rules.scaling._checkpoints.steps import ScaledSteps

PROGRAM = """\
import torch
from torch.amp import GradScaler
class Trainer:
    def __init__(self, net, opt):
        self.opt = opt
        self.s = GradScaler()
    def step(self, x):
        self.s.scale(x).backward()
        self.s.step(self.opt)
        self.s.update()
    def save(self, path, **more):
        state = {"net": 1, "opt": self.opt.state_dict()}
        torch.save(state, path)
    def load(self, path):
        state = torch.load(path)
        self.opt.load_state_dict(state["opt"])
"""
SCRIPT = """\
import torch
from torch.amp import GradScaler
def main(opt, path):
    s = GradScaler()
    state = torch.load(path)
    opt.load_state_dict(state["opt"])
    for x in path:
        s.scale(x).backward()
        s.step(opt)
        s.update()
    torch.save({"opt": opt.state_dict()}, path)
"""


def incomplete(program: str, old: str = "", new: str = "") -> list[Checkpoint]:
    return [each for each in unsaved(program, old, new) if each.is_sure]


def unsaved(program: str, old: str = "", new: str = "") -> list[Checkpoint]:
    assert old in program
    return model_of(program.replace(old, new) if old else program).part(Checkpoints).incomplete


@pytest.mark.parametrize(("program", "scaler"), [(PROGRAM, "self.s"), (SCRIPT, "s")])
def test_found(program: str, scaler: str) -> None:
    (found,) = incomplete(program)
    assert found.scaler == scaler
    assert found.load is not None


@pytest.mark.parametrize("program", [PROGRAM, SCRIPT])
def test_where_nothing_is_loaded_it_is_a_preview(program: str) -> None:
    old = next(line for line in program.splitlines() if ".load_state_dict(" in line)
    (found,) = unsaved(program, old, old.partition("opt")[0].partition("self")[0] + "pass")
    assert not found.is_sure
    assert found.scaler is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.save(state, path)", "torch.save(wrap(state), path)"),
        ("torch.save(state, path)", "self.save_checkpoint(state, path)"),
        ("torch.save(state, path)", "print(state); torch.save(state, path)"),
        ("torch.save(state, path)", "state.update({1: 2}); torch.save(state, path)"),
        ("self.opt.state_dict()", "self.opt.state_dict() if self.opt else None"),
        ('{"net": 1, "opt": self.opt.state_dict()}', "dict(opt=self.opt.state_dict())"),
        ('{"net": 1, "opt"', '{}; state["opt"] = self.opt.state_dict(); {"x"'),
        ('state = {"net"', 'o = self.opt.state_dict(); state = {"opt": o, "net"'),
        ("self.s = GradScaler()", "self.s: 'GradScaler' = GradScaler()"),
        ("self.s = GradScaler()", "self.s, self.n = GradScaler(), 0"),
        ("state = {", "state: dict = {"),
        ("self.opt.state_dict()}", "1}; torch.save(self.opt.state_dict(), path)"),
        ("self.opt.state_dict()}", '1}; state.update({"opt": self.opt.state_dict()})'),
        ("self.opt.state_dict()}", "[o.state_dict() for o in [self.opt]]}"),
        ("self.opt.state_dict()}", "[self.opt.state_dict()]}"),
        ("self.opt.state_dict()}", "{'a': self.opt.state_dict()}}"),
        (
            'state = {"net": 1, "opt": self.opt.state_dict()}',
            'of = {}\n        for k in ["opt"]: of[k] = self.opt.state_dict()\n'
            '        state = {"net": 1, "opts": of}',
        ),
        ("self.opt.state_dict()}", "[]}; state['opt'].append(self.opt.state_dict())"),
        ('state = {"net"', 'o = []; o.append(self.opt.state_dict()); state = {"o": o, "net"'),
        ("torch.save(state, path)", "x = path.get('use_grad_scaler'); torch.save(state, path)"),
        ("torch.save(state, path)", "check(path.amp); torch.save(state, path)"),
        ("(self, path, **more):", "(self, path, amp):\n        save_options(amp)"),
        (
            '{"net": 1, "opt": self.opt.state_dict()}',
            '{}; state[path] = self.opt.state_dict(); state["again"] = self.opt.state_dict()',
        ),
        ("torch.save(state, path)", "state['x'] = more[path]; torch.save(state, path)"),
        ("torch.save(state, path)", "print(self.s.state_dict()); torch.save(state, path)"),
        (
            "torch.save(state, path)",
            "x = self.s.state_dict()\n        for k, v in x.items(): print(k, v)\n"
            "        torch.save(state, path)",
        ),
        (
            "torch.save(state, path)",
            "state['again'] = self.opt.state_dict(); torch.save(state, path)",
        ),
        (
            "self.opt.load_state_dict(state",
            "for x, y in [('net', 1), ('opt', self.opt)]: y.load_state_dict(state",
        ),
        (
            "self.opt.load_state_dict(state",
            "all = []; all.append(('opt', self.opt))\n"
            "        for x, y in all: y.load_state_dict(state",
        ),
        ("self.opt.load_state_dict(", "old = state.pop('scaler', 0); self.opt.load_state_dict("),
        ("self.opt.load_state_dict(", "print('scaler' in state); self.opt.load_state_dict("),
        ("self.opt.load_state_dict(", "x = state['scaler']; self.opt.load_state_dict("),
    ],
)
def test_found_in_other_forms(old: str, new: str) -> None:
    assert len(incomplete(PROGRAM, old, new)) == 1


STAND_IN = """\
class Nothing:
    def scale(self, x):
        return x
    def step(self, optimizer):
        optimizer.step()
    def update(self): ...
class Trainer:"""


def test_what_stands_in_for_a_scaler() -> None:
    program = PROGRAM.replace("self.s", "self.scaler").replace("class Trainer:", STAND_IN)
    assert len(incomplete(program)) == 1
    assert not incomplete(program, "GradScaler()", "Nothing()")
    assert len(incomplete(program, "GradScaler()", "GradScaler() if net else Nothing()")) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("GradScaler()", "GradScaler(enabled=False)"),
        ("self.opt.load_state_dict(", "print("),
        (
            "self.opt.load_state_dict(state",
            "for x, y in [('opt', self.net)]: y.load_state_dict(state",
        ),
        ("torch.save(state, path)", "state[f'x{path}'] = more[path]; torch.save(state, path)"),
        ("torch.save(state, path)", "print(put(self.s.state_dict())); torch.save(state, path)"),
        ("torch.save(state, path)", "x = self.s.state_dict(); write(x); torch.save(state, path)"),
        (
            "torch.save(state, path)",
            "x = self.s.state_dict()\n        for k, v in x.items(): state[k] = v\n"
            "        torch.save(state, path)",
        ),
        ("torch.save(state, path)", "import torch_xla.core.xla_model as xm; xm.save(state, path)"),
        ("torch.save(state, path)", "return state"),
        ("torch.save(state, path)", "hook(state); torch.save(state, path)"),
        ("torch.save(state, path)", "self.on_save(state); torch.save(state, path)"),
        ("torch.save(state, path)", "state.update(more); torch.save(state, path)"),
        ("torch.save(state, path)", "state['x'] = self.s.state_dict(); torch.save(state, path)"),
        ("torch.save(state, path)", "state['scaler'] = f(); torch.save(state, path)"),
        ("torch.save(state, path)", "state['x'] = {'y': self.s}; torch.save(state, path)"),
        ("self.s.step(self.opt)", "self.opt.step()"),
        ("torch.save(state, path)", "save_all(state, path, self.s)"),
        ("torch.save(state, path)", "save_all(state, path, amp)"),
        ("torch.save(state, path)", "save_all(state, path, more['scaler'])"),
        (
            "torch.save(state, path)",
            "state['x'] = {1: more.get('scaler')}; torch.save(state, path)",
        ),
        ("torch.save(state, path)", "'scaler' == more; torch.save(state, path)"),
        ("torch.save(state, path)", "state[path] = more[path]; torch.save(state, path)"),
        ("def save(", "def save_with_apex(self): from apex import amp; save(amp)\n    def save("),
        ("torch.save(state, path)", "write(state, scaler=f()); torch.save(state, path)"),
        ('{"net": 1,', "{**more,"),
        ('"net": 1, "opt": self.opt.state_dict()', "'x': {'o': self.opt.state_dict(), **more}"),
        ('"net": 1, "opt": self.opt.state_dict()', "**more, 'x': {'o': self.opt.state_dict()}"),
        ('{"net": 1,', '{"all": self,'),
        ("self.opt.state_dict()", "None"),
        ("self.opt.state_dict()", "self.net.state_dict()"),
    ],
)
def test_silent(old: str, new: str) -> None:
    assert not incomplete(PROGRAM, old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.s = GradScaler()", "self.s = make()"),
        ("net, opt):", "net, opt, s):"),
        ("class Trainer:", "class Base:\n    s = GradScaler()\nclass Trainer(Base):"),
        ("torch.save(state, path)", "return state"),
        ('{"net": 1, "opt"', 'dict(); state = {"opt"'),
        ("self.opt.state_dict()", "copy.deepcopy(self.opt.state_dict())"),
    ],
)
def test_a_scaler_made_elsewhere(old: str, new: str) -> None:
    program = PROGRAM.replace("def save(self, path, **more)", "def state_dict(self, path)")
    if new != "return state":
        program = program.replace("def state_dict", "def save")
    if "s):" in new:
        program = program.replace("GradScaler()", "s")
    assert len(incomplete(program, old, new)) == 1


def test_another_optimizer_without_a_scaler() -> None:
    other = """\
    def probe(self, net, path):
        optim = torch.optim.SGD(net)
        optim.step()
        torch.save({"net": 1, "opt": optim.state_dict()}, path)
"""
    assert len(incomplete(PROGRAM + other)) == 1


WRAPPER = """\
import torch
class Scaler:
    state_dict_key = "amp_scaler"
    def __init__(self):
        self._s = torch.amp.GradScaler("cuda")
    def __call__(self, loss, o):
        self._s.scale(loss).backward()
        self._s.step(o)
        self._s.update()
    def state_dict(self):
        return self._s.state_dict()
    def load_state_dict(self, state):
        self._s.load_state_dict(state)
def main(net, data, path):
    optim = torch.optim.SGD(net)
    do = Scaler()
    optim.load_state_dict(torch.load(path)["o"])
    for x in data:
        do(net(x), optim)
    state = {"net": 1, "o": optim.state_dict()}
    torch.save(state, path)
"""


def test_a_wrapper_of_a_scaler() -> None:
    assert len(incomplete(WRAPPER)) == 1
    assert not incomplete(WRAPPER, "torch.save(", "state['x'] = do.state_dict(); torch.save(")


HELPERS = """\
import torch
def save(path, net, o):
    torch.save({"net": net.state_dict(), "o": o.state_dict()}, path)
def load(path, o):
    o.load_state_dict(torch.load(path)["o"])
def main(net, data, path):
    opt = torch.optim.SGD(net)
    s = torch.amp.GradScaler("cuda")
    load(path, opt)
    for x in data:
        s.scale(net(x)).backward()
        s.step(opt)
        s.update()
    save(path, net, opt)
"""


def test_helpers_that_get_the_optimizer() -> None:
    assert len(incomplete(HELPERS)) == 1
    saved = HELPERS.replace("s.update()", "s.update(); p = {'s': s.state_dict()}")
    assert not incomplete(saved)
    assert not incomplete(HELPERS, "    load(path, opt)\n", "")


TRAINING = """\
import torch
from torch.amp import GradScaler
def train(data, opt, scaler):
    for x in data:
        scaler.scale(x).backward()
        scaler.step(opt)
        scaler.update()
def main(opt, path):
    grad_scaler = GradScaler()
    state = torch.load(path)
    opt.load_state_dict(state["opt"])
    train(path, opt, grad_scaler)
    torch.save({"opt": opt.state_dict()}, path)
"""
IMPORTED = TRAINING.replace("def train(", "from engine import train\ndef validate(")


@pytest.mark.parametrize("program", [TRAINING, IMPORTED])
@pytest.mark.parametrize("given", ["grad_scaler", "scaler=grad_scaler"])
def test_a_scaler_that_is_handed_to_the_function_that_trains(program: str, given: str) -> None:
    (found,) = incomplete(program, "train(path, opt, grad_scaler)", f"train(path, opt, {given})")
    assert found.scaler == "grad_scaler"


@pytest.mark.parametrize(
    ("saved", "count"),
    [
        ("for each in hooks: each.on_save(state)", 1),
        ("state.update(hooks.state())", 1),
        ("hooks.add(grad_scaler); hooks.on_save(state)", 0),
        ("hooks.s = grad_scaler; hooks.on_save(state)", 0),
        ("hooks.load = grad_scaler.load; hooks.on_save(state)", 0),
        ("hooks.on_save(state, lambda: grad_scaler)", 0),
        ("hooks.on_save(state, grad_scaler if hooks else None)", 0),
        ("hooks.on_save(state, {'s': grad_scaler.state_dict()})", 0),
    ],
)
def test_a_checkpoint_is_handed_to_what_never_had_the_scaler(saved: str, count: int) -> None:
    program = TRAINING.replace("main(opt, path)", "main(opt, path, hooks)").replace(
        '    torch.save({"opt": opt.state_dict()}, path)',
        f'    state = {{"opt": opt.state_dict()}}\n    {saved}\n    torch.save(state, path)',
    )
    assert len(incomplete(program)) == count
    assert not incomplete(
        program, "    for x in data:", "    data.keep(scaler)\n    for x in data:"
    )


def test_a_scaler_that_is_handed_to_what_may_save_it() -> None:
    assert not incomplete(
        IMPORTED, "train(path, opt, grad_scaler)", "Trainer(path, opt, scaler=grad_scaler)"
    )
    assert not incomplete(IMPORTED, "train(path, opt, grad_scaler)", "run(path, opt, grad_scaler)")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.s = GradScaler()", "self.s = GradScaler() if net else None"),
        ("self.s = GradScaler()", "if net:\n            self.s = GradScaler()"),
        ("self.s = GradScaler()", "self.s = None; self.s = GradScaler()"),
        ("self.s = GradScaler()", "self.t = GradScaler(); self.s = GradScaler()"),
        ("self.s = GradScaler()", "self.save(net)\n        self.s = GradScaler()"),
        ("self.opt = opt", "self.begin()"),
        ("def __init__", "def setup"),
        ("class Trainer:", "class Trainer(Base):"),
    ],
)
def test_scaler_may_be_missing(old: str, new: str) -> None:
    program = PROGRAM.replace("    def step(", "    def begin(self): self.save(1)\n    def step(")
    (found,) = incomplete(program, old, new)
    assert found.scaler is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.opt = opt\n", "self.load(net)\n"),
        ('load_state_dict(state["opt"])', "load_state_dict(state)"),
        ('load_state_dict(state["opt"])', 'load_state_dict(f()["opt"])'),
        ('self.opt.load_state_dict(state["opt"])', 'x = self.opt.load_state_dict(state["opt"])'),
        ('self.opt.load_state_dict(state["opt"])', 'x = 1; self.opt.load_state_dict(state["opt"])'),
    ],
)
def test_no_place_to_load(old: str, new: str) -> None:
    (found,) = incomplete(PROGRAM, old, new)
    assert found.scaler == "self.s"
    assert found.load is None


def test_local_scaler_made_late() -> None:
    late = SCRIPT.replace("    s = GradScaler()\n", "").replace(
        "    for x", "    s = GradScaler()\n    for x"
    )
    (found,) = incomplete(late)
    assert found.scaler == "s"
    assert found.load is None


LOADED = """        if 'amp' in state:
            self.s.load_state_dict({})
"""


@pytest.mark.parametrize(
    ("given", "key"), [("state['amp']", "'amp'"), ("state.get('amp')", "'amp'"), ("state[0]", "")]
)
def test_a_load_that_knows_the_scaler(given: str, key: str) -> None:
    (found,) = incomplete(PROGRAM + LOADED.format(given))
    assert (found.key, found.load, found.scaler) == (key, None, "self.s")


WRAPPED = """import torch
from dataclasses import dataclass
@dataclass
class Noam:
    _inner: torch.optim.Optimizer
    rate: float = 1.0
    def state_dict(self):
        return self._inner.state_dict()
@dataclass
class Record:
    net: object
    optimizer: object
def save(record, path):
    torch.save({"o": record.optimizer.state_dict()}, path)
def main(net, path):
    optimizer = Noam(torch.optim.Adam(net.parameters()))
    optimizer.load_state_dict(torch.load(path))
    s = torch.amp.GradScaler("cuda")
    for x in path:
        s.scale(net(x)).backward()
        s.step(optimizer._inner)
        s.update()
    save(Record(net, optimizer), path)
"""


def test_an_optimizer_in_a_wrapper_and_a_record() -> None:
    assert len(incomplete(WRAPPED)) == 1
    elsewhere = WRAPPED.replace('s = torch.amp.GradScaler("cuda")', "s = net.scaler")
    assert len(incomplete(elsewhere)) == 1
    assert not incomplete(elsewhere, "step(optimizer._inner)", "step(net.optimizer)")
    assert not incomplete(elsewhere, "return self._inner.state_dict()", "return {}")


def test_caller_owns_the_scaler() -> None:
    saver = "def save(opt, path):\n    torch.save({'opt': opt.state_dict()}, path)\n"
    program = SCRIPT.replace("    torch.save({", "    save(opt, path)\n    print({")
    program = program.replace("def main", saver + "def main")
    (found,) = incomplete(program)
    assert found.scaler is None
    assert not incomplete(program.replace("    save(opt, path)\n", ""))


LISTED = """\
import torch
class Base:
    def __init__(self):
        self.all = []
    def save(self, path):
        state = {"step": 1, "all": []}
        for each in self.all:
            state["all"].append(each.state_dict())
        torch.save(state, path)
    def resume(self, optimizers):
        for held, one in zip(self.all, optimizers):
            held.load_state_dict(one)
class Gan(Base):
    def __init__(self, net):
        super().__init__()
        self.s = torch.amp.GradScaler("cuda")
        self.optimizer_g = torch.optim.Adam(net)
        self.all.append(self.optimizer_g)
    def step(self, loss):
        self.s.scale(loss).backward()
        self.s.step(self.optimizer_g)
        self.s.update()
"""


@pytest.mark.parametrize("name", ["optimizers", "opts"])
def test_optimizers_in_a_list(name: str) -> None:
    assert len(incomplete(LISTED, "self.all", f"self.{name}")) == 1
    assert not incomplete(LISTED, "self.all.append(", "self.all.append(self.net) or keep(")


@pytest.mark.parametrize(
    ("made", "optional"),
    [
        ("if net:\n            self.s = GradScaler()", 'self.s if hasattr(self, "s")'),
        ("self.s = GradScaler() if net else None", "self.s if self.s is not None"),
        ("self.s = GradScaler() if net else Fake()", None),
        ("self.t = self.s = GradScaler()", None),
        ("net.s = self.s = GradScaler()", None),
    ],
)
def test_an_attribute_that_may_be_missing(made: str, optional: str | None) -> None:
    assert [each.optional for each in incomplete(PROGRAM, "self.s = GradScaler()", made)] == [
        optional
    ]


REST = """\
import torch
class Trainer:
    def __init__(self, opt, path):
        self.opt = opt
        self.s = torch.amp.GradScaler("cuda")
        self.opt.load_state_dict(torch.load(path)["opt"])
    def train(self, data, path):
        for x in data:
            self.s.scale(x).backward()
            self.s.step(self.opt)
            self.s.update()
        self.save(path, loss=x)
    def save(self, path, **rest):
        torch.save({"opt": self.opt.state_dict(), **rest}, path)
"""


def test_the_rest_of_what_is_given() -> None:
    assert len(incomplete(REST)) == 1
    assert not incomplete(REST, "loss=x", "**x")
    assert not incomplete(REST, "loss=x", "scale=self.s")
    assert not incomplete(REST, "**rest}", "**self.rest}")
    assert not incomplete(REST, "self.save(path, loss=x)", "keep(self.save)")


EACH_OF_THE_REST = (
    REST[: REST.index("    def save")].replace("self.save(path,", "save(self.opt, path, x,")
    + """\
def save(opt, path, epoch, **rest):
    state = {"opt": opt.state_dict()}
    keep_all(rest)
    torch.save(state, path)
"""
)


def test_each_of_the_rest_may_be_saved() -> None:
    assert len(incomplete(EACH_OF_THE_REST)) == 1
    assert not incomplete(EACH_OF_THE_REST, "loss=x", "loss=self.s")
    assert len(incomplete(EACH_OF_THE_REST, "x, loss=x", "epoch=self.s")) == 1


@pytest.mark.parametrize(
    ("made", "optional"),
    [
        ("if path.amp:\n        s = GradScaler()", "s if path.amp"),
        ("if path.amp:\n        print(1)\n        s = GradScaler()", "s if path.amp"),
        ("if path.amp() > 1:\n        s = GradScaler()", None),
        ("s = None\n    if path.amp:\n        s = GradScaler()", None),
        ("if path.amp:\n        pass\n    else:\n        s = GradScaler()", None),
        ("if opt:\n        if path.amp:\n            s = GradScaler()", None),
    ],
)
def test_optional(made: str, optional: str | None) -> None:
    (found,) = incomplete(SCRIPT, "s = GradScaler()", made)
    assert found.scaler is None
    assert found.optional == optional


PAIR = """\
import torch
from torch.amp import GradScaler
def main(one, two, path):
    first, second = GradScaler(), GradScaler()
    state = torch.load(path)
    one.load_state_dict(state["one"])
    for x in path:
        first.scale(x).backward()
        first.step(one)
        first.update()
        second.scale(x).backward()
        second.step(two)
        second.update()
    torch.save({"two": two.state_dict(), "one": one.state_dict()}, path)
"""
PLAIN_AND_SCALED = """\
import torch
from torch.amp import GradScaler
def main(one, two, path):
    s = GradScaler()
    state = torch.load(path)
    one.load_state_dict(state["one"])
    for x in path:
        s.scale(x).backward()
        s.step(one)
        s.update()
    torch.save({"two": two.state_dict(), "one": one.state_dict()}, path)
"""
EACH_OF_A_LIST = """\
import torch
from torch.amp import GradScaler
def main(model, optimizers, path):
    s = GradScaler()
    for o, state in zip(optimizers, torch.load(path)):
        o.load_state_dict(state)
    for x in path:
        s.scale(model(x)).backward()
        for o in optimizers:
            s.step(o)
        s.update()
    torch.save({"states": [o.state_dict() for o in optimizers]}, path)
"""


@pytest.mark.parametrize(
    ("program", "optimizer", "scaler"),
    [(PAIR, "two", "second"), (PLAIN_AND_SCALED, "one", "s"), (EACH_OF_A_LIST, "optimizers", "s")],
)
def test_what_is_said_of_several(program: str, optimizer: str, scaler: str) -> None:
    rule = registry.find("AMP111")
    assert rule is not None
    (found,) = engine.check(Source(program.encode(), "train.py"), Selection((rule,)))
    assert f"the scaler of `{optimizer}`" in found.message
    assert found.help is not None and f"save `{scaler}.state_dict()`" in found.help


STEPPER = """\
import torch
from timm.utils import NativeScaler as Whole
def rounds(net, opt, whole, batches):
    for x in batches:
        whole(net(x), opt, parameters=net.parameters())
def main(net, opt, path, batches):
    takes = Whole()
    state = torch.load(path)
    opt.load_state_dict(state["opt"])
    rounds(net, opt, takes, batches)
    torch.save({"opt": opt.state_dict()}, path)
"""


def test_a_scaler_that_is_called_takes_the_step() -> None:
    (found,) = incomplete(STEPPER)
    assert found.scaler == "takes"
    saved = '"opt": opt.state_dict(), "takes": takes.state_dict()'
    assert not incomplete(STEPPER, '"opt": opt.state_dict()', saved)
    assert not incomplete(STEPPER, "        whole(net(x), opt, ", "        print(net(x), opt, ")
    assert not incomplete(STEPPER, "timm.utils", "elsewhere.utils")


TWO = """\
import torch
def main(g, d, opt, other, batches, path):
    one = torch.amp.GradScaler()
    two = torch.amp.GradScaler()
    opt.load_state_dict(torch.load(path)["opt"])
    for x in batches:
        one.scale(g(x)).backward()
        one.step(opt)
        one.update()
        two.scale(d(x)).backward()
        two.step(other)
        two.update()
    torch.save({"opt": opt.state_dict(), "scaler": one.state_dict()}, path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("one.state_dict()", "one.state_dict(), 'other': two.state_dict()", 0),
        ("one.state_dict()", "[s.state_dict() for s in (one, two)]", 0),
        ("    torch.save", "    keep(two)\n    torch.save", 0),
        ("        two.step(other)\n", "", 0),
        ("one.state_dict()", "any.state_dict()", 0),
    ],
)
def test_one_of_two_scalers_is_not_saved(old: str, new: str, count: int) -> None:
    assert [each.is_sure for each in unsaved(TWO, old, new)] == [False] * count


PATCHED = """\
import torch
from apex import amp
def main(net, opt, path, batches):
    net, opt = amp.initialize(net, opt)
    opt.load_state_dict(torch.load(path)["opt"])
    for x in batches:
        opt.zero_grad()
        with amp.scale_loss(net(x).mean(), opt) as scaled:
            scaled.backward()
        opt.step()
    torch.save({"opt": opt.state_dict()}, path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("(net, opt)\n", '(net, opt, opt_level="O0")\n', 0),
        ('{"opt"', '{"amp": amp.state_dict(), "opt"', 0),
        ("net, opt = amp", "net, other = amp", 0),
    ],
)
def test_what_apex_patched(old: str, new: str, count: int) -> None:
    assert len(incomplete(PATCHED, old, new)) == count


PATCHED_ATTRIBUTE = """\
from dataclasses import dataclass
import torch
from apex import amp
@dataclass
class State:
    net: object
    opt: object
class Trainer:
    def __init__(self, net):
        opt = torch.optim.Adam(net.parameters())
        net, opt = amp.initialize(net, opt)
        self.state = State(net, opt)
        self.opt = opt
    def fit(self, path, batches):
        self.opt.load_state_dict(torch.load(path)["opt"])
        for x in batches:
            self.opt.zero_grad()
            with amp.scale_loss(x, self.opt) as scaled:
                scaled.backward()
            self.opt.step()
        torch.save({"opt": self.opt.state_dict()}, path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("self.opt.", "self.state.opt.", 1),
        ("self.opt = opt", "self.opt = torch.optim.SGD(net.parameters())", 0),
        ("        net, opt = amp", "        net, other = amp", 0),
    ],
)
def test_what_apex_patched_under_another_name(old: str, new: str, count: int) -> None:
    assert len(incomplete(PATCHED_ATTRIBUTE, old, new)) == count


PREPARED = """\
import torch
from accelerate import Accelerator
def main(net, batches, path, resume):
    accelerator = Accelerator(mixed_precision="fp16")
    opt = torch.optim.Adam(net.parameters())
    net, opt, batches = accelerator.prepare(net, opt, batches)
    if resume:
        opt.load_state_dict(torch.load(path)["opt"])
    for x in batches:
        opt.zero_grad()
        accelerator.backward(net(x).mean())
        opt.step()
    accelerator.save({"opt": opt.state_dict()}, path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ('"fp16"', '"bf16"', 0),
        ('"fp16"', 'resume or "fp16"', 1),
        ('"fp16")', '"fp16", deepspeed_plugin=resume)', 0),
        ("accelerator.save(", "accelerator.save_state(path); accelerator.save(", 0),
        ('"opt": opt', '"scaler": accelerator.scaler, "opt": opt', 0),
        ("net, opt, batches = accelerator.prepare(net, opt, batches)", "", 0),
        ("        opt.load_state_dict", "        net.load_state_dict", 0),
    ],
)
def test_the_scaler_of_accelerate(old: str, new: str, count: int) -> None:
    assert len(incomplete(PREPARED, old, new)) == count


@pytest.mark.parametrize(
    ("given", "named"),
    [('mixed_precision="fp16"', True), ("", False), ("**resume", False)],
)
def test_a_precision_that_others_choose_is_a_preview(given: str, named: bool) -> None:
    program = PREPARED.replace('mixed_precision="fp16"', given)
    model = model_of(program)
    (found,) = model.part(Checkpoints).incomplete
    framework = model.part(ScaledSteps).framework_of(found.steps)
    assert framework is not None
    assert framework.named is named


def test_what_is_said_of_accelerate() -> None:
    rule = registry.find("AMP111")
    assert rule is not None
    (found,) = engine.check(Source(PREPARED.encode(), "train.py"), Selection((rule,)))
    assert found.help is not None and "`accelerator.scaler.state_dict()`" in found.help
    assert found.fix is None  # it is None where the precision is another


OWN = """\
def Checkpoint(to_save, save_handler):
    pass
def load(to_load, checkpoint):
    pass
Checkpoint.load_objects, DiskSaver = load, str
"""
OBJECTS = """\
import torch
from ignite.engine import Engine
from ignite.handlers import Checkpoint, DiskSaver
from torch.amp import GradScaler
def main(net, opt, batches, path):
    s = GradScaler()
    def step(engine, x):
        s.scale(net(x).mean()).backward()
        s.step(opt)
        s.update()
    trainer = Engine(step)
    kept = {"net": net, "opt": opt}
    handler = Checkpoint(to_save=kept, save_handler=DiskSaver(path))
    Checkpoint.load_objects(to_load=kept, checkpoint=torch.load(path))
    trainer.run(batches)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("to_save=kept", 'to_save={"opt": opt}', 1),
        ("to_save=kept", "to_save={**kept}", 0),
        ('"opt": opt}', '"opt": opt, "s": s}', 0),
        ('"net": net, "opt": opt', '"net": net', 0),
        ("    Checkpoint.load_objects", "    Checkpoint.show_objects", 0),
        ("        s.step(opt)", "        opt.step()", 0),
        ("to_load=kept", 'to_load={"net": net}', 0),
        ("    handler =", "    extend(kept, s)\n    handler =", 0),
        ("from ignite.handlers import Checkpoint, DiskSaver", OWN, 0),
    ],
)
def test_objects_that_a_library_saves_and_loads(old: str, new: str, count: int) -> None:
    found = incomplete(OBJECTS, old, new)
    assert len(found) == count
    assert all(each.is_given for each in found)


OF_EACH_ROUND = """\
import torch
from torch.amp import GradScaler
def main(opt, loader, path):
    opt.load_state_dict(torch.load(path)["opt"])
    for epoch in range(9):
        s = GradScaler()
        for x in loader:
            s.scale(x).backward()
            s.step(opt)
            s.update()
        torch.save({"opt": opt.state_dict()}, path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 0),
        ("        torch.save", "            torch.save", 1),
        ("    for epoch in range(9):\n", "    if path:\n", 1),
        ("        torch.save", "        if epoch % 2:\n            torch.save", 0),
    ],
)
def test_a_scaler_of_each_round_has_no_state_to_save(old: str, new: str, count: int) -> None:
    assert len(incomplete(OF_EACH_ROUND, old, new)) == count


OF_EACH_EPOCH = """\
import torch
from torch.amp import GradScaler
class Trainer:
    def train_epoch(self, loader):
        s = GradScaler()
        for x in loader:
            s.scale(x).backward()
            s.step(self.opt)
            s.update()
    def save(self, path):
        torch.save({"opt": self.opt.state_dict()}, path)
    def load(self, path):
        self.opt.load_state_dict(torch.load(path)["opt"])
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 0),
        ("            s.update()", "            s.update()\n            self.save(path)", 1),
        ("train_epoch", "train", 1),
    ],
)
def test_a_scaler_of_each_epoch_has_no_state_to_save(old: str, new: str, count: int) -> None:
    assert len(incomplete(OF_EACH_EPOCH, old, new)) == count


ASKED = f"""{PROGRAM.replace("self.opt.state_dict()", "state_of(self.opt)")}
def state_of(part):
    return part.state_dict()
"""
HELPED = PROGRAM.replace(
    'self.opt.load_state_dict(state["opt"])',
    """self.put(self.net, state["net"]); self.put(self.opt, state["opt"])
    def put(self, part, state):
        part.load_state_dict(state)""",
)
REGISTRY = """\
import torch
from torch.amp import GradScaler
class Agent:
    def __init__(self):
        self.kept = {}
    def state(self, part):
        return part.state_dict() if hasattr(part, "state_dict") else part
    def save(self, path):
        torch.save({name: self.state(part) for name, part in self.kept.items()}, path)
    def load(self, path):
        for name, state in torch.load(path).items():
            part = self.kept.get(name)
            part.load_state_dict(state)
class Actor(Agent):
    def __init__(self, net):
        super().__init__()
        self.s = GradScaler()
        self.adam = torch.optim.Adam(net.parameters())
        self.kept["net"] = net
        self.kept["adam"] = self.adam
    def step(self, x):
        self.s.scale(x).backward()
        self.s.step(self.adam)
        self.s.update()
"""
RECORD = """\
import torch
from torch.amp import GradScaler
class State:
    def __init__(self, optimizer):
        self._optimizer = optimizer
    @property
    def optimizer(self):
        return self._optimizer
    def save(self, path):
        torch.save({"o": self.optimizer.state_dict()}, path)
    def load(self, path):
        self.optimizer.load_state_dict(torch.load(path)["o"])
def step(loss, state, scaler):
    scaler.scale(loss).backward()
    scaler.step(state.optimizer)
    scaler.update()
def main(net, loader):
    state = State(torch.optim.Adam(net.parameters()))
    scaler = GradScaler()
    for x in loader:
        given = x, state
        step(*given, scaler)
    state.save("x.pt")
"""


@pytest.mark.parametrize(
    ("program", "old", "new", "count"),
    [
        (ASKED, "", "", 1),
        (ASKED, "state_of(self.opt)", "state_of(self.net)", 0),
        (HELPED, "", "", 1),
        (HELPED, "self.put(self.opt,", "self.put(self.net,", 0),
        (REGISTRY, "", "", 1),
        (REGISTRY, '["adam"] = self.adam', '["adam"] = self.adam; self.kept["amp"] = self.s', 0),
        (REGISTRY, '["adam"] = self.adam', '["adam"] = net', 0),
        (RECORD, "", "", 1),
        (RECORD, "scaler.step(state.optimizer)", "scaler.step(state.other)", 0),
        (RECORD, "given = x, state", "given = x, 0", 0),
    ],
)
def test_an_optimizer_by_another_way(program: str, old: str, new: str, count: int) -> None:
    assert len(incomplete(program, old, new)) == count


ASKED = """\
import torch
class Net(torch.nn.Module):
    def fit(self, loader, path):
        self.scaler = torch.cuda.amp.GradScaler()
        for x in loader:
            self.scaler.scale(self(x)).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.save(path)
    def save(self, path):
        scaler = self.scaler.state_dict() if hasattr(self, "scaler") else None
        torch.save({"optimizer": self.optimizer.state_dict(), "scaler": scaler}, path)
    def load(self, path):
        state = torch.load(path)
        self.optimizer.load_state_dict(state["optimizer"])
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ('hasattr(self, "scaler")', "True", 1),
        (
            'self.optimizer.load_state_dict(state["optimizer"])',
            'self.optimizer.load_state_dict(state["optimizer"])\n        restore(state["scaler"])',
            0,
        ),
    ],
)
def test_who_asks_for_an_attribute_does_not_load_it(old: str, new: str, count: int) -> None:
    program = ASKED.replace(old, new) if old else ASKED
    rules = [each for each in registry.all_rules() if each.code == "AMP111"]
    selection = Selection(tuple(rules), preview=True)
    found = engine.check(Source(program.encode(), "net.py"), selection)
    assert [each.code for each in found] == ["AMP111"] * count


STATE = """\
import torch
def keep(path, state):
    torch.save({"optimizer": state["optimizer"].state_dict()}, path)
def main(net, loader, path):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    state = dict(optimizer=optimizer, scaler=scaler)
    for x in loader:
        scaler.scale(net(x)).backward()
        scaler.step(optimizer)
        scaler.update()
    keep(path, state)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        (
            "dict(optimizer=optimizer, scaler=scaler)",
            '{"optimizer": optimizer, "scaler": scaler}',
            1,
        ),
        ("keep(path, state)\n", "keep(path, state)\n    train_one(net, state)\n", 1),
        ("keep(path, state)\n", "keep(path, state)\n    save_all(path, state)\n", 0),
        ("keep(path, state)\n", "keep(path, state)\n    other = state\n", 0),
        ("keep(path, state)\n", "keep(path, state)\n    net.states[path] = state\n", 0),
    ],
)
def test_a_dict_of_which_a_helper_takes_what_it_saves(old: str, new: str, count: int) -> None:
    program = STATE if not old else (new.join(STATE.rsplit(old, 1)))
    assert len(unsaved(program)) == count


@pytest.mark.parametrize(
    "data",
    [
        "x_scaler = read(config['x_scaler_path'])\n    save(x_scaler.inverse_transform(path))",
        "x_scaler = read('x')\n    x_scaler.fit(path)\n    save_table(path, x_scaler)",
    ],
)
def test_a_scaler_of_data_is_none(data: str) -> None:
    (found,) = incomplete(SCRIPT, "s = GradScaler()", f"s = GradScaler()\n    {data}")
    assert found.scaler == "s"


def test_what_may_be_a_scaler() -> None:
    assert not incomplete(SCRIPT, "s = GradScaler()", "s = GradScaler()\n    save_it(x_scaler)")


FRAMEWORK = """\
import torch
from accelerate import Accelerator
def main(net, opt, loader, path):
    accelerator = Accelerator(mixed_precision="fp16")
    net, opt, loader = accelerator.prepare(net, opt, loader)
    for x in loader:
        accelerator.backward(net(x))
        opt.step()
        opt.zero_grad()
    torch.save(accelerator.unwrap_model(opt).state_dict(), path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("accelerator.unwrap_model(opt)", "opt", 1),
        ("unwrap_model(opt)", "unwrap_model(net)", 0),
        ('"fp16"', '"bf16"', 0),
    ],
)
def test_what_a_framework_unwraps(old: str, new: str, count: int) -> None:
    assert len(unsaved(FRAMEWORK, old, new)) == count


NEAR = """\
import torch
class Small:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")
    def step(self, loss, optimizer):
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()
    def save(self, optimizer, path):
        torch.save({"optimizer": optimizer.state_dict()}, path)
"""
FAR = """\
import torch
from near import Small
class Large:
    def __init__(self, loader):
        self.small = Small()
        self.scaler = torch.amp.GradScaler("cuda")
        self.optimizer = torch.optim.SGD(loader.parameters(), 0.1)
    def step(self, loss):
        self.small.step(loss, self.optimizer)
    def save(self, path):
        state = {"optimizer": self.optimizer.state_dict()}
        state["scaler"] = self.scaler.state_dict()
        torch.save(state, path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("self.scaler.state_dict()", "self.small.scaler.state_dict()", 0),
        ("self.scaler.state_dict()", "unknown.scaler.state_dict()", 0),
    ],
)
def test_another_scaler_that_is_saved_elsewhere(old: str, new: str, count: int) -> None:
    links = Links((FAR.replace(old, new).encode() if old else FAR.encode(),), {(1, "near"): 0})
    links = replace(links, callers=frozenset({1}))
    rules = [each for each in registry.all_rules() if each.code == "AMP111"]
    selection = Selection(tuple(rules), preview=True)
    found = engine.check(Source(NEAR.encode(), "near.py"), selection, links=links)
    assert [each.code for each in found] == ["AMP111"] * count


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ('state["opt"] = states', 'state[f"opt"] = states', 1),
        ('state["opt"] = states', 'state["opt"] = states\n    state[f"scaler"] = more', 0),
        ("torch.save(state, path)", "again = state\n    torch.save(again, path)", 1),
        (
            "torch.save(state, path)",
            "more = state\n    more.update(s)\n    torch.save(state, path)",
            0,
        ),
    ],
)
def test_other_names_for_a_checkpoint(old: str, new: str, count: int) -> None:
    saved = 'torch.save({"opt": opt.state_dict()}, path)'
    states = 'states = opt.state_dict()\n    state = {}\n    state["opt"] = states\n    '
    states += "torch.save(state, path)"
    assert len(unsaved(SCRIPT.replace(saved, states), old, new)) == count


HOLDER = """\
import torch
class Holder:
    def __init__(self, path, **kept):
        self.path, self.kept = path, kept
    def states(self, **more):
        state = {k: v.state_dict() if hasattr(v, "state_dict") else v for k, v in self.kept.items()}
        state.update(more)
        return state
    def load(self):
        state = torch.load(self.path)
        for k, v in self.kept.items():
            v.load_state_dict(state[k])
def main(net, batches):
    opt = torch.optim.Adam(net.parameters())
    s = torch.amp.GradScaler("cuda")
    holder = Holder("x.pt", net=net, opt=opt)
    holder.load()
    for x in batches:
        s.scale(net(x).mean()).backward()
        s.step(opt)
        s.update()
    torch.save(holder.states(), "x.pt")
"""
SAVED_BY_IT = HOLDER.replace(
    "        return state\n", '        torch.save(state, "x.pt")\n'
).replace("torch.save(holder.states()", "print(holder.states()")


@pytest.mark.parametrize("program", [HOLDER, SAVED_BY_IT])
@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("net=net, opt=opt", "**{'net': net, 'opt': opt}", 1),
        ("net=net, opt=opt", "**dict(net=net, opt=opt)", 1),
        ("net=net, opt=opt", "net=net", 0),
        ("net=net, opt=opt", "path=opt", 0),
        ("net=net, opt=opt", "opt=opt, amp=s", 0),
        ("holder.states()", "holder.states(amp=s.state_dict())", 0),
    ],
)
def test_what_an_object_keeps_of_all_that_it_is_given(
    program: str, old: str, new: str, count: int
) -> None:
    assert len(incomplete(program, old, new)) == count


def test_states_that_are_an_entry_of_what_is_saved_are_reported_there() -> None:
    within = HOLDER.replace("torch.save(holder.states(),", 'torch.save({"opt": holder.states()},')
    assert not incomplete(within)


FOUND_FIRST = """\
import torch
from tools import train
def find_rate(net, opt, batches):
    for x in batches:
        net(x).mean().backward()
        opt.step()
def main(net, batches):
    opt = torch.optim.Adam(net.parameters())
    s = torch.amp.GradScaler("cuda")
    opt.load_state_dict(torch.load("x.pt"))
    find_rate(net, opt, batches)
    train(net, opt, batches, scaler=s)
    torch.save(opt.state_dict(), "x.pt")
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("train(net, opt, batches, scaler=s)", "train(net, batches, scaler=s)", 0),
        ("train(net, opt, batches, scaler=s)", "train(net, opt, batches)", 0),
    ],
)
def test_a_plain_step_beside_a_training_that_gets_the_scaler(
    old: str, new: str, count: int
) -> None:
    assert len(incomplete(FOUND_FIRST, old, new)) == count


CHOSEN = """\
import torch
from tools import chosen
def main(args, net, opt, batches):
    SETUP
    opt.load_state_dict(torch.load("x.pt"))
    for x in batches:
        with torch.autocast("cuda", dtype=t):
            loss = net(x).mean()
        s.scale(loss).backward()
        s.step(opt)
        s.update()
    torch.save(opt.state_dict(), "x.pt")
"""
BY_HARDWARE = "t = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16"
BY_OPTION = "t = torch.bfloat16 if args.bf16 else torch.float16"


@pytest.mark.parametrize(
    ("dtype", "switch", "count"),
    [
        (BY_HARDWARE, "t == torch.float16", 1),
        (BY_OPTION, "args.bf16", 0),
        (BY_OPTION, "not args.bf16", 1),
        (BY_OPTION, "args.amp", 1),
        (BY_OPTION, "t == torch.bfloat16", 0),
        ("t = torch.bfloat16 if args.bf16 else torch.float", "args.amp", 0),
        ("t = torch.bfloat16 if args.bf16 else chosen(args)", "args.amp", 1),
        ("t = torch.bfloat16 if args.bf16 else chosen(args)", "t == torch.float16", 1),
        ("t = chosen(args)", "t == torch.float16", 1),
        ("t = chosen(args)", "t == torch.bfloat16", 1),
    ],
)
def test_a_scaler_that_serves_no_float16_has_no_scale_to_find(
    dtype: str, switch: str, count: int
) -> None:
    setup = f"{dtype}\n    s = torch.amp.GradScaler('cuda', enabled={switch})"
    assert len(incomplete(CHOSEN, "SETUP", setup)) == count


@pytest.mark.parametrize(("switch", "count"), [("args.bf16", 0), ("not args.bf16", 1)])
def test_what_is_saved_and_not_loaded_has_a_scale_to_find(switch: str, count: int) -> None:
    setup = f"{BY_OPTION}\n    s = torch.amp.GradScaler('cuda', enabled={switch})"
    program = (
        CHOSEN.replace("SETUP", setup)
        .replace("torch.load", "open_it")
        .replace(
            "torch.save(opt.state_dict()", 'torch.save({"o": opt.state_dict(), "s": s.state_dict()}'
        )
    )
    rules = tuple(rule for rule in registry.all_rules() if rule.code == "AMP111")
    assert len(engine.check(Source(program.encode(), "program.py"), Selection(rules))) == count


@pytest.mark.parametrize(
    ("check", "torch", "count"),
    [
        ("torch.cuda.is_bf16_supported()", (2, 4), 0),
        ("torch.cuda.is_bf16_supported()", (2, 3), 1),
        ("torch.cuda.is_bf16_supported()", None, 1),
        ("torch.cuda.is_bf16_supported(including_emulation=False)", (2, 4), 1),
        ("torch.cuda.get_device_capability()[0] >= 8", (2, 4), 1),
    ],
)
def test_a_check_for_bfloat16_that_always_says_yes(
    check: str, torch: tuple[int, int] | None, count: int
) -> None:
    dtype = f"t = torch.bfloat16 if {check} else torch.float16"
    setup = f"{dtype}\n    s = torch.amp.GradScaler('cuda', enabled=t == torch.float16)"
    source = Source(CHOSEN.replace("SETUP", setup).encode(), "program.py")
    assert len(Model(source, torch).part(Checkpoints).incomplete) == count


DERIVED = """\
import torch
from fvcore.common.checkpoint import Checkpointer
class Saver(Checkpointer):
    def save(self, name, **more):
        data = {"model": self.model.state_dict(), **more}
        for key, each in self.checkpointables.items():
            data[key] = each.state_dict()
        torch.save(data, f"{self.save_dir}/{name}.pt")
def train(model, optimizer, batches, path, resume):
    scaler = model.scaler
    saver = Saver(model, path, optimizer=optimizer)
    start = saver.resume_or_load(path, resume=resume)
    for x in batches:
        scaler.scale(model(x).mean()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    saver.save("last")
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("Saver(Checkpointer)", "Saver(Checkpointer)", 1),
        ("optimizer=optimizer)", "optimizer=optimizer, scaler=scaler)", 0),
        ("Saver(Checkpointer)", "Saver(Other)", 0),
        ('"model": ', '"scaler": self.model.scaler.state_dict(), "model": ', 0),
        ("    for x", '    saver.checkpointables["more"] = scaler\n    for x', 0),
        ("optimizer=optimizer)", "model=model)", 0),
    ],
)
def test_a_class_derived_from_a_checkpointer(old: str, new: str, count: int) -> None:
    assert old in DERIVED
    assert len(model_of(DERIVED.replace(old, new)).part(Checkpoints).incomplete) == count
