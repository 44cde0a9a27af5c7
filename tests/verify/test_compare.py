"""What is lifted from two texts: obligations, and reasons where something cannot be lifted."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path
from typing import TypeVar

import pytest

from amp_lint.model import Model
from amp_lint.text.source import Source
from amp_lint.verify import compare as comparison
from amp_lint.verify.compare import compare
from amp_lint.verify.compare.side import Side
from amp_lint.verify.obligations import (
    Autocast,
    Comparison,
    Expression,
    Import,
    Object,
    Obligation,
    Policy,
    Step,
    Unbound,
)
from amp_lint.verify.terms import Const, Form, Input, Op, show

Kind = TypeVar("Kind", bound=Obligation)

TRAINING = """
    import torch

    def train(model, optimizer, loader):
        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
"""
CLIP = "        torch.nn.utils.clip_grad_norm_"


def compared(before: str, *changes: tuple[str, str]) -> Comparison:
    """The comparison of a text with what replacing parts of it gives; each must be there."""
    before = textwrap.dedent(before)
    after = before
    for old, new in changes:
        assert old in after
        after = after.replace(old, new)
    return compare(before, after)


def only(found: Comparison, kind: type[Kind]) -> Kind:
    """The only obligation, of this kind, and no reason."""
    assert not found.reasons
    (obligation,) = found.obligations
    assert isinstance(obligation, kind)
    return obligation


def step(found: Comparison) -> Step:
    """The training step, whatever else there is."""
    (obligation,) = (each for each in found.obligations if isinstance(each, Step))
    return obligation


def kinds(found: Step) -> tuple[list[str], list[str]]:
    """The events of the only path of both sides."""
    (before,), (after,) = found.before.traces, found.after.traces
    return [e.kind.value for e in before], [e.kind.value for e in after]


def test_equal_texts_leave_nothing_to_show() -> None:
    found = compared(TRAINING)
    assert found == Comparison(())


def test_an_inserted_call_changes_the_trace() -> None:
    found = only(compared(TRAINING, (CLIP, f"        scaler.unscale_(optimizer)\n{CLIP}")), Step)
    before, after = kinds(found)
    assert before == ["zero_grad", "backward", "clip", "step", "update"]
    assert after == ["zero_grad", "backward", "unscale_", "clip", "step", "update"]
    assert found.place.function == "train"


def test_a_step_carries_the_literals_of_the_code() -> None:
    found = only(compared(TRAINING, (f"{CLIP}(model.parameters(), 0.5)\n", "")), Step)
    trace = found.before.traces[0]
    backward, clip = trace[1], trace[2]
    assert backward.forward == Autocast("cuda", "float16", True)
    assert backward.active is None
    assert backward.loss == "(model(x) - y).square().mean()"
    assert clip.clip is not None
    assert (clip.clip.function, clip.clip.limit, clip.clip.norm_type) == (
        "clip_grad_norm_", 0.5, 2.0,
    )  # fmt: skip
    ((_, scaler),) = found.before.scalers
    assert scaler.name == "torch.amp.GradScaler"
    assert scaler.keywords == (("init_scale", Const(1024.0)),)


@pytest.mark.parametrize(
    ("written", "limit", "times_scale"),
    [
        ("limit=2.5", None, False),
        ("1.0 * scaler.get_scale()", None, True),
        ('float("inf")', float("inf"), False),
        ("model.limit", None, False),
    ],
)
def test_limits_of_a_clip(written: str, limit: float | None, times_scale: bool) -> None:
    found = step(compared(TRAINING, ("0.5)", f"{written})"), ("        scaler.update()\n", "")))
    clips = [e.clip for trace in found.after.traces for e in trace if e.clip is not None]
    assert {(clip.limit, clip.times_scale) for clip in clips} == {(limit, times_scale)}


def test_the_region_of_a_backward() -> None:
    found = only(
        compared(
            TRAINING,
            ("        scaler.scale(loss).backward()", "            scaler.scale(loss).backward()"),
        ),
        Step,
    )
    (before,), (after,) = found.before.traces, found.after.traces
    assert before[1].active is None
    assert after[1].active == after[1].forward == Autocast("cuda", "float16", True)


def test_a_loss_that_is_made_elsewhere_was_not_made_in_the_region_of_its_backward() -> None:
    before = """
        import torch

        def train(self, batch):
            loss, metrics = self.loss(batch)
            with torch.autocast("cuda", dtype=torch.float16):
                loss.backward()
            self.optimizer.step()
    """
    region = """with torch.autocast("cuda", dtype=torch.float16):\n        """
    (trace,) = only(compared(before, (region, "")), Step).before.traces
    assert [(e.forward, e.active is not None) for e in trace[:1]] == [(None, True)]


def test_what_may_not_scale_does_not_unscale_where_it_clips() -> None:
    """It is made elsewhere, and may accumulate."""
    before = """
        from accelerate import Accelerator

        class Trainer:
            def __init__(self, model, optimizer, **options):
                self.accelerator = Accelerator(**options)
                self.model, self.optimizer = self.accelerator.prepare(model, optimizer)

            def step(self, batch):
                with self.accelerator.autocast():
                    loss = self.model(batch)
                    self.accelerator.backward(loss)
                self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
    """
    step = only(
        compared(before, ("        self.accelerator.backward", "    self.accelerator.backward")),
        Step,
    )
    kinds = [e.kind.value for trace in step.after.traces for e in trace]
    assert "clip" in kinds and "unscale_" not in kinds


STEPS = """
    import torch

    def train(model, optimizer, loader, amp, by_hand):
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            if amp:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = (model(x) - y).square().mean()
                if by_hand:
                    scaler.scale(loss).backward()
                    optimizer.step()
                else:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                scaler.update()
            else:
                (model(x) - y).square().mean().backward()
                optimizer.step()
