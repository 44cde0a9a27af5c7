"""Names and attributes that become a scaler, and what else reads them."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify.compare import compare

SCALED = (
    ("loss.backward()", "SCALER.scale(loss).backward()"),
    ("optimizer.step()", "SCALER.step(optimizer)\n{0}SCALER.update()"),
)


def reasons(before: str, made: str, scaler: str = "scaler") -> str:
    """What is said where a training step gets a scaler: made in the place of ``MADE``."""
    before = textwrap.dedent(before)
    indent = " " * 8
    after = before.replace("MADE", f"{made} = torch.amp.GradScaler()")
    for old, new in SCALED:
        assert before.count(old) == 1
        after = after.replace(old, new.format(indent).replace("SCALER", scaler))
    return " ".join(compare(before.replace("MADE", "pass"), after).reasons)


TRAINING = """
    import torch
    from library import Standard, report

    def train(model, batches, optimizer, GIVEN):
        EARLIER
        MADE
        for x in batches:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
        LATER
"""
NAMED = [
    ("scaler=None", "pass", "return loss", True),
    ("values", "scaler = Standard(values); values = scaler.transform(values)", "return 1", True),
    ("values", "scaler = Standard(values)", "return scaler.inverse_transform(loss)", False),
    ("scaler", "pass", "report(scaler)", False),
    ("scaler", "pass", "return {'scaler': scaler.state_dict()}", False),
    ("values", "pass", "return locals()", False),
    ("values", "pass", "return eval('scaler')", False),
    ("values", "scaler = Standard(values)", "return lambda x: scaler.transform(x)", False),
]


@pytest.mark.parametrize(("given", "earlier", "later", "right"), NAMED)
def test_a_name_that_was_something_else(given: str, earlier: str, later: str, right: bool) -> None:
    text = TRAINING.replace("GIVEN", given).replace("EARLIER", earlier).replace("LATER", later)
    found = reasons(text, "scaler")
    assert not found if right else "in one of both texts alone" in found or "by its text" in found


def test_a_name_that_is_the_old_thing_again() -> None:
    later = "return scaler.inverse_transform(loss)"
    text = textwrap.dedent(TRAINING.replace("GIVEN", "values").replace("LATER", later))
    text = text.replace("EARLIER", "scaler = Standard(values)")
    before = text.replace("MADE", "scaler = torch.amp.GradScaler()")
    assert compare(before, text.replace("MADE", "pass")).reasons


TRAINER = """
    import copy
    import torch
    from dataclasses import dataclass
    from library import Base, Standard, report

    CLASS
        def __init__(self, model):
            self.model = model
            MADE

        def step(self, x, optimizer):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).square().mean()
            loss.backward()
            optimizer.step()
            OTHER
"""
PLAIN = "class Trainer:"


@pytest.mark.parametrize(
    ("kind", "other", "right"),
    [
        (PLAIN, "return loss", True),
        ("class Trainer(Base):", "return loss", True),
        ("class Trainer(torch.nn.Module):", "return loss", True),
        (PLAIN, "report(vars(x), x.__dict__)", True),
        (PLAIN, "return hasattr(self.model, 'loss')", True),
        (PLAIN, "return hasattr(self, 'scaler')", False),
        ("class Trainer(Base):", "return self.scaler.transform(loss)", False),
        (PLAIN, "report(vars(self))", False),
        (PLAIN, "report(self.__dict__)", False),
        (PLAIN, "return copy.deepcopy(self)", False),
        (PLAIN, "torch.save(self, x)", False),
        (PLAIN, "return [getattr(self, name) for name in dir(self)]", False),
        ("class Trainer:\n        __slots__ = ('model', 'rate')", "return loss", False),
        ("class Trainer:\n        __slots__ = ('model', 'scaler')", "return 1", True),
        ("@dataclass(frozen=True)\n    class Trainer:", "return loss", False),
        (
            "class Trainer:\n        @property\n        def scaler(self): return Standard()\n",
            "return loss",
            False,
        ),
    ],
)
def test_an_attribute_that_was_not_there(kind: str, other: str, right: bool) -> None:
    text = TRAINER.replace("CLASS", kind).replace("OTHER", other)
    assert bool(reasons(text, "self.scaler", "self.scaler")) is not right


SETTINGS = """
    import argparse
    import json
    import torch
    import wandb
    from library import report

    def parse():
        parser = argparse.ArgumentParser()
        args = parser.parse_args()
        return args

    def evaluate(settings, model):
        READ

    def main(model, batches, optimizer):
        args = parse()
        MADE
        for x in batches:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
        print(args.rate)
        USED
"""


@pytest.mark.parametrize(
    ("read", "used", "right"),
    [
        ("return settings.rate", "evaluate(args, model)", True),
        ("return getattr(settings, 'rate', 0)", "evaluate(args, model)", True),
        ("pass", "other = args; print(other.rate)", True),
        ("print(vars(model))", "evaluate(args, model)", True),
        ("pass", "json.dump(vars(args), open(args.out, 'w'))", False),
        ("pass", "json.dump(args.__dict__, open(args.out, 'w'))", False),
        ("pass", "wandb.config.update(args)", False),
        ("pass", "print(f'{args}')", False),
        ("pass", "report(args)", False),
        ("pass", "torch.save({'model': model.state_dict(), 'args': args}, args.out)", False),
        ("pass", "other = args; report(**vars(other))", False),
        ("return json.dumps(settings.__dict__)", "evaluate(args, model)", False),
        ("return [name for name in settings]", "evaluate(args, model)", False),
        ("return settings.to_dict()", "evaluate(args, model)", False),
    ],
)
def test_an_attribute_of_what_is_read_as_a_whole(read: str, used: str, right: bool) -> None:
    text = SETTINGS.replace("READ", read).replace("USED", used)
    found = reasons(text, "args.scaler", "args.scaler")
    assert not found if right else "with all attributes" in found
