"""Calls of the GradScaler protocol in the wrong state: what is found, and what is not."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint import engine
from amp_lint.model import Model
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.text.source import Source
from amp_lint.walk.found import Found
from tests.programs import model_of

HEADER = "import torch\nfrom torch.nn.utils import clip_grad_norm_ as clip\n"
MADE = 'scaler = torch.amp.GradScaler("cuda")\n'
SCALED = "scaler.scale(model(x)).backward()\n"
UNSCALE = "scaler.unscale_(optimizer)\n"
STEP = "scaler.step(optimizer)\n"
DIRECT = "optimizer.step()\n"
OTHER = "other_optimizer.step()\n"
UPDATE = "scaler.update()\n"
ZERO = "optimizer.zero_grad()\n"
FINITE = "if torch.isfinite(n):\n"
NOT_FINITE = "if not torch.isfinite(n):\n"
NOT_LAST = "if (i + 1) % k:\n"
LAST = "if (i + 1) % k == 0:\n"
NAMES = (
    "repeated_unscales",
    "bypasses",
    "double_steps",
    "steps_without_update",
    "left_early",
    "early_updates",
    "second_updates",
    "unscaled_backwards",
    "mismatches",
    "scheduled",
)


def under(head: str, body: str) -> str:
    return head + textwrap.indent(body, "    ")


def looped(body: str, before: str = MADE) -> Model:
    """The model of a usual training loop with this body."""
    loop = before + under("for i, x in enumerate(loader):\n", body)
    names = "model, optimizer, other, scheduler, loader, args, k"
    return model_of(HEADER + under(f"def train({names}):\n", loop))


def found(model: Model) -> list[tuple[str, str, str]]:
    """Each mistake with the source of its event and of its cause."""
    return [
        (name, source(model, one, cause=False), source(model, one, cause=True))
        for name in NAMES
        for one in getattr(model.mistakes, name)
    ]


def source(model: Model, one: Found, *, cause: bool) -> str:
    return model.tree.source((one.cause if cause else one.event).node).strip()


BACKWARD = SCALED.strip()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            SCALED + UNSCALE + UNSCALE + STEP + UPDATE,
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="unscaled twice",
        ),
        pytest.param(
            SCALED + UNSCALE + under(LAST, STEP + UPDATE + ZERO),
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="unscaled in each micro-batch",
        ),
        pytest.param(
            "last = (i + 1) % k == 0\nskip = False\n"
            + SCALED
            + under(
                "if last and not skip:\n",
                UNSCALE
                + "norm = clip(model.parameters(), 1.0)\n"
                + "if norm > 5.0:\n    skip = True\n"
                + under("if not skip:\n", STEP + UPDATE),
            ),
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="given up after unscale_",
        ),
        pytest.param(
            under("for part in x:\n", SCALED) + UNSCALE + under(LAST, STEP + UPDATE + ZERO),
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="unscaled in each round, after a loop that gathers",
        ),
        pytest.param(
            SCALED + STEP + UNSCALE + UPDATE,
            ("repeated_unscales", UNSCALE, STEP),
            id="unscaled after the step",
        ),
        pytest.param(SCALED + DIRECT, ("bypasses", DIRECT, BACKWARD), id="direct step"),
        pytest.param(
            under("if args.a:\n", SCALED + STEP) + under("else:\n", SCALED + DIRECT) + UPDATE,
            ("bypasses", DIRECT, BACKWARD),
            id="direct step in one branch",
        ),
        pytest.param(
            SCALED + UNSCALE + DIRECT + "adam_optimizer.step()\n" + UPDATE,
            ("bypasses", "adam_optimizer.step()", BACKWARD),
            id="another optimizer unscaled",
        ),
        pytest.param(
            SCALED + STEP + DIRECT + UPDATE, ("double_steps", DIRECT, STEP), id="step, direct step"
        ),
        pytest.param(
            "other_optimizer.zero_grad()\n" + SCALED + STEP + UPDATE + OTHER,
            ("bypasses", OTHER, BACKWARD),
            id="another optimizer, after the update",
        ),
        pytest.param(
            SCALED + STEP + UPDATE + under("if args.a:\n", OTHER) + "other_optimizer.zero_grad()\n",
            ("bypasses", OTHER, BACKWARD),
            id="another optimizer, at times, after the update",
        ),
        pytest.param(
            SCALED + UNSCALE + DIRECT + STEP + UPDATE,
            ("double_steps", STEP, DIRECT),
            id="direct step, step",
        ),
        pytest.param(SCALED + STEP, ("steps_without_update", STEP, STEP), id="never updated"),
        pytest.param(
            SCALED + STEP + under("if i % 100 == 0:\n", UPDATE),
            ("steps_without_update", STEP, STEP),
            id="updated now and then",
        ),
        pytest.param(
            SCALED + STEP + STEP + UPDATE, ("steps_without_update", STEP, STEP), id="stepped twice"
        ),
        pytest.param(
            SCALED + UNSCALE + under("if n > 1e3:\n", "continue\n") + STEP + UPDATE,
            ("left_early", "continue", BACKWARD),
            id="left after unscale_",
        ),
        pytest.param(
            SCALED + UNSCALE + under("if (i + 1) % k != 0:\n", "continue\n") + STEP + UPDATE,
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="left until the last micro-batch",
        ),
        pytest.param(
            SCALED + under("if not torch.isfinite(n):\n", "continue\n") + STEP + UPDATE,
            ("left_early", "continue", BACKWARD),
            id="left with scaled gradients",
        ),
        pytest.param(
            SCALED + UNSCALE + under("if loss.isnan():\n", "continue\n") + STEP + UPDATE,
            ("left_early", "continue", BACKWARD),
            id="left after unscale_ for a loss",
        ),
        pytest.param(
            SCALED + UNSCALE + under("if bad(model):\n", "return\n") + STEP + UPDATE,
            ("left_early", "return", BACKWARD),
            id="returned after unscale_",
        ),
        pytest.param(
            SCALED + UNSCALE + UPDATE + STEP, ("early_updates", UPDATE, STEP), id="update, step"
        ),
        pytest.param(SCALED + DIRECT + UPDATE, ("bypasses", DIRECT, BACKWARD), id="a direct step"),
        pytest.param(
            SCALED + STEP + UPDATE + "scaler.step(other)\n",
            ("early_updates", UPDATE, "scaler.step(other)"),
            id="update between two steps",
        ),
        pytest.param(
            SCALED
            + STEP
            + UPDATE
            + under("for p in other_model.parameters():\n", "p.grad *= w\n")
            + "scaler.step(other)\n",
            ("early_updates", UPDATE, "scaler.step(other)"),
            id="update between two steps, the gradients of the second changed",
        ),
        pytest.param(
            under("if x.size(0) != n:\n", "continue\n")
            + SCALED
            + UNSCALE
            + under(LAST, STEP + UPDATE + ZERO),
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="left at the top of the round after unscale_ in the last",
        ),
        pytest.param(
            under("if x.size(0) == n:\n", SCALED + UNSCALE + under(LAST, STEP + UPDATE + ZERO)),
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="the same, the rest under a test",
        ),
        pytest.param(
            SCALED + UNSCALE + under(NOT_LAST, "continue\n") + STEP + UPDATE,
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="unscale_ in each micro-batch, left early",
        ),
        pytest.param(
            SCALED + UNSCALE + under(FINITE, STEP + UPDATE),
            ("left_early", "torch.isfinite(n)", BACKWARD),
            id="a test of the step, unscaled",
        ),
        pytest.param(
            SCALED + UNSCALE + "ok = torch.isfinite(n)\n" + under("if ok:\n", STEP + UPDATE),
            ("left_early", "ok", BACKWARD),
            id="a test of the step, with a name",
        ),
        pytest.param(
            SCALED + UNSCALE + "last = (i + 1) % k == 0\n" + under("if last:\n", STEP + UPDATE),
            ("repeated_unscales", UNSCALE, UNSCALE),
            id="unscale_ in each micro-batch, the last one with a name",
        ),
        pytest.param(
            SCALED + under(FINITE, STEP + UPDATE),
            ("left_early", "torch.isfinite(n)", BACKWARD),
            id="a test of the step, scaled",
        ),
        pytest.param(
            SCALED + UNSCALE + under(NOT_FINITE, ZERO) + under("else:\n", STEP + UPDATE),
            ("left_early", "not torch.isfinite(n)", BACKWARD),
            id="a test with the step in the other arm",
        ),
        pytest.param(
            SCALED + STEP + UPDATE + ZERO + "scaler.step(other)\n",
            ("early_updates", UPDATE, "scaler.step(other)"),
            id="update between two steps, the first optimizer cleared",
        ),
        pytest.param(
            SCALED + STEP + UPDATE + ZERO + "print(i)\nscaler.update( )\n",
            ("second_updates", UPDATE, "scaler.update( )"),
            id="updated twice, gradients cleared",
        ),
        pytest.param(
            SCALED + STEP + UPDATE + "print(i)\nscaler.update( )\n",
            ("second_updates", UPDATE, "scaler.update( )"),
            id="updated twice",
        ),
        pytest.param(
            "model(x).backward()\n" + STEP + UPDATE,
            ("unscaled_backwards", STEP, "model(x).backward()"),
            id="loss not scaled",
        ),
        pytest.param(
            SCALED + STEP + "scheduler.step()\n" + UPDATE,
            ("scheduled", "scheduler.step()", STEP),
            id="scheduler before update",
        ),
        pytest.param(
            SCALED + STEP + UPDATE + "for scheduler in args:\n    scheduler.step()\n",
            ("scheduled", "scheduler.step()", UPDATE),
            id="several schedulers",
        ),
    ],
)
def test_mistake(body: str, expected: tuple[str, str, str]) -> None:
    name, event, cause = expected
    assert found(looped(body)) == [(name, event.strip(), cause.strip())]


@pytest.mark.parametrize(("given", "count"), [("2**10", 1), ("init_scale=1", 0), ("2", 1)])
def test_a_scale_that_is_never_updated(given: str, count: int) -> None:
    made = f"scaler = torch.cuda.amp.GradScaler({given})\n"
    assert len(found(looped(SCALED + DIRECT, made))) == count


@pytest.mark.parametrize(
    "end",
    [
        under("if n < 9:\n", STEP + UPDATE),
        under("if n >= 9:\n", "return\n") + STEP + UPDATE,
        under("if n >= 9:\n", "return\n") + under("else:\n", STEP + UPDATE),
    ],
)
@pytest.mark.parametrize(
    ("call", "count"), [("x)", 1), ("3)", 0), ("9)", 1), ("x)\nscaler.update()", 0)]
)
def test_a_function_that_may_not_step(end: str, call: str, count: int) -> None:
    text = under("def one(model, optimizer, scaler, x, n):\n", SCALED + UNSCALE + end)
    call = f"one(model, optimizer, scaler, x, {call}\n"
    text += under("def all(model, optimizer, scaler, x):\n", call)
    assert [name for name, *_ in found(model_of(HEADER + text))] == ["left_early"] * count


@pytest.mark.parametrize(
    "made",
    [
        MADE + 'second = torch.amp.GradScaler("cuda")\n',
        MADE + 'second: object = torch.amp.GradScaler("cuda")\n',
        'scaler, second = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")\n',
    ],
)
def test_two_scalers(made: str) -> None:
    model = looped(SCALED + "second.step(optimizer)\nsecond.update()\n", made)
    assert found(model) == [("mismatches", "second.step(optimizer)", BACKWARD)]


def test_a_loss_that_was_not_scaled_is_no_other_scaler() -> None:
    made = MADE + 'second = torch.amp.GradScaler("cuda")\n'
    body = SCALED + PLAIN + STEP + "second.step(other)\n" + UPDATE + "second.update()\n"
    assert "mismatches" not in [name for name, *_ in found(looped(body, made))]
    scaled = "second.scale(model(x)).backward()\n"
    body = SCALED + under("if k:\n", scaled) + STEP + "second.step(other)\n" + UPDATE
    assert "mismatches" not in [name for name, *_ in found(looped(body, made))]


CHOICE = 'scaler = torch.amp.GradScaler("cuda") if args.amp else None\n'
PLAIN = "model(x).backward()\n"


@pytest.mark.parametrize(
    ("before", "body"),
    [
        pytest.param(MADE, SCALED + UNSCALE + STEP + UPDATE, id="right"),
        pytest.param(
            MADE, PLAIN + DIRECT + ZERO + SCALED + STEP + UPDATE, id="two steps on other gradients"
        ),
        pytest.param(
            MADE,
            SCALED + STEP + "model.zero_grad()\n" + PLAIN + DIRECT + UPDATE,
            id="the gradients of the scaler's step cleared",
        ),
        pytest.param(
            MADE,
            SCALED
            + under("if args.clip:\n", UNSCALE + "clip(model.parameters(), 1)\n")
            + under("else:\n", UNSCALE)
            + STEP
            + UPDATE,
            id="branches that both unscale",
        ),
        pytest.param(
            MADE,
            SCALED + UNSCALE + "scaler.unscale_(other)\n" + STEP + "scaler.step(other)\n" + UPDATE,
            id="two optimizers, one update",
        ),
        pytest.param(MADE, SCALED + under(LAST, UNSCALE + STEP + UPDATE + ZERO), id="accumulation"),
        pytest.param(
            MADE,
            SCALED + under("if i % k == k - 1:\n", UNSCALE) + under(LAST, STEP + UPDATE),
            id="two tests for the last micro-batch",
        ),
        pytest.param(
            MADE,
            SCALED + under("if i % k == k - 1:\n", STEP) + under(LAST, UPDATE + ZERO),
            id="two tests for step and update",
        ),
        pytest.param(
            MADE,
            under("for _ in range(1):\n", SCALED + UNSCALE + STEP) + UPDATE,
            id="a loop of one round",
        ),
        pytest.param(MADE, under("if bad(x):\n", "continue\n") + SCALED + STEP + UPDATE, id="skip"),
        pytest.param(
            MADE,
            under("if torch.isnan(loss):\n", "continue\n") + SCALED + under(LAST, STEP + UPDATE),
            id="a micro-batch left out for its loss",
        ),
        pytest.param(
            MADE,
            SCALED + UNSCALE + under("if bad(x):\n", UPDATE + "continue\n") + STEP + UPDATE,
            id="update before leaving",
        ),
        pytest.param(
            MADE,
            SCALED + UNSCALE + under("if bad(x):\n", "raise ValueError(x)\n") + STEP + UPDATE,
            id="an error",
        ),
        pytest.param(
            MADE, SCALED + UNSCALE + under(FINITE, STEP) + UPDATE, id="a test of the step alone"
        ),
        *(
            pytest.param(
                MADE,
                SCALED + UNSCALE + under(FINITE, STEP + UPDATE) + under("else:\n", other),
                id=f"a test of the step, else {other.strip()}",
            )
            for other in (
                "raise ValueError(x)\n",
                "break\n",
                UPDATE,
                "if x: raise ValueError(x)\n" + UPDATE,
            )
        ),
        pytest.param(
            MADE,
            SCALED
            + under("if i % k == 0:\n", UNSCALE)
            + under(NOT_LAST, "continue\n")
            + STEP
            + UPDATE,
            id="two tests for the last micro-batch, one left early",
        ),
        pytest.param(
            CHOICE,
            under("if args.amp:\n", SCALED)
            + under("else:\n", PLAIN)
            + under("if scaler is not None:\n", STEP + UPDATE)
            + under("else:\n", DIRECT),
            id="a mode without scaler",
        ),
        pytest.param(MADE, SCALED + UNSCALE + DIRECT + UPDATE, id="a direct step after unscale_"),
        pytest.param(
            MADE,
            SCALED + "for p in model.parameters(): p.grad /= scaler.get_scale()\n" + DIRECT,
            id="divided by hand",
        ),
        pytest.param(DIRECT + MADE, SCALED + STEP + UPDATE, id="a step before training"),
        pytest.param(
            MADE.replace('"cuda"', '"cuda", enabled=False'), SCALED + DIRECT, id="a disabled scaler"
        ),
        pytest.param(
            MADE.replace('"cuda"', '"cuda", enabled=args.amp'),
            PLAIN + STEP + UPDATE,
            id="a scaler that may be disabled",
        ),
        pytest.param(MADE, SCALED + STEP + UPDATE + "scaler.update(1.0)\n", id="a scale set"),
        pytest.param(
            MADE,
            SCALED + STEP + UPDATE + "other.zero_grad()\nscaler.scale(f(x)).backward()\n"
            "scaler.step(other)\n" + UPDATE,
            id="a backward pass for each update",
        ),
        pytest.param(MADE, SCALED + STEP + "hook(scaler)\n", id="a scaler that goes elsewhere"),
        pytest.param(
            MADE, SCALED + STEP + "hook(amp=scaler)\n", id="a scaler that goes elsewhere by name"
        ),
        pytest.param(
            MADE, SCALED + "optimizer.step('d', scaler=scaler)\n", id="a step that gets the scaler"
        ),
        *(
            pytest.param(
                MADE,
                SCALED + STEP + UPDATE + clear + UNSCALE + STEP + UPDATE,
                id=f"cleared between by {clear.strip()}",
            )
            for clear in (
                ZERO,
                "model.zero_grad()\n",
                "for p in model.parameters(): p.grad = None\n",
            )
        ),
        pytest.param(
            MADE,
            "loss = scaler.scale(model(x))\nloss.backward()\n" + STEP + UPDATE,
            id="a loss that is rebound",
        ),
        pytest.param(
            MADE,
            SCALED
            + STEP
            + "before = scaler.get_scale()\n"
            + UPDATE
            + "if scaler.get_scale() >= before:\n    scheduler.step()\n",
            id="scheduler after, by the scale",
        ),
        pytest.param(
            MADE, SCALED + STEP + "scheduler.step(loss)\n" + UPDATE, id="scheduler by a metric"
        ),
        pytest.param(
            "scaler = torch.cuda.amp.GradScaler(1)\n", SCALED + DIRECT, id="a scale that stays 1"
        ),
        pytest.param(
            MADE.replace('"cuda"', '"cuda", 1.0'), SCALED + DIRECT, id="a scale that stays 1.0"
        ),
        pytest.param(
            MADE.replace('"cuda"', '"cuda", enabled=False'),
            SCALED + STEP + "scheduler.step()\n" + UPDATE,
            id="scheduler beside a disabled scaler",
        ),
        pytest.param(
            MADE,
            SCALED
            + "before = scaler.get_scale()\n"
            + STEP
            + "done = before <= scaler.get_scale()\n"
            + under("if done:\n", "scheduler.step()\n")
            + UPDATE,
            id="scheduler under a test of the scale",
        ),
        pytest.param(
            MADE,
            SCALED
            + STEP
            + "done = before <= scaler.get_scale()\n"
            + under("if not done:\n", UPDATE + "continue\n")
            + "scheduler.step()\n"
            + UPDATE,
            id="scheduler below a test of the scale",
        ),
        *(
            pytest.param(MADE, body, id=f"another optimizer after the update: {what}")
            for what, body in (
                ("cleared", SCALED + STEP + UPDATE + "model.zero_grad()\n" + OTHER),
                ("of a later loss", SCALED + STEP + UPDATE + PLAIN + OTHER),
                ("unscaled", SCALED + "scaler.unscale_(other_optimizer)\n" + STEP + UPDATE + OTHER),
                ("by hand", SCALED + STEP + UPDATE + "other.grad = made\n" + OTHER),
                ("a part of it", SCALED + "scaler.step(other_optimizer.inner)\n" + UPDATE + OTHER),
                (
                    "unscaled in a comprehension",
                    SCALED + "[scaler.unscale_(o) for o in k]\n" + STEP + UPDATE + OTHER,
                ),
                ("divided in place", SCALED + "for g in k: g /= 2\n" + STEP + UPDATE + OTHER),
                (
                    "of some weights",
                    "scaler.scale(model(x)).backward(inputs=k)\n" + STEP + UPDATE + OTHER,
                ),
                ("made elsewhere", SCALED + STEP + UPDATE + "other.train_head(x)\n" + OTHER),
                ("divided elsewhere", SCALED + "divide(other)\n" + STEP + UPDATE + OTHER),
                (
                    "unscaled in a loop",
                    SCALED
                    + under("for o in (optimizer, other_optimizer):\n", "scaler.unscale_(o)\n")
                    + STEP
                    + UPDATE
                    + OTHER,
                ),
                (
                    "of an earlier round",
                    PLAIN + under("for _ in range(2):\n", SCALED + STEP + UPDATE) + OTHER,
                ),
                (
                    "the same one, wrapped",
                    "other_optimizer = Lookahead(optimizer)\n" + SCALED + STEP + UPDATE + OTHER,
                ),
            )
        ),
        pytest.param(
            MADE + "amp = scaler\n", SCALED + "amp.step(optimizer)\namp.update()\n", id="two names"
        ),
    ],
)
def test_no_mistake(before: str, body: str) -> None:
    assert found(looped(body, before)) == []


@pytest.mark.parametrize(
    "skipped",
    [
        SCALED + "n = f(x)\n" + under(NOT_FINITE, STEP + "continue\n") + UPDATE,
        SCALED + under("if not torch.isfinite(f(x)):\n", STEP + "continue\n") + UPDATE,
        SCALED + under("if torch.isfinite(x):\n", STEP) + under("else:\n", UPDATE),
        SCALED + "bad = torch.isnan(x)\n" + under("if bad:\n", UPDATE + "continue\n") + STEP,
    ],
)
def test_any_number_of_rounds_may_be_finite(skipped: str) -> None:
    assert "steps_without_update" in {name for name, *_ in found(looped(skipped))}


def test_each_scaler_steps_for_its_own_loss() -> None:
    made = "one, other = torch.amp.GradScaler(), torch.amp.GradScaler()\n"
    backward = "one.scale(a).backward()\nother.scale(b).backward()\n"
    steps = "one.step(first)\none.update()\nother.step(second)\nother.update()\n"
    assert not found(looped(backward + steps, made))


@pytest.mark.parametrize(
    ("test", "count"), [("n > 0", 0), ("n >= 1", 0), ("n < 1", 1), ("m > 0", 1)]
)
def test_what_is_left_after_the_loop(test: str, count: int) -> None:
    loop = under(
        "for x in loader:\n",
        SCALED + "n += 1\n" + under("if n == k:\n", STEP + UPDATE + "n = 0\n"),
    )
    rest = under(f"if {test}:\n", STEP + UPDATE)
    model = model_of(
        HEADER
        + under("def train(model, optimizer, scaler, loader, k, m):\n", "n = 0\n" + loop + rest)
    )
    assert len(found(model)) == count


@pytest.mark.parametrize(
    ("loop", "optimizer"),
    [
        ("for opt in optimizers:\n", "opt"),
        ("for i, opt in enumerate(optimizers):\n", "opt"),
        ("for net, opt in zip(nets, optimizers):\n", "opt"),
        ("for name, opt in optimizers.items():\n", "opt"),
        ("for i in range(2):\n", "optimizers[i]"),
        ("for i in range(2):\n    opt = optimizers[i]\n", "opt"),
    ],
)
def test_another_optimizer_in_each_round(loop: str, optimizer: str) -> None:
    step = f"scaler.unscale_({optimizer})\nscaler.step({optimizer})\n"
    body = loop + textwrap.indent(SCALED + step, "    ") + UPDATE
    assert found(looped(body)) == []
    twice = loop + textwrap.indent(SCALED + step + step, "    ") + UPDATE
    assert {name for name, *_ in found(looped(twice))} == {
        "repeated_unscales",
        "steps_without_update",
    }


def test_a_helper_that_is_called_for_each_optimizer() -> None:
    model = model_of(
        """
        import torch


        class Trainer:
            def __init__(self, model, optimizers):
                self.model, self.optimizers = model, optimizers
                self.scaler = torch.amp.GradScaler("cuda")

            def optimize(self, optimizer, x, index, count):
                self.scaler.scale(self.model(x)).backward()
                self.scaler.step(optimizer)
                if index + 1 == count:
                    self.scaler.update()

            def train(self, loader):
                for x in loader:
                    for i, optimizer in enumerate(self.optimizers):
                        self.optimize(optimizer, x, i, len(self.optimizers))
        """
    )
    assert found(model) == []


def test_steps_and_updates_in_callbacks() -> None:
    model = model_of(
        """
        import torch


        class Mixed:
            def __init__(self):
                self.scaler = torch.amp.GradScaler("cuda")

            def after_step(self):
                self.scaler.update()

            def before_step(self):
                self.scaler.step(self)

            def before_backward(self):
                self.loss = self.scaler.scale(self.loss)
        """
    )
    assert found(model) == []


def test_a_scaler_of_an_argument_may_be_disabled() -> None:
    model = model_of(
        """
        def train(model, optimizer, scaler, loader):
            for x in loader:
                model(x).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )
    assert found(model) == []