"""
BY_HAND = "scaler.scale(loss).backward()\n                optimizer.step()"


def test_a_path_that_became_another_is_held_against_that_one_alone() -> None:
    found = compared(
        STEPS, (BY_HAND, BY_HAND.replace("optimizer.step()", "scaler.step(optimizer)"))
    )
    step = only(found, Step)
    events = [event for trace in step.after.traces for event in trace]
    assert events and all(e.scaler for e in events if e.kind.value == "step")


def test_other_names_for_values_make_no_difference() -> None:
    found = compared(
        TRAINING,
        (
            "loss = (model(x) - y).square().mean()",
            "error = model(x) - y\n            loss = error.square().mean()",
        ),
    )
    assert found == Comparison(())


def test_what_leaves_a_region_must_not_care() -> None:
    found = compared(
        TRAINING,
        (
            "loss = (model(x) - y).square().mean()",
            "output = model(x)\n        loss = (output - y).square().mean()",
        ),
    )
    moved = [o for o in found.obligations if isinstance(o, Policy)]
    assert {show(policy.term) for policy in moved} == {
        "(model(x) - y).square()",
        "(model(x) - y).square().mean()",
    }
    assert {(p.before, p.after) for p in moved} == {(Autocast("cuda", "float16", True), None)}


def test_a_helper_that_computes_nothing_may_leave_a_region() -> None:
    call = "count(sums, {'loss': loss.item()})\n"
    backward = "        scaler.scale(loss).backward()"
    counted = TRAINING.replace(backward, f"            {call}    {backward}")
    helper = """
    def count(sums, more):
        for key, value in more.items():
            sums[key] = sums.get(key, 0.0) + value
