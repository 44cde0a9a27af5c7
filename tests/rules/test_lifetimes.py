"""Which scalers are made again while their optimizer lives on."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import libcst as cst
import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.scaling._lifetimes import Lifetimes, Recreation
else:
    from amp_lint.rules.scaling._lifetimes import Lifetimes, Recreation

HEADER = "import torch\nfrom torch.amp import GradScaler\n"
STEP = "s.scale(loss(x)).backward(); s.step(opt); s.update()"
IN_LOOP = """\
def train(opt, data):
    for x in data:
        s = GradScaler()
        STEP
"""
IN_FUNCTION = """\
def epoch(opt, data):
    s = GradScaler()
    for x in data:
        STEP

def train(opt, data):
    while True:
        epoch(opt, data)
"""


def recreated(text: str) -> list[Recreation]:
    return model_of(HEADER + textwrap.dedent(text).replace("STEP", STEP)).part(Lifetimes).recreated


def test_in_loop() -> None:
    (found,) = recreated(IN_LOOP)
    assert isinstance(found.again, cst.For) and found.before is found.again


@pytest.mark.parametrize(
    "made",
    [
        "s: object = GradScaler()",
        "s, t = GradScaler(), 0",
        "y = amp; s = GradScaler() if y else None",
        "t = s = GradScaler()",
        "s = t = GradScaler()",
    ],
)
@pytest.mark.parametrize("program", [IN_LOOP, IN_FUNCTION])
def test_other_assignments(program: str, made: str) -> None:
    assert len(recreated(program.replace("s = GradScaler()", made))) == 1


@pytest.mark.parametrize(
    ("old", "new"), [("s.step(opt)", "o = opt; s.step(o)"), ("s.scale", "t = s; t.scale")]
)
@pytest.mark.parametrize("program", [IN_LOOP, IN_FUNCTION])
def test_other_names(program: str, old: str, new: str) -> None:
    assert old in STEP
    assert len(recreated(program.replace("STEP", STEP.replace(old, new)))) == 1


def test_in_function() -> None:
    (found,) = recreated(IN_FUNCTION)
    assert isinstance(found.again, cst.Call) and found.before is None


IN_STEP = """\
def advance(opt, x):
    s = GradScaler()
    STEP
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("def advance(opt, x)", "def advance(x, *, opt=None)"), ("advance", "train_step")],
)
def test_in_step(old: str, new: str) -> None:
    (found,) = recreated(IN_STEP.replace(old, new))
    assert isinstance(found.again, cst.FunctionDef)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("advance", "test_advance"),
        ("opt, x", "x"),
        ("    STEP", "    opt = make(x)\n    STEP"),
        ("    STEP", "    for _ in x:\n        STEP"),
        ("    STEP", "    s.load_state_dict(x)\n    STEP"),
        ("    STEP", "    again = s\n    again.load_state_dict(x)\n    STEP"),
        ("    STEP\n", "    STEP\nadvance(o, 1)\n"),
    ],
)
def test_silent_in_step(old: str, new: str) -> None:
    assert old in IN_STEP
    assert not recreated(IN_STEP.replace(old, new))


AFTER_LOAD = """\
class Trainer:
    def __init__(self):
        self.s = GradScaler()
    def load(self, state):
        self.s.load_state_dict(state)
    def fit(self, opt, data):
        self.s = GradScaler()
        for x in data:
            SELF_STEP
def main(opt, data, state):
    s = GradScaler()
    s.load_state_dict(state)
    s = GradScaler()
    for x in data:
        STEP
"""


RESUMING = """\
def advance(opt, x, s):
    STEP
class Trainer:
    def resume(self, s, state):
        s.load_state_dict(state)
    def run(self, opt, data, state):
        s = GradScaler()
        self.resume(s, state)
        for x in data:
            advance(opt, x, s)
"""


def test_a_state_that_is_loaded_into_the_new_one() -> None:
    assert not recreated(RESUMING)


def after_load(program: str) -> list[Recreation]:
    return recreated(program.replace("SELF_STEP", STEP.replace("s.", "self.s.")))


@pytest.mark.parametrize("load", ["self.s.", "again = self.s; again."])
def test_after_load(load: str) -> None:
    method, function = after_load(AFTER_LOAD.replace("self.s.load", f"{load}load"))
    assert isinstance(method.again, cst.Call) and isinstance(function.again, cst.Call)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    s.load_state_dict(state)\n    s =",
            "    s =",
        ),
        (
            "    for x in data:\n        STEP",
            "    s.load_state_dict(1)\n    for x in data:\n        STEP",
        ),
        ("    for x in data:\n        STEP", "    pass"),
        ("        self.s = GradScaler()\n    def load", "        pass\n    def load"),
        (
            "        for x in data:\n            SELF",
            "        self.load(x)\n        for x in data:\n            SELF",
        ),
        (
            "        self.s = GradScaler()\n        for",
            "        if data: self.s = GradScaler()\n        for",
        ),
    ],
)
def test_silent_after_load(old: str, new: str) -> None:
    assert old in AFTER_LOAD
    assert len(after_load(AFTER_LOAD.replace(old, new))) == 1