# --- what fixes ask -------------------------------------------------------------------------------


def test_scaler_where_the_step_is() -> None:
    model = looped(SCALED + DIRECT)
    (one,) = model.mistakes.bypasses
    assert model.step_places.scaler_text(one.cause, one.event) == "scaler"
    assert not model.step_places.is_updated(one.event)
    (one,) = (updated := looped(SCALED + DIRECT + UPDATE)).mistakes.bypasses
    assert updated.step_places.is_updated(one.event)


def test_no_scaler_where_the_step_is() -> None:
    model = model_of(
        """
        def backward(scaler, loss):
            scaler.scale(loss).backward()

        def train(model, optimizer, grad_scaler, x):
            backward(grad_scaler, model(x))
            optimizer.step()
        """
    )
    (one,) = model.mistakes.bypasses
    assert model.step_places.scaler_text(one.cause, one.event) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (STEP + under("if i % 100 == 0:\n", UPDATE), True),
        (STEP + under("if i % 100 == 0:\n", UPDATE + "print(i)\n"), False),
        (STEP + under("if i % 100 == 0:\n", UPDATE) + under("else:\n", "print(i)\n"), False),
        (STEP + "# why\n" + under("if i % 100 == 0:\n", UPDATE), False),
        (STEP + under("if i % 9 == 0:\n", UPDATE) + under(LAST, UPDATE), False),
        (STEP, False),
    ],
)
def test_update_under_a_test(body: str, expected: bool) -> None:
    model = looped(SCALED + body)
    (one,) = model.mistakes.steps_without_update
    assert (model.step_places.update_under_test(one.event) is not None) is expected


