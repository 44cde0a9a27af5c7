"""The training-step events of small programs, path by path, printed as short texts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

import libcst as cst
import pytest

from amp_lint.amp.events import Event, Kind
from amp_lint.walk.evaluate import MAX_CYCLES
from amp_lint.walk.paths import Path
from amp_lint.walk.run import MAX_PATHS, Run
from tests.programs import model_of

CLIP = "torch.nn.utils.clip_grad_norm_"


def name(key: str | None) -> str:
    """``scaler`` for ``train@12:self.scaler``."""
    return re.split(r"[.:]", key)[-1] if key else ""


def show(event: Event) -> str:
    """An event in a word: ``scaled@`` is a backward of a scaled loss in an autocast region."""
    match event.kind:
        case Kind.BACKWARD:
            return ("scaled" if event.scaler else "backward") + ("@" if event.region else "")
        case Kind.UNSCALE:
            return f"unscale({name(event.optimizer)})"
        case Kind.STEP:
            return ("step" if event.scaler else "plain") + f"({name(event.optimizer)})"
        case Kind.ZERO_GRAD:
            return "zero"
        case Kind.GRADIENT_WRITE:
            return "write"
    return str(event.kind.value)


def cycles(text: str) -> list[str]:
    """The different cycles of all roots of a program, sorted."""
    program = textwrap.dedent(text).replace("clip(", f"{CLIP}(")
    roots = model_of("import torch\n" + program).steps.roots
    return sorted({" ".join(map(show, cycle)) for root in roots for cycle in root.cycles})


def train(body: str) -> list[str]:
    """The cycles of one function with this body."""
    parameters = "loss, loader, scaler, opt, opts, params, args, amp, a, b, k"
    return cycles(f"def f({parameters}):\n" + textwrap.indent(textwrap.dedent(body), "    "))


def test_one_setting_under_several_names() -> None:
    modes = """
first = args.amp
if first:
    scaler.scale(loss).backward()
else:
    loss.backward()
SECOND
if second:
    scaler.step(opt)
else:
    opt.step()
