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


PREPARED = """\
from accelerate import Accelerator


def train(net, loader, make, made, schedule):
    acc = Accelerator()
    {prepared}
    for x in loader:
        with acc.accumulate(a):
            acc.backward(a(x).mean())
            acc.clip_grad_norm_(a.parameters(), 1.0)
            {step}
"""


@pytest.mark.parametrize(
    ("prepared", "step", "found"),
    [
        ("a, b = acc.prepare(net, make(net))", "b.step()", []),
        ("a, b, c = acc.prepare(net, made, schedule)", "b.step(); c.step()", []),
        ("a, b = net, acc.prepare_optimizer(make(net))", "b.step()", []),
        ("b = acc.prepare(make(net)); a = net; c = b", "c.step()", []),
        ("a, b = acc.prepare(net, make(net))", "b.reset()", ["AMP103"]),
        ("a, b = make(net)", "b.step()", ["AMP103"]),
        ("a, my_lr_scheduler = acc.prepare(net, make(net))", "my_lr_scheduler.step()", ["AMP103"]),
        (
            "from torch.optim.lr_scheduler import StepLR; a, b = acc.prepare(net, StepLR(made, 1))",
            "b.step()",
            ["AMP103"],
        ),
        (
            "from torch.optim.lr_scheduler import StepLR; b = StepLR(made, 1); b = acc.prepare(b)"
            "; a = net",
            "b.step()",
            ["AMP103"],
        ),
    ],
)
def test_what_is_prepared_and_stepped_is_an_optimizer(
    prepared: str, step: str, found: list[str]
) -> None:
    """Whatever it is called, but no scheduler: no clip comes twice before its step then."""
    text = PREPARED.format(prepared=prepared, step=step)
    source = Source(text.encode(), "train.py")
    assert [each.code for each in engine.check(source, Selection(all_rules()))] == found


def test_an_attribute_that_is_prepared() -> None:
    text = """\
class Trainer:
    def __init__(self, accelerator, net, made):
        self.accelerator = accelerator
        self.net, self.a = accelerator.prepare(net, made)

    def train(self, loader):
        for x in loader:
            self.accelerator.backward(self.net(x).mean())
            self.accelerator.clip_grad_norm_(self.net.parameters(), 1.0)
            self.a.step()
"""
    assert not engine.check(Source(text.encode(), "train.py"), Selection(all_rules()))
    unprepared = Source(text.replace(".prepare(", ".wrap(").encode(), "train.py")
    assert [found.code for found in engine.check(unprepared, Selection(all_rules()))] == ["AMP103"]


# --- what a framework scales, and who says so -----------------------------------------------------

ACCELERATE = """\
from accelerate import Accelerator


def train(model, optimizer, loader, args):
    accelerator = {made}
    model, optimizer = accelerator.prepare(model, optimizer)
    for x in loader:
        {body}
        optimizer.step()
        optimizer.zero_grad()
"""
FABRIC = """\
from lightning.fabric import Fabric


def train(model, optimizer, loader, args):
    fabric = {made}
    model, optimizer = fabric.setup(model, optimizer)
    for x in loader:
        {body}
        optimizer.step()
"""
LIGHTNING = """\
import lightning as L


class Module(L.LightningModule):
    def training_step(self, x, index):
        optimizer = self.optimizers()
        {body}
        optimizer.step()


def main(module, data, args):
    {made}.fit(module, data)
"""
TRAINER = """\
from transformers import Trainer, TrainingArguments


class Mine(Trainer):
    def training_step(self, model, x):
        {body}


def main(model, options):
    args = {made}
    Mine(model, args).train()
"""
BARE = "model(x).mean().backward()"


def in_preview(text: str) -> list[str]:
    """The codes of what is found, in preview as well."""
    found = engine.check(Source(text.encode(), "train.py"), Selection(all_rules(), preview=True))
    return [each.code for each in found]