def test_where_an_early_update_belongs() -> None:
    model = looped(SCALED + STEP + UPDATE + "scaler.step(other)\n" + "scaler.update( )\n")
    (one,) = model.mistakes.early_updates
    step = model.step_places.last_step_after(one.event)
    again = model.step_places.next_update(one.event)
    assert step is not None and again is not None
    assert model.tree.source(step) == "scaler.step(other)"
    assert model.tree.source(again) == "scaler.update( )"
    assert model.step_places.follows(one.event.node, step)
    assert not model.step_places.follows(step, one.event.node)


def test_a_norm_that_a_helper_returns_is_not_none() -> None:
    """The second clip is for steps without the first one."""
    model = model_of(
        """
        class Trainer:
            def clip(self, model):
                if self.sharded:
                    return self.optimizer.clip_main_gradients(1.0)
                return self.accelerator.clip_grad_norm_(model.parameters(), 1.0)

            def norm(self, model, norm=None):
                if norm is None:
                    norm = self.accelerator.clip_grad_norm_(model.parameters(), float("inf"))
                return norm

            def train(self, model, loader, limit):
                for x in loader:
                    self.accelerator.backward(model(x).mean())
                    norm = None
                    if limit > 0:
                        norm = self.clip(model)
                    norm = self.norm(model, norm=norm)
                    self.optimizer.step()
        """
    )
    assert found(model) == []


