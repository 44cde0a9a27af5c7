"""Private members of a scaler: whose they are, and how they are used."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.scaling._scaler_state import ScalerState
else:
    from amp_lint.rules.scaling._scaler_state import ScalerState

HEADER = """\
import torch
from torch.amp import GradScaler
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from elsewhere import Other
scaler = GradScaler()
"""


def uses(text: str) -> list[str]:
    """The reported text of every use, with ``w`` for written and ``p`` for plainly read."""
    model = model_of(HEADER + textwrap.dedent(text))
    return [
        model.tree.source(use.whole) + " w" * use.written + " p" * use.plain
        for use in model.part(ScalerState).private_uses()
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print(scaler._scale)", ["scaler._scale p"]),
        ("print(scaler._scale.item())", ["scaler._scale.item() p"]),
        ("x = scaler._scale", ["scaler._scale p"]),
        ("print(f'{scaler._scale}')", ["scaler._scale p"]),
        ("x = scaler._scale.cpu()", ["scaler._scale"]),
        ("x = scaler._scale.device", ["scaler._scale"]),
        ("x = scaler._scale is None", ["scaler._scale"]),
        ("x = None is scaler._scale", ["scaler._scale"]),
        ("if not scaler._scale: pass", ["scaler._scale"]),
        ("del scaler._scale", ["scaler._scale"]),
        ("scaler._scale = 1", ["scaler._scale w"]),
        ("scaler._scale *= 2", ["scaler._scale w"]),
        ("scaler._scale: float = 2", ["scaler._scale w"]),
        ("scaler._scale.fill_(2)", ["scaler._scale w"]),
        ("x._per = scaler._per_optimizer_states[0]", ["scaler._per_optimizer_states"]),
        ("scaler._unscale_grads_(1)", ["scaler._unscale_grads_ p"]),
        ("scaler.get_scale(); scaler._device; scaler._enabled", []),
    ],
)
def test_kind_of_use(text: str, expected: list[str]) -> None:
    assert uses(text) == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s = ShardedGradScaler()\ns._scale", True),
        ("s = GradScaler() if amp else None\ns._scale", True),
        ("class Own(GradScaler): pass\ns = Own()\ns.unscale_(o)\ns._scale", True),
        ("class Own: pass\ns = Own()\ns.unscale_(o)\ns._scale", False),
        ("s = Other()\ns.unscale_(o)\ns._scale", False),
        ("def f(s, o): s.unscale_(o); s._scale", True),
        ("def f(s: 'GradScaler', o): s.unscale_(o); s._scale", True),
        ("from torch.amp import GradScaler as G\ndef f(s: G, o): s.unscale_(o); s._scale", True),
        ("from mine import Scaler as G\ndef f(s: G, o): s.unscale_(o); s._scale", False),
        ("def f(s: Other, o): s.unscale_(o); s._scale", False),
        ("def f(s, o): s.step(o); s._scale", False),
        ("def f(scaler, o): scaler.step(o); scaler._scale", True),
        ("class A:\n def f(self, o): self.unscale_(o); self._scale", False),
        ("class A:\n def f(self, o): self.s.unscale_(o); self.s._scale", True),
    ],
)
def test_whose_member(text: str, found: bool) -> None:
    assert bool(uses(text)) is found


OVERRIDDEN = """
class Told(GradScaler):
    def step(self, optimizer):
        return super().step(optimizer)
    def _maybe_opt_step(self, optimizer, state, *args):
        return None if state["found_inf_per_device"] else optimizer.step(*args)
    def _told(self):
        return self._scale
"""


@pytest.mark.parametrize(
    ("base", "names"),
    [
        ("GradScaler", ["_maybe_opt_step"]),
        ("torch.amp.GradScaler", ["_maybe_opt_step"]),
        ("Scaler", []),
    ],
)
def test_private_methods_that_are_overridden(base: str, names: list[str]) -> None:
    state = model_of(HEADER + OVERRIDDEN.replace("GradScaler", base)).part(ScalerState)
    assert [name.value for name in state.overridden()] == names
