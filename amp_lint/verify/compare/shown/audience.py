"""Who sees what a function prints or logs, beside somebody who reads it.

What captures it, counts it, takes its warnings for errors, or runs the function to record it.
"""

from __future__ import annotations

import libcst as cst

from amp_lint.amp.events import Kind as Event
from amp_lint.flow.values import literal
from amp_lint.syntax.names import callee
from amp_lint.verify.compare.erase import Eraser

_CAPTURING = (
    "CUDAGraph", "Popen", "StringIO", "assertLogs", "basicConfig", "builtins", "capfd", "caplog",
    "capsys", "capture_output", "check_output", "displayhook", "dup2", "fdopen", "fullgraph",
    "getvalue", "make_graphed_callables", "popen", "redirect_stderr", "redirect_stdout", "stdout",
    "subprocess",
)  # fmt: skip
"""What makes a difference of it whether something was logged, or is printed at all."""
_FORBIDDING = (
    "FakeTensorMode", "TorchDispatchMode", "TorchFunctionMode", "meta", "set_sync_debug_mode",
)  # fmt: skip
"""Under what a tensor need not tell its number."""
_RECORDING = (
    "compile", "dynamo", "export", "functorch", "func", "fx", "jit", "make_fx", "onnx", "optimize",
    "script", "symbolic_trace", "trace", "trace_module", "vmap",
)  # fmt: skip
"""What runs a function with stand-ins for tensors, or reads its code."""
_SETTING_FILTERS = frozenset({"warnings.filterwarnings", "warnings.simplefilter"})
_HARMLESS = frozenset({"always", "default", "ignore", "module", "once"})
"""What may be done with a warning beside raising it."""
_WARNED = ("PYTHONWARNINGS", "formatwarning", "showwarning", "warnoptions")
_HANDLING = (
    "LogRecord", "LoggerAdapter", "MemoryHandler", "QueueHandler", "addFilter", "captureWarnings",
    "raiseExceptions", "setLogRecordFactory", "setLoggerClass",
)  # fmt: skip
"""What sees a record of a log, beside the handlers that write it."""
_HANDLERS = frozenset({"logging.FileHandler", "logging.NullHandler", "logging.StreamHandler"})
_OF_HANDLERS = frozenset({"emit", "filter", "format", "formatMessage", "handle", "makeRecord"})
_WRAPPERS = frozenset(
    {
        "builtins.classmethod", "builtins.staticmethod", "contextlib.contextmanager",
        "torch.enable_grad", "torch.inference_mode", "torch.no_grad",
    }
)  # fmt: skip
"""Decorators that run a function as it is."""
_EVENTS = (Event.BACKWARD, Event.STEP, Event.UNSCALE, Event.UPDATE)
_OWN = ("__call__", "__init__")
"""Methods with names of Python's that nobody calls to show something."""


def is_unseen(eraser: Eraser, unit: cst.FunctionDef) -> bool:
    """Whether nothing of a file depends on what a function shows, as far as the file tells."""
    side = eraser.side
    if side.mentions(*_CAPTURING, *_FORBIDDING, *_WARNED) or _raises_warnings(eraser):
        return False
    name = unit.name.value
    if name.startswith("__") and name not in _OWN:
        return False
    decorators = (callee(each.decorator) for each in unit.decorators)
    if not all(eraser.model.names.is_only(each, _WRAPPERS) for each in decorators):
        return False
    return _trains(eraser, unit) or not (side.mentions(*_RECORDING) or _is_of_others(eraser, unit))


def is_unhandled(eraser: Eraser) -> bool:
    """Whether a log is only written, as far as the file tells."""
    tree, names = eraser.model.tree, eraser.model.names
    functions = (each.name.value for each in tree.nodes(cst.FunctionDef))
    if eraser.side.mentions(*_HANDLING) or not _OF_HANDLERS.isdisjoint(functions):
        return False
    calls = (call for call in tree.nodes(cst.Call) if _is_called(call, "addHandler"))
    given = (
        value
        for call in calls
        for arg in call.args
        for value in eraser.model.values.alternatives(arg.value)
    )
    return all(isinstance(each, cst.Call) and names.is_only(each.func, _HANDLERS) for each in given)


def _is_called(call: cst.Call, method: str) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == method


def _trains(eraser: Eraser, unit: cst.FunctionDef) -> bool:
    """Whether a function has a training step itself, which nothing records."""
    recognizer = eraser.model.steps.recognizer
    return any(recognizer.kind(call) in _EVENTS for call in eraser.model.tree.below(unit, cst.Call))


def _is_of_others(eraser: Eraser, unit: cst.FunctionDef) -> bool:
    """Whether a function is a method of a class that others run: one with a base."""
    within = eraser.model.tree.ancestor(unit, cst.ClassDef)
    return within is not None and bool(within.bases)


def _raises_warnings(eraser: Eraser) -> bool:
    """Whether a warning may be raised as an error, or kept."""
    names = eraser.model.names
    for call in eraser.model.tree.nodes(cst.Call):
        if names.is_any(call.func, _SETTING_FILTERS):
            action = call.args[0] if call.args else None
            if action is None or action.star or literal(action.value) not in _HARMLESS:
                return True
        if names.is_any(call.func, ("warnings.catch_warnings",)) and call.args:
            return True
    return False