@pytest.mark.parametrize(
    ("program", "made", "scales"),
    [
        (ACCELERATE, "Accelerator()", True),
        (ACCELERATE, 'Accelerator(mixed_precision="fp16")', True),
        (ACCELERATE, 'Accelerator(mixed_precision="bf16")', False),
        (ACCELERATE, 'Accelerator(mixed_precision="no")', False),
        (ACCELERATE, "Accelerator(mixed_precision=args.precision)", True),
        (ACCELERATE, 'Accelerator(mixed_precision="fp16" if args.half else "no")', True),
        (ACCELERATE, "Accelerator(**args)", True),
        (ACCELERATE, "make(args)", True),
        (FABRIC, "Fabric()", False),
        (FABRIC, "Fabric(precision=32)", False),
        (FABRIC, 'Fabric(precision="16-mixed")', True),
        (FABRIC, "Fabric(precision=args.precision)", True),
        (LIGHTNING, "L.Trainer()", False),
        (LIGHTNING, "L.Trainer(precision=16)", True),
        (LIGHTNING, "L.Trainer(**args)", True),
        (LIGHTNING, "make(args)", True),
        (TRAINER, 'TrainingArguments("out")', False),
        (TRAINER, 'TrainingArguments("out", fp16=True)', True),
        (TRAINER, 'TrainingArguments("out", fp16=options.fp16)', True),
        (TRAINER, "options", True),
    ],
)
def test_a_precision_says_whether_losses_are_scaled(program: str, made: str, scales: bool) -> None:
    assert in_preview(program.format(made=made, body=BARE)) == ["AMP501"] * scales


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("accelerator.backward(model(x).mean())", []),
        ("accelerator.backward(model(x).mean()); clip(model.parameters(), 1.0)", ["AMP502"]),
        ("accelerator.backward(model(x).mean()); total(model.parameters())", ["AMP502"]),
        ("accelerator.backward(model(x)); clip(model.parameters(), float('inf'))", []),
        ("accelerator.backward(model(x)); accelerator.unscale_gradients(); clip(model, 1.0)", []),
        ("clip(model.parameters(), 1.0); accelerator.backward(model(x).mean())", []),
        ("accelerator.scaler.scale(model(x).mean()).backward()", []),
    ],
)
def test_a_clip_of_what_a_framework_scaled(body: str, found: list[str]) -> None:
    head = "from torch.nn.utils import clip_grad_norm_ as clip, get_total_norm as total\n"
    assert in_preview(head + ACCELERATE.format(made="Accelerator()", body=body)) == found


def test_an_optimizer_that_is_prepared_under_a_test() -> None:
    text = ACCELERATE.format(made="Accelerator() if args.on else None", body=BARE)
    call = "    model, optimizer = accelerator.prepare(model, optimizer)\n"
    under = f"    if args.on:\n    {call}"
    assert in_preview(text) == ["AMP501"]
    assert in_preview(text.replace(call, under)) == []
    body = f"        {BARE}\n"
    both = text.replace(call, under).replace(body, f"        if args.on:\n    {body}")
    assert in_preview(both) == ["AMP501"]


def test_another_arm_goes_backward_by_the_framework() -> None:
    both = f"if args.on:\n            accelerator.backward(x)\n        else:\n            {BARE}"
    assert in_preview(ACCELERATE.format(made="Accelerator()", body=both)) == []


def test_what_a_base_class_prepares() -> None:
    text = """\
from accelerate import Accelerator


class Base:
    def __init__(self, model, optimizer):
        self.accelerator = Accelerator()
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)


class Trainer(Base):
    def step(self, x):
        self.model(x).mean().backward()
        self.optimizer.step()
"""
    assert in_preview(text) == ["AMP501"]
    assert not in_preview(text.replace("class Trainer(Base)", "class Trainer"))


@pytest.mark.parametrize(
    ("options", "test", "found"),
    [
        ("gradient_accumulation_steps=4", "args.limit", ["AMP503"]),
        ("gradient_accumulation_steps=args.rounds", "args.limit", ["AMP503"]),
        ("gradient_accumulation_plugin=args.plugin", "args.limit", ["AMP503"]),
        ("gradient_accumulation_steps=1", "args.limit", []),
        ("", "args.limit", []),
        ('"fp16"', "args.limit", []),
        ("gradient_accumulation_steps=4, mixed_precision='bf16'", "args.limit", []),
        ("gradient_accumulation_steps=4", "accelerator.sync_gradients", []),
        ("gradient_accumulation_steps=4", "args.limit and accelerator.sync_gradients", []),
        ("gradient_accumulation_steps=4", "(i + 1) % 4 == 0", []),
        ("gradient_accumulation_steps=4", "is_last(i)", []),
    ],
)
def test_a_clip_in_each_round(options: str, test: str, found: list[str]) -> None:
    text = f"""\
from accelerate import Accelerator


def train(model, optimizer, loader, args):
    accelerator = Accelerator({options})
    model, optimizer = accelerator.prepare(model, optimizer)
    for i, x in enumerate(loader):
        with accelerator.accumulate(model):
            accelerator.backward(model(x).mean())
            if {test}:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
"""
    assert in_preview(text) == found


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("loss.backward(retain_graph=True)", "accelerator.backward(loss, retain_graph=True)"),
        ("torch.autograd.backward(loss)", "accelerator.backward(loss)"),
        ("torch.autograd.backward(tensors=loss)", "accelerator.backward(loss)"),
    ],
)
def test_what_is_shown_in_place_of_a_bare_backward(line: str, fixed: str) -> None:
    body = f"import torch; loss = model(x).mean()\n        {line}"
    text = ACCELERATE.format(made="Accelerator()", body=body)
    source = Source(text.encode(), "train.py")
    (found,) = engine.check(source, Selection(all_rules(), preview=True))
    assert found.fix is not None
    assert [edit.content for edit in found.fix.edits] == [fixed]
