"""What accelerate and Fabric do to gradients and regions."""

from __future__ import annotations

import pytest

from amp_lint import engine
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.text.source import Source

HEAD = "from accelerate import Accelerator\nfrom accelerate.utils import AutocastKwargs\n"


def codes(text: str, made: str = 'accelerator = Accelerator(mixed_precision="fp16")') -> list[str]:
    """The codes of what is found in the round of a training loop."""
    body = "".join(f"        {line}\n" for line in text.splitlines())
    loop = (
        f"def train(model, opt_a, opt_b, loader, loss):\n    {made}\n    for x in loader:\n{body}"
    )
    source = Source(f"{HEAD}{loop}".encode(), "train.py")
    return [found.code for found in engine.check(source, Selection(all_rules()))]


BACKWARD = "accelerator.backward(loss(x))\n"
STEPS = "opt_a.step()\nopt_b.step()\n"


def test_each_optimizer_is_unscaled_once() -> None:
    both = "accelerator.unscale_gradients(opt_a)\naccelerator.unscale_gradients(optimizer=opt_b)\n"
    assert not codes(f"{BACKWARD}{both}{STEPS}")


@pytest.mark.parametrize(
    "again",
    ["unscale_gradients(opt_a)", "unscale_gradients()", "clip_grad_norm_(model.parameters(), 1.0)"],
)
def test_an_optimizer_is_unscaled_again(again: str) -> None:
    first = "accelerator.unscale_gradients(opt_a)\n"
    assert codes(f"{BACKWARD}{first}accelerator.{again}\n{STEPS}") == ["AMP103"]


def test_a_clip_unscales_what_is_unscaled_by_name_afterwards() -> None:
    clip = "accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"
    assert codes(f"{BACKWARD}{clip}accelerator.unscale_gradients(opt_a)\n{STEPS}") == ["AMP103"]


def test_an_accelerator_is_told_by_its_origin() -> None:
    clips = (
        "acc.backward(loss(x))\nacc.clip_grad_norm_(model.parameters(), 1.0)\n"
        "acc.clip_grad_value_(model.parameters(), 1.0)\nopt_a.step()"
    )
    assert codes(clips, "acc = Accelerator()") == ["AMP103"]
    assert not codes(clips, "acc = Helper()")


def test_a_region_of_an_accelerator_under_another_name() -> None:
    inside = "with acc.autocast():\n    y = loss(model(x))\n    acc.backward(y)\nopt_a.step()"
    assert codes(inside, "acc = Accelerator()") == ["AMP201"]
    assert codes(inside, "from lightning.fabric import Fabric; acc = Fabric()") == ["AMP201"]
    assert not codes(inside, "acc = Helper()")


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        ("", ["AMP201"]),
        ("None", ["AMP201"]),
        ("AutocastKwargs()", ["AMP201"]),
        ("AutocastKwargs(cache_enabled=False)", ["AMP201"]),
        ("AutocastKwargs(True)", ["AMP201"]),
        ("AutocastKwargs(enabled=False)", []),
        ("autocast_handler=AutocastKwargs(enabled=False)", []),
    ],
)
def test_a_region_that_its_handler_switches_off(handler: str, found: list[str]) -> None:
    region = f"with accelerator.autocast({handler}):\n    y = loss(model(x))\n"
    assert codes(f"{region}    accelerator.backward(y)\nopt_a.step()") == found


def test_a_clip_in_the_rounds_that_step() -> None:
    accumulated = (
        "with accelerator.accumulate(model):\n    accelerator.backward(loss(x))\n"
        "    if accelerator.sync_gradients:\n"
        "        accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    opt_a.step()\n    opt_a.zero_grad()\n"
    )
    assert not codes(accumulated)