"""
    found = compared(counted + helper, (f"    {call}", call))
    assert not found.reasons
    assert not [each for each in found.obligations if isinstance(each, Policy)]


@pytest.mark.parametrize(("one", "other"), [("0", "False"), ("1", "1.0"), ("0.0", "-0.0")])
def test_literals_of_other_types_are_shown_each(one: str, other: str) -> None:
    before = """
        def first(x):
            y = x[ONE]
            return y

        def second(x):
            y = x[OTHER]
            return y
    """
    before = before.replace("ONE", one).replace("OTHER", other)
    found = compared(before, *((f"x[{each}]", f"x.select(0, {each})") for each in (one, other)))
    places = [each.place.function for each in found.obligations if isinstance(each, Expression)]
    assert places == ["first", "second"]


def test_nested_operations_in_two_statements() -> None:
    before = """
        import torch
        import torch.nn.functional as F

        def loss(student, teacher, temperature):
            p = F.softmax(student / temperature, dim=1)
            return F.kl_div(torch.log(p), teacher)
    """
    found = only(
        compared(
            before,
            ("    p = F.softmax(student / temperature, dim=1)\n", ""),
            ("torch.log(p)", "F.log_softmax(student / temperature, dim=1)"),
        ),
        Expression,
    )
    logits = Op(Form.OPERATOR, "truediv", (Input("student"), Input("temperature")))
    given = logits, Const(1)
    softmax = Op(Form.FUNCTION, "torch.nn.functional.softmax", given)
    assert found.before == Op(Form.FUNCTION, "torch.log", (softmax,))
    assert found.after == Op(Form.FUNCTION, "torch.nn.functional.log_softmax", given)
    ((around, _),) = found.contexts
    assert isinstance(around, Op)
    assert around.name == "torch.nn.functional.kl_div"


def test_modules_helpers_and_constants_are_followed() -> None:
    before = """
        import torch
        from torch import nn

        EPS = 1e-8

        def log(t, eps=1e-20):
            return torch.log(t + eps)

        class Net(nn.Module):
            def __init__(self):
                self.softmax = nn.Softmax(dim=-1)

            def forward(self, x):
                p = self.softmax(x)
                return log(p, EPS)
    """
    found = only(compared(before, ("return log(p, EPS)", "return torch.log(p)")), Expression)
    assert show(found.before) == "(torch.nn.Softmax(-1)(x) + 1e-08)"
    assert show(found.after) == "torch.nn.Softmax(-1)(x)"
    ((around, _),) = found.contexts
    assert show(around) == "torch.log((torch.nn.Softmax(-1)(x) + 1e-08))"


def test_uses_of_the_interface_side_by_side() -> None:
    before = """
        from torch.cuda.amp import GradScaler, autocast

        scaler = GradScaler(1024.0)
        with autocast(flag):
            loss = model(x)
    """
    found = compared(
        before,
        ("torch.cuda.amp", "torch.amp"),
        ("GradScaler(1024.0)", 'GradScaler("cuda", 1024.0)'),
        ("autocast(flag)", 'autocast("cuda", enabled=flag)'),
    )
    assert not found.reasons
    scaler, context = (o for o in found.obligations if isinstance(o, Object))
    assert scaler.before.name == "torch.cuda.amp.GradScaler"
    assert scaler.after.args == (Const("cuda"), Const(1024.0))
    assert context.before.args == (Input("flag"),)
    assert context.after.keywords == (("enabled", Input("flag")),)
    assert not context.nested


def test_autocast_within_a_region_of_another_dtype_is_nested() -> None:
    before = """
        import torch

        def forward(model, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                with torch.cuda.amp.autocast():
                    return model(x)
    """
    found = compared(before, ("torch.cuda.amp.autocast()", 'torch.autocast("cuda")'))
    (use,) = (o for o in found.obligations if isinstance(o, Object))
    assert use.nested


@pytest.mark.parametrize(
    ("around", "nested"),
    [
        ('torch.autocast("cuda", dtype=torch.float16)', False),
        ('torch.autocast("cuda", dtype=torch.float16, enabled=flag)', False),
        ('torch.autocast("cuda", dtype=torch.bfloat16)', True),
        ('torch.autocast("cuda", dtype=dtype)', True),
        ('torch.autocast("cpu", dtype=torch.bfloat16)', False),
    ],
)
def test_autocast_in_what_a_region_calls(around: str, nested: bool) -> None:
    before = f"""
        import torch

        def run(model, x):
            with torch.cuda.amp.autocast():
                return model(x)

        def main(model, x, dtype, flag):
            with {around}:
                return run(model, x)
    """
    found = compared(before, ("torch.cuda.amp.autocast()", 'torch.autocast("cuda")'))
    (use,) = (o for o in found.obligations if isinstance(o, Object))
    assert use.nested is nested


def test_instances_of_a_class_that_is_not_made_any_more() -> None:
    before = """
        import torch

        scaler = torch.cuda.amp.GradScaler()
        assert isinstance(scaler, torch.cuda.amp.GradScaler)
    """
    found = compared(
        before, ("amp.GradScaler()", 'amp.GradScaler("cuda")'), ("r = torch.cuda", "r = torch")
    )
    asked = [o for o in found.obligations if isinstance(o, Object) and o.made]
    assert [o.after.name for o in asked] == ["torch.cuda.amp.GradScaler"]


def test_a_scaler_that_is_switched_off_is_a_matter_of_the_steps() -> None:
    found = only(
        compared(TRAINING, ("init_scale=1024.0", "init_scale=1024.0, enabled=False")), Step
    )
    assert found.after.traces[0][1].scaler is None


def test_a_module_that_is_trained_in_float16() -> None:
    before = """
        import torch

        def train(model, loader):
            model = model.half()
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            for x in loader:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    gone = only(compared(before, ("    model = model.half()\n", "")), Step)
    assert (gone.before.half, gone.after.half) == (("*",), ())
    ((_, adam),) = gone.before.optimizers
    assert (adam.name, adam.keywords) == ("torch.optim.Adam", (("lr", Const(1e-3)),))
    found = compared(before, ("lr=1e-3", "lr=1e-3, eps=1e-4"))
    (kept,) = found.obligations
    assert isinstance(kept, Step)
    assert kept.before.half == kept.after.half == ("*",)
    assert "Adam" in " ".join(found.reasons)


def test_a_name_that_nothing_binds_any_more() -> None:
    found = compared("import torch\n\nx = torch.ones(2)\n", ("import torch\n", "import math\n"))
    assert any(isinstance(o, Unbound) and o.name == "torch" for o in found.obligations)


@pytest.mark.parametrize(
    ("moved", "early"),
    [
        ("    print(y)\n    y = x\n    return y\n", True),
        ("    y = x\n    print(y)\n    return y\n", False),
        ("    y = [z for z in x]\n    return y\n", False),
    ],
)
def test_a_name_that_is_read_before_it_is_assigned(moved: str, early: bool) -> None:
    found = compared("def f(x):\n    y = x\n    return y\n", ("    y = x\n    return y\n", moved))
    assert [o.name for o in found.obligations if isinstance(o, Unbound)] == ["y"] * early


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("loss = (model(x)", "loss = (network(x)"), "`model` became `network`"),
        (("        scaler.update()", "        scaler.update()\n        log(loss)"), "was added"),
        (("def train(", "def fit("), "`def train("),
    ],
)
def test_other_changes_give_a_reason(change: tuple[str, str], reason: str) -> None:
    assert any(reason in text for text in compared(TRAINING, change).reasons)


