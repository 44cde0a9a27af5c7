"""Each row of the vocabulary: what makes a call of it, and what its readers say of that."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re

import libcst as cst
import pytest

from amp_lint import registry
from amp_lint.amp.events import is_made_from_scale
from amp_lint.model import Model
from amp_lint.rule import Rule
from amp_lint.syntax import links
from amp_lint.vocabulary import amp, modules, training, written
from amp_lint.vocabulary.meaning import Kind, Meaning, Part, Role
from amp_lint.vocabulary.table import BY_METHOD, BY_NAME, ROWS, place, words
from tests.programs import model_of

OBJECTS = {
    Role.ENGINE: "engine",
    Role.GRADIENT: "p.grad",
    Role.LIGHTNING: "self",
    Role.TRAINER: "trainer",
    Role.LOSS: "loss",
    Role.OPTIMIZER: "optimizer",
    Role.SCALER: "scaler",
    Role.SCHEDULER: "scheduler",
}
CONCERNED: dict[Kind | Role | Part, str] = {
    Kind.BACKWARD: "AMP102 AMP104 AMP105 AMP107 AMP110 AMP201 AMP202 AMP501",
    Kind.UNSCALE: "AMP103 AMP503",
    Kind.CLIP: "AMP101 AMP117 AMP203 AMP502",
    Kind.STEP: "AMP104 AMP105 AMP106 AMP107 AMP108 AMP110 AMP111 AMP112 AMP114 AMP117 AMP202",
    Kind.UPDATE: "AMP106 AMP107 AMP112 AMP116",
    Role.REGION: "AMP110 AMP201 AMP202 AMP204 AMP205 AMP206 AMP207 AMP208 AMP209 AMP210 AMP213"
    " AMP311 AMP312 AMP313 AMP314 AMP315 AMP316 AMP317 AMP318 AMP319 AMP320 AMP321 AMP322"
    " AMP401",
    Role.PREPARED: "AMP102 AMP112 AMP501 AMP502",
    Role.ROUND: "AMP503",
    Role.TRAINER: "AMP501 AMP504",
    Role.TRAINER_OPTIONS: "AMP504",
    Role.SCALER: "AMP102 AMP108 AMP109 AMP111 AMP114 AMP206 AMP213 AMP311",
    Role.SCALED_LOSS: "AMP101 AMP102 AMP103 AMP104 AMP105 AMP106 AMP112 AMP113 AMP114 AMP116"
    " AMP117",
    Part.STRICT: "AMP113",
}
"""The rules that look at something."""
NOT_FAR = frozenset({Kind.ZERO_GRAD, Kind.SCHEDULE})
"""What happens, and is not worth to look into another file for."""

NOT_ALONE = (training.UPDATES_STEP,)
"""What is done by a call only if more is known: how an object was made, and what counts."""


def calls(row: Meaning) -> list[str]:
    """The calls that a row is about, as they are written."""
    given = row.order[0] if row.order and (row.does or row.keyword(Part.LOSS)) else ""
    found = [f"{name}({given})" for name in row.names]
    owner = row.called or (OBJECTS[row.owner] if row.owner else "")
    return found + [f"{owner}.{method}({given})" for method in row.methods]


def program(call: str) -> str:
    """A program with that call alone."""
    root = call.partition("(")[0].rpartition(".")[0] if call.split(".")[0] in _PACKAGES else "torch"
    names = "accelerator, engine, fabric, loss, optimizer, p, scaler, scheduler, self"
    head = f"import {root}\nimport torch\n\n\n"
    if call.startswith("self."):
        head = "import lightning\nimport torch\n\n\nclass Module(lightning.LightningModule):\n"
        return f"{head}    def train(self, loss, optimizer):\n        found = {call}\n"
    return f"{head}def train({names}):\n    found = {call}\n"


_PACKAGES = {name.partition(".")[0] for row in ROWS for name in row.names}
CALLS = [(row, call) for row in ROWS for call in calls(row)]
EACH = pytest.mark.parametrize(("row", "call"), CALLS, ids=[call for _, call in CALLS])


def asked(call: str) -> tuple[Model, cst.Call]:
    """The model of a program with a call, and the call in it."""
    model = model_of(program(call))
    (node,) = model.tree.nodes(cst.Call)
    return model, node


@EACH
def test_the_recognizer_tells_what_a_call_does(row: Meaning, call: str) -> None:
    model, node = asked(call)
    recognizer = model.steps.recognizer
    is_told = row.does and row not in NOT_ALONE
    assert recognizer.kind(node) is (row.kind if is_told else None)
    assert recognizer.meaning(node) is (row if is_told else None)


@EACH
def test_what_a_call_gives_is_known(row: Meaning, call: str) -> None:
    model, node = asked(call)
    assert (model.regions.of(node) is not None) is (row.gives is Role.REGION)
    assert model.roles.is_constructor(node) is (row.gives is Role.SCALER)
    scales = row.gives is Role.SCALED_LOSS and row.owner is Role.SCALER
    assert model.steps.recognizer.is_scale(node) is scales
    assert is_made_from_scale(node, model.values) is (row.gives is Role.SCALE)


@EACH
def test_the_rules_concerned_are_asked(row: Meaning, call: str) -> None:
    strict = [Part.STRICT] if row.keyword(Part.STRICT) and row.does == (Kind.CLIP,) else []
    found = {word for word in re.findall(r"\w+", call) if word in row.words | {row.called}}
    for what in (*row.does, row.gives, *strict):
        for code in CONCERNED.get(what, "").split() if what is not None else ():
            rule = by_code()[code]
            assert any(not group.isdisjoint(found) for group in rule.requires), code


@functools.cache
def by_code() -> dict[str, Rule]:
    return {rule.code: rule for rule in registry.all_rules()}


def test_no_rule_is_left_out() -> None:
    """Whatever requires all that does something is concerned by it."""
    for what, codes in CONCERNED.items():
        if not isinstance(what, Part):
            asks = {
                code
                for code, rule in by_code().items()
                if any(words(what) <= group for group in rule.requires)
            }
            assert asks == {*codes.split()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("raise ValueError('for backward compatibility')", False),
        ("loss.backward()", True),
        ("f = loss.backward if train else None", True),
        ("from .backward import run", True),
        ("run = getattr(loss, 'backward')", True),
    ],
)
def test_words_of_sentences_train_nothing(text: str, found: bool) -> None:
    assert written.TRAINS.found_in(text.encode()) is found


@EACH
def test_a_call_in_another_file_is_seen(row: Meaning, call: str) -> None:
    text = program(call)
    far = [kind for kind in row.does if kind not in NOT_FAR]
    if far or row.gives in (Role.REGION, Role.SCALER) or row is amp.SCALE:
        assert re.search(written.TRAINS.pattern, text) or row.owner in (
            Role.OPTIMIZER,
            Role.GRADIENT,
        )
        assert re.search(written.MATTERS.pattern, text)
        nodes = ast.walk(ast.parse(text))
        (function,) = (node for node in nodes if isinstance(node, ast.FunctionDef))
        assert links._matters(function, ast.walk(function))


@pytest.mark.parametrize("name", [name for name in BY_NAME if name.startswith("torch.")])
def test_a_signature_is_that_of_torch(name: str) -> None:
    found = inspect.signature(_resolved(name)).parameters.values()
    row = BY_NAME[name]
    assert [each.name for each in found][: len(row.order)] == [*row.order]
    by_keyword = [each.kind is each.KEYWORD_ONLY for each in found]
    assert by_keyword[: len(row.order)] == [each.by_keyword for each in row.parameters]
    assert len(found) == len(row.order) or row is training.AUTOGRAD_BACKWARD


def _resolved(name: str) -> type:
    module, _, last = name.rpartition(".")
    found: type = getattr(importlib.import_module(module), last)
    return found


@pytest.mark.parametrize("row", [row for row in ROWS if row.owner is Role.SCALER])
def test_a_method_of_the_scaler_is_that_of_torch(row: Meaning) -> None:
    for method in row.methods:
        scaler = _resolved("torch.amp.GradScaler")
        parameters = [*inspect.signature(getattr(scaler, method)).parameters][1:]
        assert parameters[: len(row.order)] == [*row.order]


def test_the_old_classes_are_those_that_torch_calls_deprecated() -> None:
    for old, new in amp.DEPRECATED.items():
        for name in old.names:
            with pytest.warns(FutureWarning, match=re.escape(f"torch.amp.{new.word}")):
                _resolved(name)(*([len] if old.word.startswith("custom") else []))


def test_no_torch_has_the_names_that_are_mixed_up() -> None:
    for name, row in amp.MISNAMED.items():
        with pytest.raises((AttributeError, ImportError)):
            _resolved(name)
        _resolved(row.names[0])


def test_a_default_dtype_is_that_of_torch() -> None:
    import torch

    for device, dtype in amp.DEFAULT_DTYPES.items():
        assert torch.get_autocast_dtype(device) is getattr(torch, dtype)


def test_the_optimizers_are_those_of_torch() -> None:
    import torch

    every = {name for name in vars(torch.optim) if name[0].isupper()}
    assert every - {"Optimizer"} == training.OPTIMIZER_CLASSES


def test_common_methods_are_those_of_torch() -> None:
    import torch
    from torch.optim.lr_scheduler import LRScheduler
    from torch.utils.data import DistributedSampler

    kinds = (
        torch.nn.Module,
        torch.nn.parallel.DistributedDataParallel,
        torch.optim.Optimizer,
        torch.optim.swa_utils.AveragedModel,
        LRScheduler,
        torch.amp.GradScaler,
        DistributedSampler,
    )
    every = {name for kind in kinds for name in dir(kind) if callable(getattr(kind, name))}
    several = {name for name in every if name[0].islower() and "_" in name.strip("_")}
    assert several - modules.COMMON <= {"join_hook", "to_kwargs", "will_sync_module_buffers"}
    assert every >= modules.COMMON


def test_a_place_is_found_by_name() -> None:
    assert place("torch.autocast", Part.ENABLED) == (2, "enabled")
    assert place("torch.cuda.amp.autocast", Part.ENABLED) == (0, "enabled")
    assert place("torch.amp.custom_fwd", Part.DEVICE) == (None, "device_type")
    assert place("torch.amp.custom_fwd", Part.LIMIT) == place("json.dump", Part.LIMIT)


def test_no_two_rows_claim_one_call() -> None:
    assert len(BY_NAME) == sum(len(row.names) for row in ROWS)
    for method, rows in BY_METHOD.items():
        owners = [(row.owner, row.called) for row in rows]
        assert len(owners) == len({*owners}), method


def test_a_function_is_known_by_a_name_alone() -> None:
    text = "from torch.autograd import backward\nbackward(tensors=loss)\n"
    model = model_of(text)
    (call,) = model.tree.nodes(cst.Call)
    assert model.steps.recognizer.kind(call) is Kind.BACKWARD
    assert model.steps.recognizer.loss(call) is call.args[0].value
