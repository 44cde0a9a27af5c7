"""Clips of scaled gradients, and where an ``unscale_`` would go."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_lint.walk.clips import ScaledClip
from tests.programs import model_of

HEADER = """\
import math
import torch
from torch.nn.utils import clip_grad_norm_ as clip, clip_grad_value_, get_total_norm
"""


def clips(text: str) -> list[ScaledClip]:
    return model_of(HEADER + textwrap.dedent(text)).clips.scaled


def in_loop(body: str, before: str = "scaler.scale(model(x)).backward()") -> list[ScaledClip]:
    """The clips of a usual training loop with this body after the backward pass."""
    text = (
        f"def f(model, optimizer, scaler, loader, args):\n    for x in loader:\n        {before}\n"
    )
    return clips(text + textwrap.indent(textwrap.dedent(body), " " * 8))


STEP = "scaler.step(optimizer)\nscaler.update()\n"
CLIP = "clip(model.parameters(), 1.0)\n"


def place(found: list[ScaledClip]) -> str:
    """Where the line of the first clip goes: the statement's first line, and the guard."""
    where = found[0].place_for_unscale
    if where is None:
        return "nowhere"
    (line, *_) = _source(where.statement).splitlines()
    guard = f" under {where.guard}" if where.guard else ""
    return f"{'; '.join(where.lines)} before {line}{guard}{'' if where.certain else ' perhaps'}"


def _source(node: object) -> str:
    assert isinstance(node, cst.CSTNode)
    return cst.Module([]).code_for_node(node).strip()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CLIP + STEP, "before clip(model.parameters(), 1.0)"),
        ("n = " + CLIP + STEP, "before n = clip(model.parameters(), 1.0)"),
        (f"if args.clip:\n    {CLIP}" + STEP, "before clip(model.parameters(), 1.0)"),
        (f"if args.clip: {CLIP}" + STEP, "before if args.clip: clip(model.parameters(), 1.0)"),
        ("if clip(p, 1.0) > 2:\n    print(1)\n" + STEP, "before if clip(p, 1.0) > 2:"),
        (f"with k():\n    {CLIP}" + STEP, "before clip(model.parameters(), 1.0)"),
        (f"try:\n    {CLIP}finally:\n    pass\n" + STEP, "before clip(model.parameters(), 1.0)"),
        (CLIP + "if bad(x):\n    raise E\n" + STEP, "before clip(model.parameters(), 1.0)"),
        (CLIP + "if bad(x):\n    scaler.update()\n    return\n" + STEP, "before clip("),
        (f"if bad(x):\n    return\n{CLIP}" + STEP, "before clip("),
        ("for p in model.groups:\n    clip(p, 1.0)\n" + STEP, "before for p in model.groups:"),
        ("n = [clip(p, 1.0) for p in model.groups]\n" + STEP, "before n = [clip(p, 1.0) for p"),
        (f"if a:\n    {CLIP}if b:\n    {CLIP}" + STEP, "before if a:"),
        (f"if a:\n    {CLIP}else:\n    {CLIP}" + STEP, "before clip(model.parameters(), 1.0)"),
        (CLIP + "clip_grad_value_(p, 1)\n" + STEP, "before clip(model.parameters(), 1.0)"),
        (
            f"if i % k == 0:\n    {CLIP}    scaler.step(optimizer)\n    scaler.update()",
            "before clip",
        ),
    ],
)
def test_place(body: str, expected: str) -> None:
    found = place(in_loop(body))
    assert found.startswith(f"scaler.unscale_(optimizer) {expected}")
    assert not found.endswith("perhaps")


@pytest.mark.parametrize(
    "body",
    [
        CLIP + "scaler.unscale_(optimizer)\n" + STEP,
        CLIP + "scaler.unscale_(other)\n" + STEP,
        CLIP + "if i % k == 0:\n    scaler.step(optimizer)\n    scaler.update()",
        CLIP + "if not math.isfinite(x):\n    continue\n" + STEP,
        f"if a:\n    {CLIP}if bad(x):\n    continue\nif b:\n    {CLIP}" + STEP,
        CLIP + "if bad(x):\n    return\n" + STEP,
        CLIP + "if bad(x):\n    break\n" + STEP,
        "x = 1; " + CLIP + STEP,
        CLIP,
    ],
)
def test_no_place(body: str) -> None:
    found = in_loop(body)
    assert found and place(found) == "nowhere"