def test_text_that_is_not_python_gives_a_reason() -> None:
    found = compare("x = 1\n", "x = = 1\n")
    assert found.obligations == ()
    assert found.reasons[0].startswith("the new text cannot be parsed")


def test_nothing_is_executed(tmp_path: Path) -> None:
    victim = tmp_path / "data"
    victim.write_text("precious")
    hostile = f"""
        import os
        import torch
        os.remove({str(victim)!r})

        def f(x):
            return torch.log(torch.softmax(x, os.remove({str(victim)!r}) or 1))
    """
    found = compared(hostile, ("torch.log(torch.softmax(x", "(torch.log_softmax(x"))
    assert found.obligations
    assert victim.read_text() == "precious"


def test_values_that_grow_without_end_stay_small() -> None:
    lines = "\n".join("    x = x * x" for _ in range(300))
    text = f"import torch\n\ndef f(x):\n{lines}\n    return torch.log(torch.softmax(x, 1))\n"
    after = text.replace("torch.log(torch.softmax(x, 1))", "torch.log_softmax(x, 1)")
    assert len(compare(text, after).obligations) == 1


HUGE = "9" * 400


@pytest.mark.parametrize(
    "change",
    [
        ("parameters(), 0.5", f"parameters(), {HUGE}"),
        ("init_scale=1024.0", f"init_scale={HUGE}"),
        ("loader:\n", f"loader:\n        model.weight.grad.mul_({HUGE})\n"),
        ("(model(x) - y)", f"(model(x) - {HUGE})"),
    ],
)
def test_numbers_that_no_float_holds_are_told_apart(change: tuple[str, str]) -> None:
    huge = textwrap.dedent(TRAINING).replace(*change)
    fixed = compared(huge, (CLIP, "        scaler.unscale_(optimizer)\n" + CLIP))
    assert not fixed.reasons
    assert [*map(type, fixed.obligations)] == [Step]
    other = compared(huge, (HUGE, "8" * 400))
    assert other.obligations or other.reasons