def test_an_attribute() -> None:
    program = """\
    class Trainer:
        def epoch(self, data, opt):
            self.s = GradScaler()
            for x in data:
                SELF_STEP
        def fit(self, data, opt):
            for _ in data:
                self.epoch(data, opt)
    """
    (found,) = after_load(program)
    assert isinstance(found.again, cst.Call)
    assert not after_load(
        program.replace("self.s = GradScaler()", "self.s = self.s or GradScaler()")
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("GradScaler()", "GradScaler(enabled=False)"),
        ("GradScaler()", "GradScaler(); s.load_state_dict(state)"),
        ("GradScaler()", "s or GradScaler()"),
        ("GradScaler()", "GradScaler() if not s else s"),
        ("GradScaler()", "GradScaler(init_scale=old); old = s.get_scale()"),
        ("s = GradScaler()", "s = GradScaler(); opt = make()"),
        ("s = GradScaler()", "s = GradScaler(); model, (opt, x) = make()"),
        ("STEP", "s.scale(x); s.update()"),
        ("STEP", "s.step(opt); s.update()"),
    ],
)
@pytest.mark.parametrize("program", [IN_LOOP, IN_FUNCTION])
def test_silent(program: str, old: str, new: str) -> None:
    assert old in program
    assert not recreated(program.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        s = GradScaler()", "        if s is None:\n            s = GradScaler()"),
        ("        s = GradScaler()", "        y = x\n        if y:\n            s = GradScaler()"),
        ("        s = GradScaler()", "        if not x:\n            s = GradScaler()"),
        ("        STEP", "        STEP\n        break"),
        ("        STEP", "        STEP\n        with x:\n            return"),
        ("        s = GradScaler()", "        try: f()\n        except OSError: s = GradScaler()"),
    ],
)
def test_silent_in_loop(old: str, new: str) -> None:
    assert old in IN_LOOP
    assert not recreated(IN_LOOP.replace(old, new))


def test_in_a_loop_that_an_error_leads_to() -> None:
    text = IN_LOOP.replace("    for", "    try: f()\n    except OSError:\n     for")
    assert len(recreated(text)) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epoch(opt, data)\n", "epoch(*args)\n"),
        ("epoch(opt, data)\n", "epoch(make(), data)\n"),
        ("        epoch(opt, data)\n", "        opt = make()\n        epoch(opt, data)\n"),
        ("    for x in data:", "    for d in data:\n      for x in d:"),
        ("while True", "if True"),
    ],
)
def test_silent_in_function(old: str, new: str) -> None:
    assert old in IN_FUNCTION
    assert not recreated(IN_FUNCTION.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s = GradScaler()", "s = GradScaler(init_scale=x)"),
        ("s = GradScaler()", "s = GradScaler(init_scale=f())"),
        ("s = GradScaler()", "s = GradScaler(); y = 1"),
        ("s = GradScaler()", "s = GradScaler() if amp else None"),
        ("        s = GradScaler()", "        if amp:\n            s = GradScaler()"),
        ("        STEP", "        STEP\n        s = None"),
        ("        STEP", "        STEP\n        if x:\n            break"),
    ],
)
def test_found_but_not_moved(old: str, new: str) -> None:
    assert old in IN_LOOP
    (found,) = recreated(IN_LOOP.replace(old, new))
    assert (found.before is not None) is ("break" in new)


OWN_STEP = """\
class Trainer:
    def train_epoch(self):
        s = GradScaler() if self.half else None
        for x in self.data:
            s.scale(self.loss(x)).backward()
            self.optimizer.step("net", scaler=s)
"""


def test_an_optimizer_that_takes_the_step_itself() -> None:
    (found,) = recreated(OWN_STEP)
    assert isinstance(found.again, cst.FunctionDef)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scaler=s", "scaler=None"),
        ("train_epoch", "train"),
        ("self.optimizer.step", "self.log.step"),
        ("        for", "        self.optimizer = self.make()\n        for"),
    ],
)
def test_an_optimizer_that_starts_anew(old: str, new: str) -> None:
    assert not recreated(OWN_STEP.replace(old, new))


HEIRS = """\
import torch
class Base:
    def run(self, batches):
        for x in batches:
            self.training_step(x)
    def training_step(self, x):
        pass
class Plain(Base):
    def training_step(self, x):
        self.net(x).mean().backward()
        self.opt.step()
class Scaled(Base):
    def training_step(self, x):
        scaler = torch.amp.GradScaler("cuda")
        for part in x:
            scaler.scale(self.net(part).mean()).backward()
        scaler.step(self.opt)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("        pass\n", "        raise NotImplementedError\n", 1),
        ("            self.training_step(x)\n", "            self.other_step(x)\n", 0),
        ("class Scaled(Base)", "class Scaled", 0),
    ],
)
def test_a_step_that_one_of_several_subclasses_fills_in(old: str, new: str, count: int) -> None:
    program = HEIRS.replace(old, new) if old else HEIRS
    assert len(model_of(program).part(Lifetimes).recreated) == count