SEVERAL = "{}scaler.step(a)\nscaler.step(b)\nscaler.update()\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CLIP, "scaler.unscale_(a); scaler.unscale_(b) before clip(model.parameters(), 1.0)"),
        (f"if args.x:\n    {CLIP}", "scaler.unscale_(a); scaler.unscale_(b) before clip("),
        (f"{CLIP}scaler.scale(y).backward()\n", "nowhere"),
        (f"{CLIP}if args.x:\n    scaler.step(c)\n", "nowhere"),
        (f"{CLIP}scaler.step(a)\n", "nowhere"),
    ],
)
def test_place_for_several_optimizers(body: str, expected: str) -> None:
    assert place(in_loop(SEVERAL.format(body))).startswith(expected)


def test_no_place_where_a_loop_scales_again() -> None:
    body = f"while bad(x):\n    scaler.scale(model(x)).backward()\n    {CLIP}" + STEP
    assert place(in_loop(body)) == "nowhere"


def test_no_place_before_the_backward_pass() -> None:
    body = f"if a:\n    scaler.scale(x).backward()\n    {CLIP}if b:\n    {CLIP}" + STEP
    assert place(in_loop(body, before="pass")) == "nowhere"


def test_no_place_in_another_function() -> None:
    found = clips(
        """
        def limit(model):
            clip(model.parameters(), 1.0)

        def f(model, optimizer, scaler, loss):
            scaler.scale(loss).backward()
            limit(model)
            scaler.step(optimizer)
            scaler.update()
        """
    )
    assert place(found) == "nowhere"


def test_clips_of_one_step_share_a_place() -> None:
    found = in_loop(f"if a:\n    {CLIP}if b:\n    clip_grad_value_(p, 1)\n" + STEP)
    one, other = (clip.place_for_unscale for clip in found)
    assert one is not None and other is not None and one.statement is other.statement


@pytest.mark.parametrize("test", ["args.amp", "scaler is not None", "args.precision == 'amp'"])
def test_guard(test: str) -> None:
    found = in_loop(
        f"{CLIP}if {test}:\n    scaler.step(optimizer)\n    scaler.update()\n"
        "else:\n    optimizer.step()\n",
        before=f"scaler.scale(x).backward() if {test} else x.backward()",
    )
    assert place(found) == (
        f"scaler.unscale_(optimizer) before clip(model.parameters(), 1.0) under {test} perhaps"
    )


@pytest.mark.parametrize("word", ["", "optimizer="])
def test_code_is_spelled_as_the_step(word: str) -> None:
    found = clips(
        f"""
        class T:
            def f(self, loss, key):
                self.amp.scaler.scale(loss).backward()
                clip(self.parameters(), 1.0)
                self.amp.scaler.step({word}self.optimizers[key])
                self.amp.scaler.update()
        """
    )
    assert place(found).startswith("self.amp.scaler.unscale_(self.optimizers[key]) before clip")


def test_a_limit_that_is_scaled_by_an_argument() -> None:
    found = clips(
        """
        def limited(model, limit, scale=1.0):
            clip(model.parameters(), limit * scale)


        def train(model, optimizer, scaler, loader):
            for x in loader:
                scaler.scale(model(x)).backward()
                limited(model, 1.0, scale=scaler.get_scale())
                scaler.step(optimizer)
                scaler.update()
        """
    )
    assert found == []


@pytest.mark.parametrize("body", ["pass", "...", "'for subclasses'", "raise NotImplementedError"])
def test_a_hook_may_unscale(body: str) -> None:
    """A subclass in another file may fill it in."""
    found = clips(
        f"""
        class Base:
            def after_backward(self):
                {body}

            def optimize(self, loss):
                self.scaler.scale(loss).backward()
                self.after_backward()
                clip(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
        """
    )
    assert found == []


def test_no_place_above_the_names_of_the_step() -> None:
    found = clips(
        """
        def update(self, model, loss, name):
            scaler = self.scalers[name]
            scaler.scale(loss).backward()
            clip(model.parameters(), 1.0)
            optimizer = self.optimizers[name]
            scaler.step(optimizer)
            scaler.update()
        """
    )
    assert [clip.place_for_unscale for clip in found] == [None]


