"""What a function is given where its call says nothing."""

from __future__ import annotations

import libcst as cst
import pytest

from tests.programs import model_of

PROGRAM = """
import contextlib
import functools

import gin
import torch
from mine import filled


def timed(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        return function(*args, **kwargs)
    return run


{decorator}
def train(model, *, amp=False):
    pass
"""


@pytest.mark.parametrize(
    ("decorator", "known"),
    [
        ("", True),
        ("@torch.no_grad()", True),
        ("@torch.compile", True),
        ("@functools.lru_cache(maxsize=None)", True),
        ("@contextlib.contextmanager", True),
        ("@staticmethod", True),
        ("@timed", True),
        ("@gin.configurable", False),
        ("@gin.configurable('training')", False),
        ("@filled", False),
        ("@timed\n@gin.configurable", False),
    ],
)
def test_a_library_may_fill_in_defaults(decorator: str, known: bool) -> None:
    program = model_of(PROGRAM.format(decorator=decorator)).program
    functions = program.tree.nodes(cst.FunctionDef)
    train = next(each for each in functions if each.name.value == "train")
    assert (program.default(train, "amp") is not None) is known
    assert program.default(train, "model") is None
    assert program.default(train, "missing") is None


CALLED = """
class Step:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __call__(self, loss):
        loss.backward()


class Record:
    step = None


class Trainer:
    def __init__(self, optimizer, other):
        self.step = {made}

    def train(self, loss):
        {call}
"""


@pytest.mark.parametrize(
    ("made", "call", "known"),
    [
        ("Step(optimizer)", "self.step(loss)", True),
        ("Step(optimizer) if optimizer else None", "self.step(loss)", True),
        ("other", "self.step(loss)", False),
        ("Record()", "self.step(loss)", False),
    ],
)
def test_an_object_in_an_attribute_is_called(made: str, call: str, known: bool) -> None:
    program = model_of(CALLED.format(made=made, call=call)).program
    (run,) = (c for c in program.tree.nodes(cst.Call) if program.tree.source(c) == call)
    target = program.target(run)
    assert (target is not None and target.name.value == "__call__") is known