def test_a_lone_surrogate_gives_a_reason() -> None:
    (reason,) = compare("x = '\ud800'\n", "x = 1\n").reasons
    assert reason.startswith("the old text cannot be parsed: cannot be encoded: ")


def test_a_suite_on_the_line_of_its_test_has_a_place() -> None:
    long = " + ".join(f"x[{number}]" for number in range(150))
    found = compared(f"def f(a, x):\n    if a: y = {long}\n    g(y)\n", ("x[149]", "x[150]"))
    (changed,) = found.obligations
    assert changed.place.before == 2


def test_annotations_are_no_questions() -> None:
    before = """
        import torch
        from torch.cuda.amp import GradScaler

        def train(scaler: GradScaler) -> GradScaler:
            return scaler

        train(GradScaler())
    """
    found = compared(before, ("train(GradScaler())", 'train(torch.amp.GradScaler("cuda"))'))
    assert {o.before.kind for o in found.obligations if isinstance(o, Object)} == {"call"}
    asked = compared(before, ("n scaler\n", "n isinstance(scaler, GradScaler)\n"))
    kinds = {use.use.kind for use in Side(model(before)).uses}
    assert kinds == {"annotation", "call"}
    assert asked.reasons or asked.obligations


def model(text: str) -> Model:
    return Model(Source(textwrap.dedent(text).encode(), "code.py"))


# --- texts that many changes have in common -------------------------------------------------------


def sites(count: int) -> list[tuple[str, str]]:
    """The fixes of one text, each by itself."""
    step = textwrap.dedent(TRAINING).partition("\n\n")[2]
    parts = [step.replace("def train", f"def train{number}") for number in range(count)]
    whole = "import torch\n\n" + "\n\n".join(parts)
    fixed = [part.replace(CLIP, "        scaler.unscale_(optimizer)\n" + CLIP) for part in parts]
    return [(whole, whole.replace(*pair)) for pair in zip(parts, fixed, strict=True)]


def test_an_old_text_is_lifted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    lifted = comparison._read

    def reading(text: str, name: str) -> Model:
        read.append(text)
        return lifted(text, name)

    monkeypatch.setattr(comparison, "_olds", comparison._Olds())
    monkeypatch.setattr(comparison, "_read", reading)
    changes = sites(4)
    together = [compare(*change) for change in changes]
    assert Counter(read)[changes[0][0]] == 1
    assert len(read) == 5
    for change, found in zip(changes, together, strict=True):
        monkeypatch.setattr(comparison, "_olds", comparison._Olds())
        assert compare(*change) == found, "what was kept made a difference"


