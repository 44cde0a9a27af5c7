"""Dicts that get the state of a scaler, and whether they become checkpoints."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify.compare import compare

HEAD = """
import csv
import copy
import json
import pickle
import torch
import torch.distributed.checkpoint as dcp
from accelerate import Accelerator
from safetensors.torch import save_file
from library import keep

scaler = torch.amp.GradScaler("cuda")

def step(optimizer):
    scaler.step(optimizer)
    scaler.update()

"""
NUMBERS = '{"epoch": epoch, "weight": model.weight}'
STATES = '{"epoch": epoch, "model": model.state_dict()}'


def reasons(code: str, state: str = NUMBERS) -> tuple[str, ...]:
    """What is said where a dict that is written ``STATE`` gets the state of a scaler."""
    before = HEAD + textwrap.dedent(code).replace("STATE", state)
    after = before.replace(state, f'{state[:-1]}, "scaler": scaler.state_dict()}}')
    assert before != after
    return compare(before, after).reasons


SAVED = [
    "torch.save(STATE, path)",
    "torch.save(obj=STATE, f=path)",
    "dcp.save(STATE, checkpoint_id=path)",
    "dcp.async_save(state_dict=STATE, checkpoint_id=path)",
    "torch.save({'run': STATE, 'name': path}, path)",
    "torch.save({**STATE, 'name': path}, path)",
    "torch.save(STATE if epoch else {}, path)",
    "pickle.dump(STATE, open(path, 'wb'))",
    "Accelerator().save(STATE, path)",
    """
    state = STATE
    state['best'] = epoch
    if 'rate' not in state:
        state.update(rate=1)
    other = copy.copy(state)
    torch.save(other, path)
    """,
    """
    def write(state, name):
        torch.save(state, name)
    write(STATE, name=path)
    """,
    """
    def collect(model):
        state = STATE
        return state
    state = collect(model)
    torch.save(state, path)
    """,
    """
    state = {}
    state.update(STATE)
    torch.save(state, path)
    """,
    """
    states = []
    states.append(STATE)
    for each in states:
        torch.save(each, path)
    """,
    """
    states = [STATE]
    for at, each in enumerate(reversed(states)):
        if len(states) > 1:
            torch.save(each, path + str(at))
    """,
    """
    def collect():
        return path, STATE
    name, state = collect()
    print(name)
    torch.save(state, name)
    """,
    """
    runs = {}
    runs['best'] = STATE
    runs['first'] = path
    print(runs['first'])
    torch.save(runs['best'], path)
    """,
]
OTHER = [
    """
    state = model.state_dict()
    state.update(STATE)
    torch.save(state, path)
    """,
    """
    state = {}
    state.update(STATE)
    json.dump(state, open(path, 'w'))
    """,
    "json.dump(STATE, open(path, 'w'))",
    "save_file(STATE, path)",
    "csv.DictWriter(path, ['epoch', 'weight']).writerow(STATE)",
    "path.add_scalars('train', STATE, epoch)",
    "path.append(STATE)",
    "print(STATE)",
    "keep(STATE, path)",
    "return STATE",
    "yield STATE",
    "torch.save(dict(**STATE), path)",
    "torch.save({**model.state_dict(), **STATE}, path)",
    "torch.save(model.state_dict() | STATE, path)",
    """
    state = STATE
    torch.save(state, path)
    json.dump(state, open(path, 'w'))
    """,
    """
    state = STATE
    for key, value in state.items():
        print(key, value)
    torch.save(state, path)
    """,
    """
    def write(state, name):
        torch.save({key: state[key] for key in state}, name)
    write(STATE, path)
    """,
    """
    def collect(model):
        return STATE
    json.dump(collect(model), open(path, 'w'))
    """,
]
TAKEN = [
    """
    states = []
    states.extend([STATE])
    states.append((path, STATE))
    for each in states:
        print(each)
    """,
    """
    states = [lambda: STATE]
    print(states[0]())
    """,
    """
    states = []
    states.append(STATE)
    for each in states:
        for key in each:
            print(key)
    """,
    """
    states = []
    states += [STATE]
    path.write(str(len(states[-1])))
    """,
    """
    states = {}
    states[epoch] = STATE
    for name, each in states.items():
        print(name, each)
    """,
    """
    def collect():
        yield STATE
    for each in collect():
        model.load_state_dict(each)
    """,
    """
    def collect():
        return (STATE, path)
    state, where = collect()
    print(state)
    """,
    """
    def show(states):
        print(max(states, key=len)['epoch'], *states)
    show([STATE])
    """,
    """
    self.states = [STATE] + self.states
    self.states.sort(key=lambda state: len(state))
    """,
    """
    merged = {}
    for each in [STATE]:
        merged.update(each)
    model.load_state_dict(merged)
    """,
]


def within(code: str) -> str:
    """The code in a function."""
    body = textwrap.indent(textwrap.dedent(code).strip(), " " * 4)
    return f"def save(model, epoch, path):\n{body}\n"


@pytest.mark.parametrize("code", SAVED)
def test_a_dict_that_is_saved(code: str) -> None:
    assert not reasons(within(code))


@pytest.mark.parametrize("code", OTHER)
def test_a_dict_that_may_be_no_checkpoint(code: str) -> None:
    assert any("may be no checkpoint" in each for each in reasons(within(code)))


@pytest.mark.parametrize("code", TAKEN)
def test_a_dict_that_is_taken_out_of_what_holds_it(code: str) -> None:
    found = reasons(within(code), STATES)
    assert any("may be no checkpoint" in each for each in found)


@pytest.mark.parametrize("code", ["keep(STATE, path)", "return STATE", "path.put(STATE)"])
def test_a_dict_that_holds_states(code: str) -> None:
    assert not reasons(within(code), STATES)


@pytest.mark.parametrize(
    "code",
    [
        "keep(**STATE)",
        "torch.save({**model.state_dict(), **STATE}, path)",
        "state = STATE\nkeep([*state.values()])",
        "state = STATE\nassert len(state) == 2\nkeep(state)",
    ],
)
def test_a_dict_that_holds_states_and_is_read_as_a_whole(code: str) -> None:
    assert reasons(within(code), STATES)


TRAINER = """
    class Trainer:
        def collect(self, model, epoch):
            return STATE

        def write(self, state, path):
            torch.save(state, path)

        def note(self, model, epoch):
            self.best = STATE

        def save(self, model, epoch, path):
            SAVE
"""


@pytest.mark.parametrize(
    ("save", "right"),
    [
        ("self.write(self.collect(model, epoch), path); torch.save(self.best, path)", True),
        ("self.write(self.best, path); torch.save(self.collect(model, epoch), path)", True),
        ("self.write(self.best, path); json.dump(self.collect(model, epoch), path)", False),
        ("self.write(self.collect(model, epoch), path); json.dump(self.best, path)", False),
    ],
)
def test_what_methods_hand_on(save: str, right: bool) -> None:
    assert bool(reasons(TRAINER.replace("SAVE", save))) is not right


LOADED = """
    def save(model, epoch, path):
        torch.save(STATE, path)

    saved = torch.load("last.pt")
    print(saved["epoch"])
    READ
"""


@pytest.mark.parametrize(
    ("read", "right"), [('print(saved["weight"])', True), ("print(*saved)", False)]
)
def test_a_script_that_walks_over_what_it_loads(read: str, right: bool) -> None:
    assert bool(reasons(LOADED.replace("READ", read))) is not right
