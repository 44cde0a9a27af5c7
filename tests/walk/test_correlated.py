"""Two tests of one setting go the same way, however each is written."""

from __future__ import annotations

import textwrap

import pytest

from tests.programs import model_of

HEAD = """
import enum, torch
from torch.nn.utils import clip_grad_norm_
class Mode(enum.Enum):
    amp = "amp"
AMP = "amp"
def asks(mode, wanted="amp"):
    return mode == AMP
def train(model, optimizer, loader, k):
    scaler = torch.amp.GradScaler("cuda")
    for i, (x, a, b, mode, args) in enumerate(loader):
"""
ROUND = """
scaler.scale(model(x)).backward()
if {}:
    scaler.unscale_(optimizer)
if {}:
    clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
"""
SAME = [
    ("", "a", "a is not None"),
    ("", "a", "a > 0"),
    ("", "0 < a", "bool(a)"),
    ("", "len(a)", "not not a"),
    ("", "len(a) > 0", "len(a) != 0"),
    ("", "a is not None and a > 0", "a"),
    ("", "a is not None and a > 0", "a is not None"),
    ("", "getattr(args, 'clip', 0) > 0", "args.clip"),
    ("", "args.get('clip')", 'args["clip"] is not None'),
    ("", "(c := args.clip) is not None", "args.clip"),
    ("", "(i + 1) % k == 0", "not (i + 1) % k"),
    ("", "mode in ('amp', 'half')", "mode == 'amp'"),
    ("", "mode in (a, b)", "mode == a"),
    ("", "mode == AMP", "mode == 'amp'"),
    ("", "mode == Mode.amp", "mode.value == 'amp'"),
    ("", "mode is Mode.amp", "mode == 'amp'"),
    ("", "asks(mode)", "mode == 'amp'"),
    ("", "asks(mode=mode)", "asks(mode, 'half')"),
    ("use = asks(args.mode)", "use", "args.mode == 'amp'"),
    ("use = asks(mode)", "use and a", "asks(mode) and a"),
    ("use = bool(a)", "use", "a"),
    ("use = a and b", "use", "a and b"),
    ("args.use = a or b", "args.use", "b"),
    ("use = False\nif a:\n    use = True", "use", "a"),
    ("if a:\n    use = True\nelse:\n    use = False", "use", "a"),
    ("if b and not a:\n    raise ValueError", "a", "b"),
    ("assert a or not b", "a", "b"),
]


def clips(before: str, unscaled: str, clipped: str) -> int:
    """How many clips of scaled gradients there are."""
    body = before + ROUND.format(unscaled, clipped)
    return len(model_of(HEAD + textwrap.indent(body, " " * 8)).clips.scaled)


@pytest.mark.parametrize(("before", "unscaled", "clipped"), SAME)
def test_one_setting(before: str, unscaled: str, clipped: str) -> None:
    assert clips(before, unscaled, clipped) == 0
    assert clips(before, f"not ({unscaled})", clipped) == 1


@pytest.mark.parametrize(
    ("unscaled", "clipped"),
    [
        ("a", "b"),
        ("a > 1", "a"),
        ("mode == 'half'", "mode in ('amp', 'half')"),
        ("mode is Mode.amp", "mode is not None"),
        ("a is not None and a == 0", "a is not None"),
        ("(i + 1) % k == 0", "i % k == 0"),
        ("all(a)", "a"),
        ("asks(a)", "asks(b)"),
        ("asks(a)", "a"),
    ],
)
def test_two_settings(unscaled: str, clipped: str) -> None:
    assert clips("", unscaled, clipped) == 1


def test_what_was_answered_before_a_change() -> None:
    assert clips("use = asks(mode)\nmode = b", "use", "asks(mode)") == 1
    assert clips("use = asks(mode)\nmode = b", "use", "use") == 0


STAGE = 'scaler._per_optimizer_states[id(optimizer)]["stage"]'


@pytest.mark.parametrize("test", [f"{STAGE} is READY", "ready"])
def test_the_scaler_is_asked_what_is_unscaled(test: str) -> None:
    text = f"""
        import torch
        from torch.nn.utils import clip_grad_norm_
        def step(model, optimizer, loader, scaler, READY):
            for x in loader:
                scaler.scale(model(x)).backward()
                if model.log:
                    scaler.unscale_(optimizer)
                ready = {STAGE} is READY
                if {test}:
                    scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        """
    model = model_of(text)
    assert not model.clips.scaled
    assert not model.mistakes.repeated_unscales
    asked = text.replace(f"if {test}", "if READY")
    assert model_of(asked).mistakes.repeated_unscales