"""
    expected = ["backward plain(opt)", "scaled step(opt)"]
    assert train(modes.replace("SECOND", "second = args.amp")) == expected
    assert train(modes.replace("SECOND", "").replace("second", "args.amp")) == expected


# --- one path -------------------------------------------------------------------------------------


def test_a_whole_step() -> None:
    found = train(
        """
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        clip(params, 1)
        scaler.step(opt)
        scaler.update()
        """
    )
    assert found == ["zero scaled unscale(opt) clip step(opt) update"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("loss.backward()", ["backward"]),
        ("loss.mean().backward(retain_graph=True)", ["backward"]),
        ("torch.autograd.backward([loss])", ["backward"]),
        ("torch.autograd.backward(scaler.scale(loss))", ["scaled"]),
        ("accelerator.backward(loss)", ["backward"]),
        ("self.fabric.backward(loss)", ["backward"]),
        ("x = self.accelerator; x.backward(loss)", ["backward"]),
        ("x = accelerator; x.clip_grad_norm_(params)", ["unscale(*)"]),
        ("engine.backward(loss)", []),
        ("self.manual_backward(loss)", []),
        ("super().backward(loss)", []),
        ("scaler.scale(loss * k).backward()", ["scaled"]),
        ("(scaler.scale(loss)).mean().backward()", ["scaled"]),
        ("cast(Tensor, scaler.scale(loss)).backward()", ["scaled"]),
        (
            "scaler.scale(outputs=loss).backward(); scaler.unscale_(optimizer=opt); "
            "scaler.step(optimizer=opt)",
            ["scaled unscale(opt) step(opt)"],
        ),
        ("scaler.step(closure=k, optimizer=opt)", ["step(opt)"]),
        ("opt.step()", ["plain(opt)"]),
        ("self.optimizer.step()", ["plain(optimizer)"]),
        ("opts[0].step()", ["plain(opts[0])"]),
        ("scheduler.step()", ["scheduler step"]),
        ("lr_scheduler.step()", ["scheduler step"]),
        ("profiler.step()", []),
        ("loss.backward(); opt.step()", ["backward plain(opt)"]),
        ("params.grad = None", ["zero"]),
        ("params.grad *= 2", ["write"]),
        ("params.grad.data = 2", ["write"]),
        ("params.grad.data.div_(2)", ["write"]),
        ("params.grad.norm()", []),
        ("params.data.div_(2)", []),
        ("helper(loss, scaler); scaler.update()", ["opaque update"]),
        ("helper(loss, other); scaler.update()", ["update"]),
        ("if bool(scaler) and isinstance(scaler, k): scaler.update()", ["update"]),
        ("bool = other; bool(scaler); scaler.update()", ["opaque update"]),
        ("unscale_gradients(opt)", []),
        ("self.unscale_all(opt)", ["opaque"]),
        ("meter.update(loss)", []),
        ("x = [clip(p, 1) for p in params]", ["clip"]),
        ("if clip(params, 1) > 2: pass", ["clip"]),
        ("x = clip(params, 1).item()", ["clip"]),
        ("lambda: opt.step()", []),
    ],
)
def test_what_is_an_event(line: str, expected: list[str]) -> None:
    assert train(line) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("loss = scaler.scale(loss)\nloss.backward()", "scaled"),
        ("scaled = scaler.scale(loss)\ntotal = scaled.mean() / k\ntotal.backward()", "scaled"),
        ("loss = scaler.scale(loss)\nloss += k\nloss.backward()", "scaled"),
        ("loss /= scaler.scale(k)\nloss.backward()", "scaled"),
        ("loss = scaler.scale(loss)\nloss = k(a)\nloss.backward()", "backward"),
        ("loss = scaler.scale(loss)\nloss, x = k(a)\nloss.backward()", "backward"),
        ("other = scaler.scale(loss)\nloss.backward()", "backward"),
        ("self.loss = scaler.scale(loss)\nself.loss.backward()", "scaled"),
        ("loss: Tensor = scaler.scale(loss)\nloss.backward()", "scaled"),
        ("x = y = scaler.scale(loss)\ny.backward()", "scaled"),
        ("x, y = k(a), scaler.scale(loss)\ny.backward()", "scaled"),
        ("x, y = k(a), scaler.scale(loss)\nx.backward()", "backward"),
        ("x = scaler.scale(loss)\nx, y = y, x\nx.backward()", "backward"),
        ("if amp:\n    loss = scaler.scale(loss)\nloss.backward()", "backward | scaled"),
        ("(scaler.scale(loss) if amp else loss).backward()", "backward | scaled"),
    ],
)
def test_scaled_losses(body: str, expected: str) -> None:
    assert train(body) == expected.split(" | ")


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        ("", ["scaled"]),
        (", enabled=True", ["scaled"]),
        (", enabled=False", ["backward"]),
        (", enabled=amp", ["scaled"]),
    ],
)
def test_a_disabled_scaler_scales_nothing(enabled: str, expected: list[str]) -> None:
    body = f"amp_scaler = torch.amp.GradScaler('cuda'{enabled})\namp_scaler.scale(loss).backward()"
    assert train(body) == expected


def test_a_disabled_scaler_on_one_path() -> None:
    found = train(
        """
        amp_scaler = torch.amp.GradScaler("cuda", enabled=amp)
        if amp:
            clip(params, 1)
        amp_scaler.scale(loss).backward()
        """
    )
    assert found == ["backward", "clip scaled"]


# --- branches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("a > 1", ["scaled clip", "scaled"]),
        ("True", ["scaled clip"]),
        ("False", ["scaled"]),
        ("not a", ["scaled clip", "scaled"]),
        ("(i + 1) % k == 0", ["scaled clip", "scaled"]),
    ],
)
def test_branch(test: str, expected: list[str]) -> None:
    body = f"scaler.scale(loss).backward()\nif {test}:\n    clip(params, 1)"
    assert train(body) == sorted(expected)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("a", "a", "clip unscale(opt) | "),
        ("a", "not a", "clip | unscale(opt)"),
        ("a", "b", "clip | clip unscale(opt) | unscale(opt) | "),
        ("args.a", "args.a", "clip unscale(opt) | "),
        ("a is None", "a is not None", "clip | unscale(opt)"),
        ("a is None", "a", "clip | unscale(opt) | "),
        ("a", "a is None", "clip | unscale(opt) | "),
        ("a == 'x'", "a == 'y'", "clip | unscale(opt) | "),
        ("a == 'x'", "a != 'x'", "clip | unscale(opt)"),
        ("a == 'x'", "'x' == a", "clip unscale(opt) | "),
        ("a in ('x', 'y')", "a == 'x'", "clip | clip unscale(opt) | "),
        ("a == 'x'", "a in ('x', 'y')", "clip unscale(opt) | unscale(opt) | "),
        ("a and b", "a", "clip unscale(opt) | unscale(opt) | "),
        ("a or b", "not a", "clip | clip unscale(opt) | unscale(opt)"),
        ("not (a or b)", "a", "clip | unscale(opt) | "),
        ("bool(a)", "a", "clip unscale(opt) | "),
        ("a if b else False", "b", "clip unscale(opt) | unscale(opt) | "),
        ("k(a)", "k(a)", "clip unscale(opt) | "),
        ("a > 0", "a > 0", "clip unscale(opt) | "),
        ("a > 0", "a > 1", "clip | clip unscale(opt) | unscale(opt) | "),
    ],
)
def test_correlated_tests(first: str, second: str, expected: str) -> None:
    body = f"if {first}:\n    clip(params, 1)\nif {second}:\n    scaler.unscale_(opt)"
    assert train(body) == sorted(text for text in expected.split(" | ") if text)


@pytest.mark.parametrize(
    "between",
    [
        "a = k(b)",
        "a, b = k(b)",
        "a += 1",
        "for a in k:\n    pass",
        "if b:\n    a = 1\nelse:\n    a = k",
        "with k as c:\n    a = b",
    ],
)
def test_an_assignment_ends_the_correlation(between: str) -> None:
    body = f"if a:\n    clip(params, 1)\n{between}\nif a:\n    scaler.unscale_(opt)"
    assert train(body) == ["clip", "clip unscale(opt)", "unscale(opt)"]


@pytest.mark.parametrize(
    "between", ["c = a", "b = k(a)", "self.a = 1", "args.a = 1", "a.b = 1", "c.a = 1"]
)
def test_other_assignments_do_not(between: str) -> None:
    body = f"if a:\n    clip(params, 1)\n{between}\nif a:\n    scaler.unscale_(opt)"
    assert train(body) == ["clip unscale(opt)"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("True", ["clip"]),
        ("False", []),
        ("None", []),
        ("1", ["clip"]),
        ("''", []),
        ("torch.amp.GradScaler()", ["clip"]),
        ("k()", ["clip"]),
    ],
)
def test_assigned_constants_decide(value: str, expected: list[str]) -> None:
    found = train(f"a = {value}\nif a:\n    clip(params, 1)\nelse:\n    pass")
    assert found == expected


def test_a_conditional_scaler_goes_with_its_condition() -> None:
    found = train(
        """
        scaler = torch.amp.GradScaler("cuda") if args.amp else None
        if scaler is None:
            loss.backward()
        else:
            scaler.scale(loss).backward()
        if args.amp:
            scaler.unscale_(opt)
        if scaler:
            scaler.step(opt)
        else:
            opt.step()
        """
    )
    assert found == ["backward plain(opt)", "scaled unscale(opt) step(opt)"]


@pytest.mark.parametrize("test", ["args.fp16", "self.scaler is not None", "prec == 'amp'"])
def test_another_name_of_the_mode(test: str) -> None:
    """A setting that guards the scaler on one side is on where the loss was scaled."""
    found = train(
        f"""
        if amp:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if {test}:
            scaler.step(opt)
        else:
            opt.step()
        """
    )
    assert found == ["backward plain(opt)", "scaled step(opt)"]


@pytest.mark.parametrize(
    ("test", "leaving", "staying"),
    [
        ("not args.fp16", "opt.step()", "scaler.step(opt)"),
        ("args.fp16", "scaler.step(opt)", "opt.step()"),
        ("self.cpu", "opt.step()", "scaler.step(opt)"),
    ],
)
def test_a_mode_that_leaves(test: str, leaving: str, staying: str) -> None:
    """What stands below a branch that leaves is the other side of its test."""
    found = train(
        f"""
        if amp:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if {test}:
            {leaving}
            return
        {staying}
        """
    )
    assert found == ["backward plain(opt)", "scaled step(opt)"]


@pytest.mark.parametrize("loop", ["i", "i, x", "(i, x), y"])
def test_what_a_loop_changes_is_no_mode(loop: str) -> None:
    found = train(
        f"for {loop} in loader:\n    scaler.scale(loss).backward()\n    if i:\n"
        "        scaler.step(opt)\n        scaler.update()"
    )
    assert found == ["scaled", "scaled scaled", "scaled scaled step(opt) update",
                     "scaled step(opt) update"]  # fmt: skip


@pytest.mark.parametrize("test", ["i % k == 0", "loss > 1", "torch.isfinite(loss)", "bool(k + 1)"])
def test_what_changes_in_a_run_is_no_mode(test: str) -> None:
    found = train(f"scaler.scale(loss).backward()\nif {test}:\n    scaler.unscale_(opt)")
    assert found == ["scaled", "scaled unscale(opt)"]


def test_conditional_expression_and_match() -> None:
    assert train("scaler.scale(loss).backward() if amp else loss.backward()") == [
        "backward",
        "scaled",
    ]
    found = train(
        """
        match args.mode:
            case "amp":
                scaler.scale(loss).backward()
            case "plain":
                loss.backward()
        scaler.step(opt)
        """
    )
    assert found == ["backward step(opt)", "scaled step(opt)", "step(opt)"]


TWICE = """
match args.mode:
    case {amp}:
        scaler.scale(loss).backward()
    case {other}:
        loss.backward()