CONSTANTS = """\
class CFG:
    amp = {amp}
    unscale = {unscale}
"""


@pytest.mark.parametrize(
    ("amp", "unscale", "switch", "is_found"),
    [
        (True, False, "CFG.amp", True),
        (True, True, "CFG.amp", False),
        (False, False, "CFG.amp", False),
        (True, False, "args.amp", False),
        (True, "args.x", "CFG.amp", False),
    ],
)
def test_a_constant_that_leaves_out_the_scaler_that_another_one_has_on(
    amp: object, unscale: object, switch: str, is_found: bool
) -> None:
    made = f'scaler = torch.amp.GradScaler("cuda", enabled={switch})\n'
    clipped = under("if CFG.unscale:\n", UNSCALE) + "clip(model.parameters(), 1.0)\n"
    loop = made + under("for x in loader:\n", SCALED + clipped + STEP + UPDATE + ZERO)
    constants = CONSTANTS.format(amp=amp, unscale=unscale)
    model = model_of(
        HEADER + constants + under("def train(model, optimizer, loader, args):\n", loop)
    )
    assert bool(model.clips.scaled) is is_found


ONLY_STEPS = """\
def advance(scaler, optimizer, other, scheduler, loss):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (STEP + UPDATE + "scheduler.step()\n", ["scheduled"]),
        ("scheduler.step()\n" + UPDATE, []),
        (UPDATE + "scheduler.step()\n", []),
        (STEP + UPDATE + "scaler.step(other)\n" + UPDATE, []),
        (STEP + UPDATE + SCALED.replace("model(x)", "loss") + "scheduler.step()\n", ["scheduled"]),
    ],
)
def test_a_function_that_only_steps(body: str, expected: list[str]) -> None:
    text = ONLY_STEPS.format(body=textwrap.indent(body, "    ").strip())
    assert [name for name, _, _ in found(model_of(HEADER + text))] == expected


@pytest.mark.parametrize(
    ("loss", "count"), [("model(x)", 0), ("scaler.scale(model(x))", 1)], ids=["plain", "scaled"]
)
def test_a_step_with_a_closure_makes_its_own_gradients(loss: str, count: int) -> None:
    closure = f"def closure():\n    lbfgs_optimizer.zero_grad()\n    {loss}.backward()\n"
    body = SCALED + STEP + closure + "lbfgs_optimizer.step(closure)\n" + UPDATE
    assert len(looped(body).mistakes.bypasses) == count


@pytest.mark.parametrize("given", ["closure=None", "closure", "i"])
def test_an_argument_that_is_no_closure_makes_no_gradients(given: str) -> None:
    body = SCALED + STEP + f"lbfgs_optimizer.step({given})\n" + UPDATE
    assert len(looped(body).mistakes.bypasses) == 1


def test_a_closure_that_scales_by_a_helper() -> None:
    text = f"""
        import torch
        def scaled(model, x, scaler):
            return scaler.scale(model(x))
        def train(model, optimizer, loader):
            {MADE.strip()}
            for x in loader:
                def closure():
                    loss = scaled(model, x, scaler)
                    loss.backward()
                    return loss
                scaler.scale(model(x)).backward()
                optimizer.step(closure)
        """
    assert len(model_of(text).mistakes.bypasses) == 1


def test_what_averages_weights_is_no_optimizer() -> None:
    made = MADE + "swa = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.1)\n"
    made += "averaged = torch.optim.swa_utils.AveragedModel(model)\n"
    body = SCALED + STEP + UPDATE + "averaged.update_parameters(model)\nswa.step()\n"
    assert looped(body, made).mistakes.bypasses == []
    assert [name for name, *_ in found(looped(SCALED + "swa.step()\n", made))] == []


PARTS = """\
import torch
class Part:
    def __init__(self, optimizer, scaler):
        self.optimizer, self.scaler = optimizer, scaler
    def step(self):
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
        else:
            self.optimizer.step()