# --- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "function", "parameter", "limit", "clips_"),
    [
        ("clip(p, 1.0)", "clip", "max_norm", 1.0, True),
        ("torch.nn.utils.clip_grad_norm_(p, max_norm=2)", "clip_grad_norm_", "max_norm", 2, True),
        ("torch.nn.utils.clip_grad_norm(p, 2)", "clip_grad_norm", "max_norm", 2, True),
        ("clip_grad_value_(p, clip_value=0.5)", "clip_grad_value_", "clip_value", 0.5, True),
        (
            "torch.nn.utils.clip_grads_with_norm_(p, 2.0, n)",
            "clip_grads_with_norm_", "max_norm", 2.0, True,
        ),
        ("clip(p, args.clip)", "clip", "max_norm", None, True),
        ("get_total_norm(p)", "get_total_norm", "max_norm", None, False),
    ],
)  # fmt: skip
def test_description(
    call: str, function: str, parameter: str, limit: float | None, clips_: bool
) -> None:
    (found,) = in_loop(call + "\n" + STEP)
    assert (found.function, found.parameter, found.limit, found.clips) == (
        function, parameter, limit, clips_,
    )  # fmt: skip
    assert found.scale == 65536.0
    assert found.step is not None


def test_initial_scale() -> None:
    text = """
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
    scaler.scale(loss).backward()
    clip(p, 1.0)
    scaler.step(optimizer)
    """
    (found,) = clips(text)
    assert found.scale == 1024


@pytest.mark.parametrize(
    "call",
    [
        "clip(p, 1.0 * scaler.get_scale())",
        "clip(p, max_norm=args.clip * scaler._scale)",
        "clip(p, math.inf)",
        "clip(p, float('inf'))",
        "clip(p, float('i' 'nf'))",
        "clip(p, torch.inf)",
        "model.clip_grad_norm_(1.0)",
        "accelerator.clip_grad_norm_(p, 1.0)",
        "mine.clip_grad_norm_(p, 1.0)",
    ],
)
def test_exempt(call: str) -> None:
    assert in_loop(call + "\n" + STEP) == []


@pytest.mark.parametrize(
    "body",
    [
        "optimizer.zero_grad()\n" + CLIP + STEP,
        "for p in q:\n    p.grad /= 2\n" + CLIP + STEP,
        "my_unscale(optimizer, scaler)\n" + CLIP + STEP,
        "scaler.unscale_(optimizer)\n" + CLIP + STEP,
        "scaler.step(optimizer)\n" + CLIP + "scaler.update()\n",
        CLIP + "optimizer.step()\n",
        STEP + CLIP,
    ],
)
def test_gradients_are_not_certainly_scaled(body: str) -> None:
    assert in_loop(body) == []


