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
    "CUDAGraph", "Popen", "StringIO", "__stdout__", "addaudithook", "assertLogs", "builtins",
    "capfd", "caplog", "capsys", "capture_output", "check_output", "displayhook", "dup2", "fdopen",
    "fullgraph", "getvalue", "make_graphed_callables", "popen", "redirect_stderr",
    "redirect_stdout", "stdout", "subprocess",
)  # fmt: skip
"""What makes a difference of it whether something is printed at all."""
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
    "dictConfig", "fileConfig", "raiseExceptions", "setLogRecordFactory", "setLoggerClass",
)  # fmt: skip
"""What sees a record of a log, beside the handlers that write it."""
_HANDLERS = frozenset({"logging.FileHandler", "logging.NullHandler", "logging.StreamHandler"})
_WRITTEN_WITH = frozenset({"handlers", "stream"})
_OF_HANDLERS = frozenset({"emit", "filter", "format", "formatMessage", "handle", "makeRecord"})
_WRAPPERS = frozenset(
    {
        "builtins.classmethod", "builtins.staticmethod", "contextlib.contextmanager",
        "torch.enable_grad", "torch.inference_mode", "torch.no_grad",
    }
)  # fmt: skip
"""Decorators that run a function as it is."""
_CLOSING = frozenset({"os.close", "os.closerange"})
TEXTS = ("__format__", "__repr__", "__str__")
"""Methods by which an object says how it is shown."""
_EVENTS = (Event.BACKWARD, Event.STEP, Event.UNSCALE, Event.UPDATE)
_OWN = ("__call__", "__init__")
"""Methods with names of Python's that nobody calls to show something."""


def is_unseen(eraser: Eraser, unit: cst.FunctionDef) -> bool:
    """Whether nothing of a file depends on what a function shows, as far as the file tells."""
    side = eraser.side
    if side.mentions(*_CAPTURING, *_FORBIDDING, *_WARNED) or _raises_warnings(eraser):
        return False
    if _is_text_replaced(eraser) or _is_closed(eraser):
        return False
    name = unit.name.value
    if name.startswith("__") and name not in _OWN:
        return False
    decorators = (callee(each.decorator) for each in unit.decorators)
    if not all(eraser.model.names.is_only(each, _WRAPPERS) for each in decorators):
        return False
    return _trains(eraser, unit) or not (side.mentions(*_RECORDING) or _is_of_others(eraser, unit))


def _is_text_replaced(eraser: Eraser) -> bool:
    """Whether a file says anew how objects of some class are shown, and be it torch's."""
    tree = eraser.model.tree
    words = (word for method in TEXTS for word in tree.named(method))
    return any(isinstance(tree.parent(word), cst.Attribute) for word in words)


def _is_closed(eraser: Eraser) -> bool:
    """Whether a file closes what is printed to, as far as it may."""
    names = eraser.model.names
    return any(names.is_any(each.func, _CLOSING) for each in eraser.model.tree.nodes(cst.Call))


def is_unhandled(eraser: Eraser) -> bool:
    """Whether a log is only written, as far as the file tells."""
    tree, names = eraser.model.tree, eraser.model.names
    functions = (each.name.value for each in tree.nodes(cst.FunctionDef))
    if eraser.side.mentions(*_HANDLING) or not _OF_HANDLERS.isdisjoint(functions):
        return False
    given = (
        value
        for call in tree.nodes(cst.Call)
        for arg in call.args
        if _is_called(call, "addHandler") or (_is_called(call, "basicConfig") and _is_handlers(arg))
        for value in eraser.model.values.alternatives(arg.value)
    )
    return all(isinstance(each, cst.Call) and names.is_only(each.func, _HANDLERS) for each in given)


def _is_handlers(arg: cst.Arg) -> bool:
    """Whether an argument of ``basicConfig`` is what a log is written with."""
    return bool(arg.star) or (arg.keyword is not None and arg.keyword.value in _WRITTEN_WITH)


def _is_called(call: cst.Call, method: str) -> bool:
    word = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(word, cst.Name) and word.value == method


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