class All:
    def __init__(self, model):
        self.scaler = torch.amp.GradScaler("cuda")
        self.parts = {}
        for name, part in model.named_children():
            optimizer = torch.optim.SGD(part.parameters(), 0.1)
            self.parts[name] = Part(optimizer, self.scaler)
    def backward(self, loss):
        self.scaler.scale(loss).backward()
    def step(self):
        for name, optimizer in self.parts.items():
            self.scaler.unscale_(optimizer)
            optimizer.step()
        self.scaler.update()
"""


@pytest.mark.parametrize(
    ("stepped", "codes"), [("Part(optimizer, self.scaler)", []), ("optimizer", ["AMP104"])]
)
def test_objects_whose_own_step_asks_the_scaler(stepped: str, codes: list[str]) -> None:
    program = PARTS.replace("= Part(optimizer, self.scaler)", f"= {stepped}")
    source = Source(program.encode(), "train.py")
    rules = tuple(rule for rule in all_rules() if rule.code == "AMP104")
    assert [each.code for each in engine.check(source, Selection(rules))] == codes


STEP_OF_A_ROUND = """\
def one_step(i, k, optimizer, scaler, model, x, amp, scheduler):
    scaler.scale(model(x).mean() / k).backward()
    BODY
def train(model, optimizer, loader, k, amp, scheduler):
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(loader):
        one_step(i, k, optimizer, scaler, model, x, amp, scheduler)