STEPPING = """
class T:
    {}
    def finish(self):
        clip(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("def back(self, loss):\n        self.scaler.scale(loss).backward()", True),
        ("def scale(self, loss):\n        return self.scaler.scale(loss)", True),
        ("def back(self, loss):\n        loss.backward()", False),
        ("def back(self, loss):\n        self.other.scale(loss).backward()", False),
        (
            "def back(self, loss):\n        self.scaler.scale(loss).backward()\n"
            "        self.scaler.unscale_(self.optimizer)",
            False,
        ),
        (
            "def back(self, loss):\n        self.scaler.scale(loss).backward()\n"
            "        self.unscale_gradients()",
            False,
        ),
    ],
)
def test_a_step_in_another_method_than_the_backward(other: str, found: bool) -> None:
    assert bool(clips(STEPPING.format(other))) is found


def test_a_scaler_that_turns_out_to_be_disabled() -> None:
    model = model_of(
        """
        import torch

        def train(scaler, optimizer, params, loss, later):
            scaler.scale(loss).backward()
            skip = scaler.is_enabled() and later
            if not skip:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(params, 1.0)
            if later:
                scaler.step(optimizer)
                scaler.update()
        """
    )
    assert model.clips.scaled == []


BOTH = "clip(other.parameters(), 1.0)\n"
OTHER = "scaler.step(other_optimizer)\nscaler.update()\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("scaler.step(optimizer)\n" + BOTH + OTHER, 1),
        ("scaler.step(optimizer)\nscaler.unscale_(other_optimizer)\n" + BOTH + OTHER, 0),
        ("scaler.step(optimizer)\n" + BOTH + "scaler.update()\n", 0),
        ("scaler.step(optimizer)\n" + BOTH + "other_optimizer.step()\nscaler.update()\n", 0),
        ("scaler.step(optimizer)\noptimizer.zero_grad()\n" + BOTH + OTHER, 0),
        ("for o in opts:\n    scaler.step(o)\n" + BOTH + "scaler.update()\n", 0),
    ],
)
def test_between_two_steps(body: str, found: int) -> None:
    assert len(in_loop(body)) == found


ONE_ARM = """\
def f(model, optimizer, loader, args):
    scaler = {made}
    for x in loader:
        {backward}
        if args.careful:
            scaler.unscale_(optimizer)
            clip(model.parameters(), 1.0)
        else:
            clip(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
SCALED, CHOSEN = (
    "scaler.scale(model(x)).backward()",
    "if args.amp: scaler.scale(model(x)).backward()\n        else: model(x).backward()",
)


@pytest.mark.parametrize(
    ("made", "backward", "found"),
    [
        ("torch.amp.GradScaler('cuda')", SCALED, 1),
        ("torch.amp.GradScaler('cuda', enabled=True)", SCALED, 1),
        ("torch.amp.GradScaler('cuda')", "l = scaler.scale(model(x)); l.backward()", 1),
        ("torch.amp.GradScaler('cuda', enabled=args.amp)", SCALED, 0),
        ("torch.amp.GradScaler('cuda') if args.amp else None", SCALED, 0),
        ("args.scaler", SCALED, 0),
        ("torch.amp.GradScaler('cuda')", CHOSEN, 0),
    ],
)
def test_a_test_that_may_ask_for_the_scaler(made: str, backward: str, found: int) -> None:
    assert len(clips(ONE_ARM.format(made=made, backward=backward))) == found


TWO = """\
class Gan:
    def __init__(self, g, d):
        self.g, self.d = g, d
        self.a = torch.optim.Adam({g})
        self.b = torch.optim.Adam(self.d.parameters())
    def step(self, x, scaler):
        scaler.scale(self.d(self.g(x))).backward()
        {unscale}
        clip(self.g.parameters(), 1.0)
        clip({clipped}.parameters(), 1.0)
        scaler.step(self.a)
        scaler.step(self.b)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("g", "unscale", "clipped", "found"),
    [
        ("self.g.parameters()", "scaler.unscale_(self.a)", "self.d", 1),
        ("[{'params': self.g.parameters()}]", "scaler.unscale_(self.a)", "self.d", 1),
        (
            "list(self.g.parameters()) + list(self.d.parameters())",
            "scaler.unscale_(self.a)",
            "self.d",
            0,
        ),
        ("x", "scaler.unscale_(self.a)", "self.d", 0),
        ("self.x.y.parameters()", "scaler.unscale_(self.a)", "self.d", 0),
        ("self.g.parameters()", "scaler.unscale_(self.a)", "self.d.last", 0),
        ("self.g.parameters()", "scaler.unscale_(self.a); scaler.unscale_(self.b)", "self.d", 0),
        ("self.g.parameters()", "scaler.unscale_(self.a); self.b.zero_grad()", "self.d", 0),
    ],
)
def test_another_optimizer_is_unscaled(g: str, unscale: str, clipped: str, found: int) -> None:
    seen = clips(TWO.format(g=g, unscale=unscale, clipped=clipped))
    assert len(seen) == found
    if seen:
        assert place(seen) == "scaler.unscale_(self.b) before clip(self.d.parameters(), 1.0)"
        assert seen[0].step is not None
        assert "self.b" in _source(seen[0].step.node)


@pytest.mark.parametrize(
    ("both", "found"),
    [
        ("[*self.g.parameters(), *self.d.parameters()]", 1),
        ("[*self.g.parameters(), *self.other.parameters()]", 0),
        ("self.parameters()", 0),
    ],
)
def test_one_of_two_that_are_clipped_together_is_unscaled(both: str, found: int) -> None:
    program = TWO.format(
        g="self.g.parameters()", unscale="scaler.unscale_(self.a)", clipped="self.d"
    )
    seen = clips(program.replace("clip(self.d.parameters(), 1.0)", f"clip({both}, 1.0)"))
    assert len(seen) == found
    if seen:
        assert place(seen) == f"scaler.unscale_(self.b) before clip({both}, 1.0)"


def test_what_is_called_like_a_clip_is_one() -> None:
    called = "if x.grow:\n    model.clip_grad_norm(model.net.parameters())\n"
    assert place(in_loop(called + STEP)).endswith(
        "before model.clip_grad_norm(model.net.parameters())"
    )
    assert in_loop("model.clip_grad_norm(model.limit)\n" + STEP) == []
    assert in_loop("model.limited(model.net.parameters())\n" + STEP) == []


HANDED = """\
from functools import partial
class Trainer:
    def __init__(self, limit=None):
        self.limit = limit
    def train(self, params, optimizer, scaler, loss, limit=None):
        scaler.scale(loss).backward()
        if limit:
            limit(params)
        if self.limit is not None:
            self.limit(params)
        scaler.step(optimizer)
        scaler.update()
def limited(params):
    clip(params, 1.0)
class Bounded:
    def train(self, params, optimizer, scaler, loss, limit=print):
        scaler.scale(loss).backward()
        limit(params)
        scaler.step(optimizer)
        scaler.update()
class Changed:
    def train(self, params, optimizer, scaler, loss, limit=None):
        limit = optimizer.limit or limit
        scaler.scale(loss).backward()
        limit(params)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ("Trainer().train(p, o, s, l, lambda ps: clip(ps, 1.0))", "limit(params)"),
        ("Trainer().train(p, o, s, l, limit=partial(clip, max_norm=1.0))", "limit(params)"),
        ("Trainer().train(p, o, s, l, limit=limited)", "clip(params, 1.0)"),
        ("Trainer(limited).train(p, o, s, l)", "clip(params, 1.0)"),
        ("Trainer(partial(clip, max_norm=1.0)).train(p, o, s, l)", "self.limit(params)"),
        ("Trainer().train(p, o, s, l)", ""),
        ("Trainer(print).train(p, o, s, l); Trainer(limited).train(p, o, s, l)", ""),
        ("Trainer(p and limited).train(p, o, s, l)", ""),
        ("Bounded().train(p, o, s, l, limit=limited)", ""),
        ("Changed().train(p, o, s, l, limit=limited)", ""),
    ],
)
def test_a_clip_that_is_handed_on(calls: str, found: str) -> None:
    seen = clips(HANDED + calls)
    assert "".join(_source(each.call) for each in seen) == found


