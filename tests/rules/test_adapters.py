"""Trained parameters that become float16 by way of a base model, or of a pipeline around them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.dtypes._adapters import Adapters
else:
    from amp_lint.rules.dtypes._adapters import Adapters

CHOICE = "t = torch.float16 if args.fp16 else torch.float32\n"
TRAIN = "torch.optim.AdamW(filter(lambda p: p.requires_grad, m.parameters()))\n"


def found(body: str) -> list[str]:
    """The texts of the places that are found in a function."""
    text = "import torch\ndef f(args, m, config, accelerator, data):\n"
    model = model_of(text + textwrap.indent(body, "    "))
    return [model.tree.source(each.node) for each in model.part(Adapters).adopted]


@pytest.mark.parametrize(
    ("setup", "is_found"),
    [
        ("m.to('cuda', dtype=t)\nm.add_adapter(config)\n", True),
        ("m = m.to(t)\nm.requires_grad_(False)\nm.add_adapter(config)\n", True),
        ("if args.fp16:\n    m.half()\nif args.lora:\n    m.add_adapter(config)\n", True),
        ("m = M.from_pretrained(args.p, torch_dtype=torch.float16)\nm.add_adapter(config)\n", True),
        ("m.to(torch.half)\nfor c in (config, None):\n    m.add_adapter(c)\n", True),
        ("m.add_adapter(config)\nm.to('cuda')\n", False),
        ("m.to('cuda', dtype=torch.bfloat16)\nm.add_adapter(config)\n", False),
        ("m.to(t)\nm.add_adapter(config)\nm.float()\n", False),
        ("m.to(t)\nm.add_adapter(config)\ncast_training_params(m)\n", False),
        (
            "m.to(t)\nm.add_adapter(config)\nfor one in [m]:\n    for p in one.parameters():\n"
            "        if p.requires_grad:\n            p.data = p.to(torch.float32)\n",
            False,
        ),
        ("if args.x:\n    m.half()\nelse:\n    m.add_adapter(config)\n", False),
        ("other.to(t)\nm.add_adapter(config)\n", False),
    ],
)
def test_adapters(setup: str, is_found: bool) -> None:
    assert bool(found(CHOICE + setup + TRAIN)) is is_found


@pytest.mark.parametrize(
    ("pipeline", "cast", "is_found"),
    [
        ("Pipe.from_pretrained('p', unet=m)", "pipe.to('cuda', dtype=t)", True),
        ("Pipe(unet=accelerator.unwrap_model(m), vae=None)", "pipe = pipe.to(t)", True),
        ("Pipe.from_pretrained('p', transformer=unwrap(m))", "pipe.half()", True),
        ("Pipe(unet=m)", "if i:\n    pipe = pipe.to(torch_dtype=t)", True),
        ("Pipe(unet=m)", "show(pipe, t)", True),
        ("Pipe(unet=m)", "pipe.to('cuda')", False),
        ("Pipe(unet=copy(m, True))", "pipe.half()", False),
        ("Pipe(unet=args.m)", "pipe.half()", False),
        ("Pipe(unet=m)", "pipe.to(torch.bfloat16)", False),
    ],
)
def test_pipelines(pipeline: str, cast: str, is_found: bool) -> None:
    show = "def show(pipe, dtype):\n    pipe = pipe.to('cuda', dtype=dtype)\n"
    loop = f"accelerator.backward(m(i))\npipe = {pipeline}\n{cast}\n"
    training = "for i in data:\n" + textwrap.indent(loop, "    ")
    assert bool(found(show + CHOICE + TRAIN + training)) is is_found
    after = f"for i in data:\n    accelerator.backward(m(i))\npipe = {pipeline}\n{cast}\n"
    assert not found(show + CHOICE + TRAIN + after.replace("if i", "if args.i"))