def test_what_was_lifted_halfway_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    olds = comparison._Olds()
    monkeypatch.setattr(comparison, "_olds", olds)

    def stop(*_: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(comparison, "compared", stop)
    with pytest.raises(KeyError):
        compare("x = 1\n", "x = 2\n")
    assert not olds._texts


def test_long_old_texts_make_room_for_each_other() -> None:
    olds = comparison._Olds()
    texts = [f"x = {number}  # {'-' * 60_000}\n" for number in range(3)]
    sides = [olds.lifted(text, "code.py") for text in texts]
    assert olds.lifted(texts[2], "code.py") is sides[2]
    assert len(olds._texts) == 1


UNSEEN = """\
import torch
from helpers import clip_grad_norm_


def train(model, optimizer, scaler, loss):
    scaler.scale(loss).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


def test_a_clip_that_is_only_called_as_one() -> None:
    unscaled = UNSEEN.replace("    clip", "    scaler.unscale_(optimizer)\n    clip")
    (step,) = compare(UNSEEN, unscaled).obligations
    assert isinstance(step, Step)
    events = (event for trace in step.after.traces for event in trace)
    clips = [event.clip.function for event in events if event.clip is not None]
    assert clips == ["clip_grad_norm_(...)"]  # not the one of torch


TWO_LOSSES = """\
import torch


def train(net, optimizer, scaler, x, y):
    with torch.autocast("cuda"):
        main, other = net(x, y)
        scaler.scale(main + 0.4 * other).backward()
    scaler.step(optimizer)
    scaler.update()
"""
INSIDE = "        scaler.scale(main + 0.4 * other).backward()"


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("scaler.scale(main + 0.4 * other)", False),
        ("(scaler.scale(main) + 0.4 * scaler.scale(other))", False),
        ("(scaler.scale(main) + 0.4 * other)", True),
        ("(main + 0.4 * scaler.scale(other))", True),
    ],
)
def test_a_loss_is_scaled_as_a_whole(loss: str, told: bool) -> None:
    """A step unscales all gradients, also those of what was added to a scaled loss."""
    found = compare(TWO_LOSSES, TWO_LOSSES.replace(INSIDE, f"    {loss}.backward()"))
    differs = [*found.reasons, *(o for o in found.obligations if isinstance(o, Expression))]
    assert bool(differs) is told


def test_what_both_import_in_a_function_may_fail_in_both() -> None:
    text = "def f(x):\n    from fractions import gcd\n\n    return gcd(x, {})\n"
    moved = "from fractions import gcd\n\n\n" + text.replace(
        "    from fractions import gcd\n\n", ""
    )
    before = text.format(2)
    found = [compare(before, each.format(3)).obligations for each in (text, moved)]
    assert [any(isinstance(one, Import) for one in each) for each in found] == [False, True]


AXIS = """
import torch
import torch.nn.functional as F


class Scores(torch.nn.Module):
    def __init__(self, axis=None, over=1):
        super().__init__()
        self.axis, self.over = axis, over

    def forward(self, x):
        return torch.log(F.softmax(x, dim=self.axis)), torch.log(F.softmax(x, dim=self.over))


def scores(x, axis=None, over=1):
    return torch.log(F.softmax(x, dim=axis)), torch.log(F.softmax(x, dim=over))
"""


def test_what_is_none_where_nobody_gives_it() -> None:
    found = compare(AXIS, AXIS.replace("torch.log(F.softmax(", "(F.log_softmax("))
    asked = [each for each in found.obligations if isinstance(each, Expression)]
    assert {each.absent for each in asked} == {("axis", "self.axis")}


LOANS = """
import sheets
import torch
from torch.cuda.amp import GradScaler, autocast


def watch(net, loader, optimizer, loss_of):
    scaler = GradScaler()
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        with autocast():
            loss = loss_of(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    table = sheets.made_of(losses)
    {use}
    return table
"""


@pytest.mark.parametrize(
    ("use", "same"),
    [
        ("worst = sheets.asked('greatest loss from table')", False),
        ("text = 'greatest loss from table'; worst = sheets.asked(text)", False),
        ("worst = sheets.asked(f'greatest loss from table above {len(losses)}')", False),
        ("sheets.log('all of the table')", True),
        ("print('all of the table')", True),
        ("worst = sheets.asked('table')", True),
        ("worst = sheets.asked('greatest loss')", True),
    ],
)
def test_a_text_may_name_a_local(use: str, same: bool) -> None:
    before = LOANS.format(use=use)
    after = before.replace("table = sheets", "rows = sheets").replace("return table", "return rows")
    assert (not compare(before, after).reasons) is same


PARTS = """
import torch


def step(first, second, optimizer, scaler, loss, both, more):
    scaler.scale(loss).backward()
    if both:
        torch.nn.utils.clip_grad_norm_(first.parameters(), 0.5)
    {clip}
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
LATER = "torch.nn.utils.clip_grad_norm_(second.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("clip", "count"), [(LATER, 1), (f"if not both:\n        {LATER}", 0), ("pass", 0)]
)
def test_a_path_that_clips_as_before(clip: str, count: int) -> None:
    before = PARTS.format(clip=clip)
    test = "    if both:\n"
    after = before.replace(test, f"{test}        scaler.unscale_(optimizer)\n", 1)
    assert len(step(compare(before, after)).kept) == count