def test_of_several_clips_that_are_handed_on_each_is_one() -> None:
    made = "for each in (1.0, 2.0):\n    Trainer(partial(clip, max_norm=each)).train(p, o, s, l)\n"
    one, *others = clips(HANDED + made + made)
    assert _source(one.call) == "self.limit(params)" and not others
    assert not clips(HANDED + made + "Trainer(print).train(p, o, s, l)")


GIVEN = """\
import torch
def one_step(model, optimizer, scaler, x, amp):
    scaler.scale(model(x).mean()).backward()
    if not amp:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
def train(model, optimizer, loader, amp):
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for x in loader:
        one_step(model, optimizer, scaler, x, amp)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 0),
        (", enabled=amp", "", 1),
        ("enabled=amp", "enabled=not amp", 1),
        ("enabled=amp", "enabled=False", 0),
        ("if not amp", "if amp", 1),
    ],
)
def test_a_scaler_is_on_as_its_caller_made_it(old: str, new: str, count: int) -> None:
    model = model_of(GIVEN.replace(old, new) if old else GIVEN)
    assert len([*model.clips.scaled]) == count


APART = """\
def step({names}, scaler, x):
    {a}.zero_grad()
    {b}.zero_grad()
    scaler.scale({second}({first}(x)).mean()).backward()
    scaler.unscale_({a})
    clip({second}.parameters(), 1.0)
    scaler.step({a})
    scaler.step({b})
    scaler.update()


def main(first, second, loader):
    a = torch.optim.SGD(first.parameters(), lr=0.1)
    b = torch.optim.SGD({trained}.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    record = Record(a=a, b=b, first=first, second=second)
    for x in loader:
        step({given}, scaler, x)


@dataclasses.dataclass
class Record:
    a: object
    b: object
    first: object
    second: object
"""
PLAIN = {name: name for name in ("a", "b", "first", "second")}
FIELDS = {name: f"o.{name}" for name in PLAIN}


@pytest.mark.parametrize("trained", ["second", "first"])
@pytest.mark.parametrize(
    ("names", "given", "parts"),
    [("a, b, first, second", "a, b, first, second", PLAIN), ("o", "record", FIELDS)],
)
def test_another_optimizer_is_unscaled_in_a_helper(
    names: str, given: str, parts: dict[str, str], trained: str
) -> None:
    text = APART.format(names=names, given=given, trained=trained, **parts)
    assert len(clips("import dataclasses\n" + text)) == (trained == "second")