ANSWERING = """
    import torch
    class Trainer:
        def __init__(self, model, optimizer, mode, amp):
            self.model, self.optimizer, self.mode, self.amp = model, optimizer, mode, amp
            self.scaler = torch.amp.GradScaler("cuda")
        def scales(self, mode):
            found = mode == "fp16"
            if found and self.scaler is None:
                raise RuntimeError
            return found
        def backward(self, x):
            scales = {scaled}
            loss = self.model(x)
            if scales:
                loss = self.scaler.scale(loss)
            loss.backward()
        def fit(self, loader):
            scales = {stepped}
            for x in loader:
                self.backward(x)
                self.step(scales)
                self.optimizer.zero_grad()
        def step(self, scales):
            if scales:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("scaled", "stepped", "mistakes"),
    [
        ("self.scales(self.mode)", "self.scales(self.mode)", 0),
        ("self.scales(self.mode)", "self.mode == 'fp16'", 0),
        ("self.scales(mode=self.mode)", "not self.mode != 'fp16'", 0),
        ("self.scales(self.mode)", "not self.scales(self.mode)", 1),
    ],
)
def test_what_a_function_answers(scaled: str, stepped: str, mistakes: int) -> None:
    model = model_of(ANSWERING.format(scaled=scaled, stepped=stepped))
    assert len(model.mistakes.bypasses) == mistakes


@pytest.mark.parametrize(
    ("reset", "missing"),
    [
        ("scaler._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)", 0),
        ("scaler._growth_factor = 2.0", 1),
    ],
)
def test_stages_that_are_reset_let_it_step_again(reset: str, missing: int) -> None:
    text = f"""
        import torch
        from collections import defaultdict
        from torch.amp.grad_scaler import _refresh_per_optimizer_state
        def retry(scaler):
            {reset}
        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                while True:
                    optimizer.zero_grad()
                    scaler.scale(model(x)).backward()
                    scaler.step(optimizer)
                    if not model.thrashes:
                        break
                    retry(scaler)
                scaler.update()
        """
    assert len(model_of(text).mistakes.steps_without_update) == missing


def test_a_reset_of_another_scaler() -> None:
    text = """
        import torch
        def train(model, optimizer, loader):
            scaler, other = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
            for x in loader:
                scaler.scale(model(x)).backward()
                scaler.unscale_(optimizer)
                {reset}
                scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
        """
    own, other = "scaler._per_optimizer_states[0] = {}", "other._per_optimizer_states = {}"
    for reset, count in ((own, 0), (other, 1)):
        assert len(model_of(text.format(reset=reset)).mistakes.repeated_unscales) == count


ASKED = """
    import torch
    from torch.nn.utils import clip_grad_norm_
    {asks}
    def train(model, optimizer, loader, run):
        scaler = torch.amp.GradScaler("cuda")
        for x, kind in loader:
            scaler.scale(model(x)).backward()
            use = {use}
            if use:
                scaler.unscale_(optimizer)
            {between}
            if {test}:
                clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
"""
CLASS = """class Run:
        def asks(self, kind):
            return kind == "fp16"
"""


@pytest.mark.parametrize(
    ("asks", "use", "between", "test", "count"),
    [
        pytest.param(CLASS, "run.asks(kind)", "kind = 1", "use", 0, id="kept beyond a change"),
        pytest.param(CLASS, "Run().asks(kind)", "kind = x", "kind == 'fp16'", 1, id="changed"),
        pytest.param(
            "def asks(k):\n        if k == 'mixed': k = 'fp16'\n        return k == 'fp16'",
            "asks(kind)",
            "pass",
            "kind != 'fp16'",
            1,
            id="its parameter is another one there",
        ),
        pytest.param(
            "FP16 = False\n    def asks():\n        return FP16",
            "asks()",
            "pass",
            "not asks()",
            1,
            id="a setting alone",
        ),
        pytest.param(
            "def asks(k):\n        return asks(k)", "asks(kind)", "pass", "use", 0, id="itself"
        ),
        pytest.param(
            "def asks(k):\n        return k == 1",
            "asks(" * 30 + "kind" + ")" * 30,
            "pass",
            "use",
            0,
            id="many, one in the other",
        ),
        pytest.param(
            "kind = 'fp16'\n    def asks():\n        return kind == 'fp16'",
            "asks()",
            "pass",
            "kind == 'fp16'",
            1,
            id="a global of the same name",
        ),
    ],
)
def test_what_is_asked(asks: str, use: str, between: str, test: str, count: int) -> None:
    text = ASKED.format(asks=asks, use=use, between=between, test=test)
    assert len(model_of(text).clips.scaled) == count


def test_what_gives_an_object_is_no_question() -> None:
    text = """
        import torch
        def optimizer_of(agent):
            return agent.optimizer
        def update(agent, loss, scaler):
            scaler.scale(loss).backward()
            scaler.step(optimizer_of(agent))
        def train(actor, critic, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                update(actor, actor(x), scaler)
                update(critic, critic(x), scaler)
                scaler.update()
        """
    assert model_of(text).mistakes.steps_without_update == []


def test_what_a_method_gives_is_the_same_to_all_methods() -> None:
    text = """
        import torch
        class Trainer:
            def optimizer_of(self):
                return self.optimizer
            def unscale(self):
                self.scaler.unscale_(self.optimizer_of())
            def train(self, model, loader):
                self.scaler = torch.amp.GradScaler("cuda")
                for x in loader:
                    self.scaler.scale(model(x)).backward()
                    self.unscale()
                    self.scaler.unscale_(self.optimizer_of())
                    self.scaler.step(self.optimizer_of())
                    self.scaler.update()
        """
    assert len(model_of(text).mistakes.repeated_unscales) == 1