match args.mode:
    case {amp}:
        scaler.step(opt)
    case {other}:
        opt.step()
"""


@pytest.mark.parametrize("amp", ['"amp"', "True", '"amp" | "half"', "a.b", "k(name=1) as found"])
@pytest.mark.parametrize("other", ["_", "mode", "_ if k", "_ as rest"])
def test_one_setting_matched_twice(amp: str, other: str) -> None:
    found = train(TWICE.format(amp=amp, other=other))
    assert found == ["backward plain(opt)", "scaled step(opt)"]


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ("case 1:\n    opt.step()\ncase 1:\n    scaler.update()", ["plain(opt)"]),
        ("case 1 if b:\n    opt.step()\ncase 1:\n    opt.zero_grad()", ["plain(opt)"]),
        ("case 1 if k:\n    opt.step()\ncase 1:\n    opt.zero_grad()", ["plain(opt)", "zero"]),
        ("case b:\n    opt.step()\n    if b: opt.zero_grad()", ["plain(opt)", "zero"]),
        ("case 1:\n    if b: opt.step()\n    else: opt.zero_grad()", ["plain(opt)"]),
    ],
)
def test_cases_are_tried_in_order(cases: str, expected: list[str]) -> None:
    assert train("assert b\nmatch a:\n" + textwrap.indent(cases, "    ")) == expected


def test_assert() -> None:
    found = train("assert a\nif a:\n    clip(params, 1)\nelse:\n    loss.backward()")
    assert found == ["clip"]


# --- loops and exits ------------------------------------------------------------------------------


def test_loop_rounds() -> None:
    found = train(
        """
        for x in loader:
            scaler.scale(x).backward()
        scaler.step(opt)
        scaler.update()
        """
    )
    assert found == [
        "scaled scaled step(opt) update",
        "scaled step(opt) update",
        "step(opt) update",
    ]


def test_an_endless_loop_is_entered() -> None:
    found = train(
        """
        while True:
            scaler.scale(loss).backward()
            if k():
                break
        scaler.step(opt)
        scaler.update()
        """
    )
    assert found == ["scaled scaled step(opt) update", "scaled step(opt) update"]


def test_accumulation() -> None:
    found = train(
        """
        for i, x in enumerate(loader):
            scaler.scale(x).backward()
            if (i + 1) % k == 0:
                scaler.step(opt)
                scaler.update()
        """
    )
    assert found == [
        "scaled",
        "scaled scaled",
        "scaled scaled step(opt) update",
        "scaled step(opt) update",
    ]


@pytest.mark.parametrize(
    ("leave", "expected"),
    [
        (
            "continue",
            ["scaled", "scaled scaled", "scaled scaled clip update", "scaled clip update"],
        ),
        ("break", ["scaled", "scaled clip update"]),
        ("return", ["scaled", "scaled clip update"]),
        ("raise ValueError", ["scaled", "scaled clip update"]),
        ("pass", ["scaled clip update"]),
    ],
)
def test_leaving_a_round(leave: str, expected: list[str]) -> None:
    found = train(
        f"""
        for x in loader:
            scaler.scale(x).backward()
            if k(x):
                {leave}
            clip(params, 1)
            scaler.update()
        """
    )
    assert found == sorted(expected)


def test_loop_else() -> None:
    found = train(
        """
        while True:
            scaler.scale(loss).backward()
            if k():
                break
            scaler.update()
        """
    )
    assert found == ["scaled", "scaled update"]
    found = train(
        """
        for x in loader:
            scaler.scale(loss).backward()
            break
        else:
            clip(params, 1)
        """
    )
    assert found == ["clip", "scaled"]


def test_a_loop_over_optimizers_is_entered() -> None:
    found = train(
        """
        scaler.scale(loss).backward()
        for o in opts:
            scaler.unscale_(o)
        for p in params:
            clip(p, 1)
        for o in opts:
            scaler.step(o)
        scaler.update()
        """
    )
    assert found == ["scaled unscale(opts[*]) clip step(opts[*]) update"]


def test_a_loop_over_gradients_is_entered() -> None:
    found = train(
        """
        scaler.scale(loss).backward()
        for group in opt.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(2)
        scaler.step(opt)
        """
    )
    assert found == ["scaled write step(opt)"]


def test_the_active_optimizer_stays_active() -> None:
    found = train(
        """
        scaler.scale(loss).backward()
        for i, o in enumerate(opts):
            if i != args.active:
                continue
            scaler.unscale_(o)
        for i, o in enumerate(opts):
            if i != args.active:
                continue
            scaler.step(o)
        """
    )
    assert found == ["scaled unscale(o) step(o)"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "try:\n    scaler.scale(loss).backward()\nexcept E:\n    opt.zero_grad()\n"
            "scaler.update()",
            ["scaled update", "zero update"],
        ),
        (
            "try:\n    loss.backward()\nexcept E:\n    return\nelse:\n    clip(a, 1)\n"
            "finally:\n    scaler.update()\nopt.step()",
            ["backward clip update", "plain(opt)", "update"],
        ),
        (
            "try:\n    loss.backward()\n    return\nfinally:\n    clip(a, 1)\nscaler.unscale_(opt)",
            ["backward clip"],
        ),
        (
            "try:\n    raise ValueError\nexcept E:\n    clip(a, 1)\nloss.backward()",
            ["clip backward"],
        ),
        ("try:\n    loss.backward()\nfinally:\n    pass\nclip(a, 1)", ["backward clip"]),
        ("with k():\n    loss.backward()\nclip(a, 1)", ["backward clip"]),
        ("with k():\n    return\nclip(a, 1)", []),
        ("return loss.backward()\nclip(a, 1)", ["backward"]),
    ],
)
def test_try_and_with(body: str, expected: list[str]) -> None:
    assert train(body) == expected


# --- calls within the file ------------------------------------------------------------------------


def test_helper() -> None:
    found = cycles(
        """
        def finish(s, o):
            s.unscale_(o)
            clip(o.params, 1)
            s.step(o)
            s.update()

        def f(loss, scaler, opt):
            scaler.scale(loss).backward()
            finish(scaler, opt)
        """
    )
    assert found == ["scaled unscale(opt) clip step(opt) update"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("back(loss)", ["backward clip"]),
        ("back(loss, scaler)", ["scaled clip"]),
        ("back(loss, scaler=scaler, last=False)", ["scaled"]),
        ("back(loss, last=False)", ["backward"]),
        ("back(loss, None, last=k)", ["backward", "backward clip"]),
        ("back(*loss)", ["backward clip"]),
    ],
)
def test_arguments_and_defaults(call: str, expected: list[str]) -> None:
    found = cycles(
        f"""
        def back(loss, scaler=None, *, last=True):
            if scaler is not None:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            if last:
                clip(loss, 1)

        def f(loss, k):
            scaler = torch.amp.GradScaler("cuda")
            {call}
        """
    )
    assert found == expected


def test_a_returned_loss_is_scaled() -> None:
    found = cycles(
        """
        def scaled(loss, scaler):
            return scaler.scale(loss)

        def f(loss, scaler):
            scaled(loss, scaler).backward()
        """
    )
    assert found == ["scaled"]


def test_methods_share_self() -> None:
    found = cycles(
        """
        class Trainer:
            def __init__(self):
                self.scaler = torch.amp.GradScaler("cuda")

            def run(self, loss):
                self.back(loss)
                self.finish()

            def back(self, loss):
                self.scaler.scale(loss).backward()

            def finish(self):
                self.scaler.step(self.opt)
                self.scaler.update()
        """
    )
    assert found == ["scaled step(opt) update"]


def test_inherited_methods() -> None:
    found = cycles(
        """
        class Base:
            def finish(self):
                self.scaler.step(self.opt)

        class Trainer(Base):
            def run(self, loss):
                self.scaler.scale(loss).backward()
                self.finish()
        """
    )
    assert found == ["scaled step(opt)"]


WRAPPER = """
class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, opt, clip_grad=None, update=True):
        self._scaler.scale(loss).backward()
        if update:
            if clip_grad is not None:
                clip(opt, clip_grad)
            self._scaler.step(opt)
            self._scaler.update()