"""
OFF = '"cuda", enabled=False'


@pytest.mark.parametrize(
    ("body", "made", "names"),
    [
        (f"if i % k == k - 1:\n    {UNSCALE}{LAST}    {STEP}    {UPDATE}", '"cuda"', []),
        (f"if i % k == k - 1:\n    {STEP}{LAST}    {UPDATE}", '"cuda"', []),
        (f"if amp:\n    {STEP}{LAST}    {UPDATE}", '"cuda"', ["steps_without_update"]),
        (f"{UNSCALE}if loss > 10:\n    return\n{STEP}{UPDATE}", '"cuda"', ["left_early"]),
        (f"{UNSCALE}if i % 2:\n    return\n{STEP}{UPDATE}", '"cuda"', ["repeated_unscales"]),
        (DIRECT, '"cuda"', ["bypasses"]),
        (DIRECT, OFF, []),
        (f"{STEP}{UPDATE}scheduler.step()\n", '"cuda"', ["scheduled"]),
        (f"{STEP}{UPDATE}scheduler.step()\n", OFF, []),
    ],
)
def test_a_round_that_is_a_function(body: str, made: str, names: list[str]) -> None:
    """What its caller counts is no setting, and a scaler is what its caller made."""
    program = STEP_OF_A_ROUND.replace("    BODY\n", textwrap.indent(body, "    "))
    model = model_of(HEADER + program.replace('"cuda"', made))
    assert [name for name, _, _ in found(model)] == names


ARMS = """\
def train(model, optimizer, loader, scheduler, scaler, amp):
    for x in loader:
        loss = model(x).mean()
        if TEST:
            loss.backward()
            optimizer.step()
            scheduler.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize("test", ["scaler is None", "not amp", "not scaler", "amp != 'fp16'"])