def f(loss, adam, a, k):
    loss_scaler = NativeScaler()
    {}
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("loss_scaler(loss, adam)", ["scaled step(adam) update"]),
        ("loss_scaler(loss, adam, update=False)", ["scaled"]),
        ("loss_scaler(loss, adam, 1.0)", ["scaled clip step(adam) update"]),
        (
            "loss_scaler(loss, adam, a, k)",
            ["scaled", "scaled clip step(adam) update", "scaled step(adam) update"],
        ),
    ],
)
def test_wrapper_class(call: str, expected: list[str]) -> None:
    assert cycles(WRAPPER.format(call)) == expected


def test_recursion() -> None:
    found = cycles(
        """
        def f(loss, scaler, opt, n):
            scaler.scale(loss).backward()
            if n > 0:
                f(loss, scaler, opt, n - 1)
            scaler.step(opt)
            scaler.update()
        """
    )
    assert found == ["scaled step(opt) update"]


def test_mutual_recursion() -> None:
    found = cycles(
        """
        def f(loss, n):
            loss.backward()
            g(loss, n)

        def g(loss, n):
            if n > 0:
                f(loss, n - 1)
            clip(loss, 1)
        """
    )
    assert found == ["backward clip"]


def test_closures_and_nested_functions() -> None:
    found = cycles(
        """
        def f(loader, scaler, opt):
            def step(x):
                scaler.scale(x).backward()
                scaler.step(opt)
                scaler.update()

            for x in loader:
                step(x)
        """
    )
    assert found == ["scaled step(opt) update"]


def test_names_of_a_callee_are_its_own() -> None:
    """``loss`` of the helper is another variable than ``loss`` of its caller."""
    found = cycles(
        """
        def other(x, scaler):
            loss = scaler.scale(x)
            return 1

        def f(loss, x, scaler):
            other(x, scaler)
            loss.backward()
        """
    )
    assert found == ["backward"]


def test_a_raise_in_a_helper_ends_the_path() -> None:
    found = cycles(
        """
        def check(loss):
            loss.backward()
            if loss > 1:
                raise ValueError

        def f(loss, opt):
            check(loss)
            clip(loss, 1)
        """
    )
    assert found == ["backward clip"]


def test_aliases() -> None:
    found = cycles(
        """
        class Trainer:
            def f(self, loss):
                scaler, opt = self.scaler, self.opt
                amp = self.amp
                if amp:
                    self.scaler.scale(loss).backward()
                if self.amp:
                    self.scaler.step(self.opt)
        """
    )
    assert found == ["scaled step(opt)"]


def test_script() -> None:
    found = cycles(
        """
        scaler = torch.amp.GradScaler("cuda")
        while True:
            scaler.scale(model()).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    )
    assert found == ["scaled step(optimizer) update"]


def test_a_called_function_runs_only_in_its_callers() -> None:
    roots = model_of(
        """
        def helper(loss):
            loss.backward()

        def f(loss):
            helper(loss)
        """
    ).steps.roots
    names = [r.function.name.value for r in roots if isinstance(r.function, cst.FunctionDef)]
    assert names == ["f"]


# --- regions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("with torch.autocast('cuda'):\n    loss.backward()", ["backward@"]),
        ("with torch.autocast('cuda'):\n    pass\nloss.backward()", ["backward"]),
        ("with torch.autocast('cuda', enabled=False):\n    loss.backward()", ["backward"]),
        ("with torch.autocast('cuda', enabled=amp):\n    loss.backward()", ["backward@"]),
        (
            "if not amp:\n    with torch.autocast('cuda', enabled=amp):\n        loss.backward()",
            ["backward"],
        ),
        (
            "with torch.autocast('cuda', enabled=amp):\n"
            "    if amp:\n        scaler.scale(loss).backward()\n"
            "    else:\n        loss.backward()",
            ["backward", "scaled@"],
        ),
        (
            "with torch.autocast('cuda'):\n    with torch.autocast('cuda', enabled=False):\n"
            "        loss.backward()",
            ["backward"],
        ),
        (
            "with torch.autocast('cuda'):\n    with torch.autocast('cuda', enabled=False):\n"
            "        pass\n    loss.backward()",
            ["backward@"],
        ),
        ("with k(), torch.autocast('cuda'), b():\n    loss.backward()", ["backward@"]),
        ("with torch.no_grad():\n    loss.backward()", ["backward"]),
    ],
)
def test_backward_in_a_region(body: str, expected: list[str]) -> None:
    assert train(body) == expected


@pytest.mark.parametrize(
    "made",
    [
        "context = torch.autocast('cuda') if amp else nullcontext()",
        "context = nullcontext() if not amp else torch.autocast('cuda')",
        "if amp:\n    context = torch.autocast('cuda')\nelse:\n    context = nullcontext()",
        "context = nullcontext()\nif amp:\n    context = torch.autocast('cuda')",
    ],
)
def test_a_setting_chooses_the_context(made: str) -> None:
    body = """
with context:
    if amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
"""
    expected = ["backward", "scaled@"]
    assert train("from contextlib import nullcontext\n" + made + body) == expected
    other = made.replace("if amp", "if a").replace("not amp", "not a")
    assert train("from contextlib import nullcontext\n" + other + body) == ["backward@", "scaled@"]


def test_regions_of_callers_and_decorators() -> None:
    found = cycles(
        """
        @torch.autocast("cuda")
        def f(loss):
            loss.backward()
        """
    )
    assert found == ["backward@"]
    found = cycles(
        """
        def helper(loss):
            loss.backward()

        def f(loss):
            with torch.autocast("cuda"):
                helper(loss)
        """
    )
    assert found == ["backward@"]


def test_the_outer_region() -> None:
    program = """
    import torch
    with torch.autocast("cuda"{}):
        with torch.autocast("cuda"):
            loss.backward()
    """
    (event,) = model_of(program.format("")).steps.backwards
    assert event.region is not None and event.outer is not None
    (event,) = model_of(program.format(", enabled=False")).steps.backwards
    assert event.region is not None and event.outer is None


# --- bounds ---------------------------------------------------------------------------------------


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all path sets that come out of blocks, from now on."""
    sizes: list[int] = []
    block = Run.block

    def counting(run: Run, body: object, *rest: object) -> list[Path]:
        ends: list[Path] = block(run, body, *rest)  # type: ignore[arg-type]
        sizes.append(len(ends))
        return ends

    monkeypatch.setattr(Run, "block", counting)
    return sizes


def statements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The budgets of all runs, from now on, as they are after each statement."""
    left: list[int] = []
    statement = Run.statement

    def counting(run: Run, *rest: object) -> list[Path]:
        ends: list[Path] = statement(run, *rest)  # type: ignore[arg-type]
        left.append(run.budget)
        return ends

    monkeypatch.setattr(Run, "statement", counting)
    return left


def lines(depth: int, body: Iterable[str]) -> str:
    return "".join(f"{'    ' * depth}{line}\n" for line in body)


def independent_tests(count: int) -> str:
    """Two tests of each setting, so that no path may forget one, with events under them."""
    tests = [f"if a{i}:\n        {CLIP}(p{i}, 1)" for i in range(count)]
    again = [f"if a{i}:\n        opaque(scaler, {i})" for i in range(count)]
    return "import torch\ndef f(loss, scaler, opt):\n" + lines(
        1, ["scaler.scale(loss).backward()", *tests, *again, "scaler.step(opt)", "scaler.update()"]
    )


def nested_loops(depth: int) -> str:
    text = "import torch\ndef f(loss, scaler, opt):\n"
    for level in range(1, depth + 1):
        text += lines(level, [f"for x{level} in loader:", f"    {CLIP}(p{level}, 1)"])
    inner = ["scaler.scale(loss).backward()", "if k():", "    continue", "scaler.step(opt)"]
    return text + lines(depth + 1, [*inner, "scaler.update()"])


@pytest.mark.parametrize(
    ("program", "most"),
    [(independent_tests(40), 12_000), (nested_loops(15), 3_000)],
    ids=["tests", "loops"],
)
def test_bounds_hold(program: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amp_lint.walk.run.MAX_STATEMENTS", most)  # of 20,000, to be quick
    sizes, left = counted(monkeypatch), statements(monkeypatch)
    assert any(root.cycles for root in model_of(program).steps.roots)
    assert max(sizes) <= MAX_PATHS
    assert len(left) <= most + MAX_PATHS * 15


def test_a_bounded_run_says_so() -> None:
    assert any(root.truncated for root in model_of(independent_tests(12)).steps.roots)
    assert not any(root.truncated for root in model_of(independent_tests(2)).steps.roots)


def reads(count: int) -> str:
    """Reads of scaled gradients, each under a test of its own."""
    body = [f"if a{i}:\n        {CLIP}(p{i}, 1)" for i in range(count)]
    steps = ["scaler.step(opt)", "scaler.update()"]
    head = "import torch\ndef f(loss, scaler, opt):\n"
    return head + lines(1, ["scaler.scale(loss).backward()", *body, *steps])


def test_ways_to_one_state_are_one_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read on the way changes nothing of what may come, and is not forgotten."""
    sizes, left = counted(monkeypatch), statements(monkeypatch)
    (root,) = (root for root in model_of(reads(40)).steps.roots if root.cycles)
    assert not root.truncated
    assert max(sizes) <= 2
    assert len(left) < 100
    clips = {event.node for cycle in root.cycles for event in cycle if event.kind is Kind.CLIP}
    assert len(clips) == 40
    assert len(root.cycles) <= MAX_CYCLES


def test_few_ways_to_one_state_are_all_told_apart() -> None:
    (root,) = (root for root in model_of(reads(5)).steps.roots if root.cycles)
    assert sorted(len(cycle) - 3 for cycle in root.cycles) == sorted(
        number.bit_count() for number in range(32)
    )


def test_a_long_function_costs_what_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches in which nothing happens cost one statement each, whatever they assign."""
    left = statements(monkeypatch)
    body = [f"if a{i}:\n        x{i} = {i}\n    else:\n        y{i} = {i}" for i in range(300)]
    text = "import torch\ndef f(loss, scaler, opt):\n"
    text += lines(1, ["scaler.scale(loss).backward()", *body, "scaler.step(opt)"])
    (root,) = (root for root in model_of(text).steps.roots if root.cycles)
    assert not root.truncated
    assert len(left) < 310


HELD = """\
import contextlib, torch
class Trainer:
    @property
    def context(self):
        return torch.autocast("cuda", dtype=torch.bfloat16)
    def train(self, net, x, amp):
        held = torch.autocast("cuda")
        with contextlib.ExitStack() as stack:
            BODY
        loss.backward()
"""


@pytest.mark.parametrize(
    ("body", "inside"),
    [
        ("stack.enter_context(torch.autocast('cuda')); loss = net(x)", False),
        ("stack.enter_context(torch.autocast('cuda')); net(x).backward(); loss = x", True),
        ("stack.enter_context(self.context); net(x).backward(); loss = x", True),
        ("stack.enter_context(self.context); stack.close(); net(x).backward(); loss = x", False),
        ("self.stack.enter_context(self.context); net(x).backward(); loss = x", False),
        ("held.__enter__(); loss = net(x); held.__exit__(None, None, None)", False),
        ("held.__enter__(); net(x).backward(); held.__exit__(None, None, None); loss = x", True),
        ("with self.context: net(x).backward(); loss = x", True),
        ("with self.context: loss = net(x)", False),
    ],
)
def test_regions_that_are_put_on_a_stack_or_made_by_a_property(body: str, inside: bool) -> None:
    backwards = model_of(HELD.replace("BODY", body)).steps.backwards
    assert any(event.region is not None for event in backwards) is inside


FILLED_IN = """\
import torch
class Base:
    def fit(self, data):
        for x in data:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                self.learn(x)
    def learn(self, x):
        raise NotImplementedError
class Trainer(Base):
    def learn(self, x):
        self.net(x).backward()
        self.opt.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "inside"),
    [
        ("", "", True),
        ("raise NotImplementedError", "self.net(x)", False),
        ("class Trainer(Base):", "class Trainer:", False),
        (
            "class Trainer(Base):",
            "class Other(Base):\n    def learn(self, x): x()\nclass Trainer(Base):",
            False,
        ),
        ("class Trainer(Base):", "class Trainer(Base):\n    def fit(self, data): data()", False),
    ],
)
def test_a_stub_that_one_subclass_fills_in(old: str, new: str, inside: bool) -> None:
    program = FILLED_IN.replace(old, new) if old else FILLED_IN
    (event,) = model_of(program).steps.backwards
    assert (event.region is not None) is inside


def test_arguments_in_a_tuple() -> None:
    """What a star spreads has a place among the parameters, and no value of its own."""
    program = """
        import torch

        def step(scaler, optimizer, loss):
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        def train(scaler, optimizer, losses):
            for loss in losses:
                step(*(scaler, optimizer, loss))
    """
    events = [each for root in model_of(program).steps.roots for c in root.cycles for each in c]
    assert {event.kind for event in events} >= {Kind.BACKWARD, Kind.STEP, Kind.UPDATE}