def test_a_scheduler_in_the_arm_without_a_scaler(test: str) -> None:
    program = HEADER + ARMS.replace("TEST", test)
    assert not found(model_of(program))
    both = program.replace("scaler.update()\n", "scaler.update()\n            scheduler.step()\n")
    ((name, event, _),) = found(model_of(both))
    assert (name, event) == ("scheduled", "scheduler.step()")


HELPER = """\
def make(args):
    scaler = torch.amp.GradScaler("cuda") if args.amp else None
    return scaler
def train(args, model, optimizer, loader):
    scaler = make(args)
    for x in loader:
        loss = model(x).mean()
        if args.amp:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
"""


def test_a_helper_that_may_give_no_scaler() -> None:
    assert not found(model_of(HEADER + HELPER))


@pytest.mark.parametrize(
    "body",
    [
        under(NOT_LAST, UPDATE) + under("else:\n", STEP + UPDATE),
        under(LAST, STEP + UPDATE) + under("else:\n", UPDATE),
        under(LAST, STEP + UPDATE + "continue\n") + UPDATE,
    ],
)
def test_an_update_of_nothing_in_either_order_of_the_arms(body: str) -> None:
    assert len(looped(SCALED + body).mistakes.empty_updates) == 1


@pytest.mark.parametrize(
    ("cleared", "count"),
    [(ZERO, 0), ("model.zero_grad()\n", 0), ("other.zero_grad()\n", 1), ("", 1)],
)
def test_a_step_behind_the_loop_on_gradients_that_were_cleared(cleared: str, count: int) -> None:
    names = "model, optimizer, other, loader, k"
    other = "other = torch.optim.SGD(other.parameters(), lr=0.1)\n"
    stepped = under(LAST, STEP + "scaler.step(other)\n" + UPDATE)
    loop = under("for i, x in enumerate(loader):\n", SCALED + stepped + cleared)
    model = model_of(HEADER + under(f"def train({names}):\n", other + MADE + loop + DIRECT))
    assert len(model.mistakes.bypasses) == count
