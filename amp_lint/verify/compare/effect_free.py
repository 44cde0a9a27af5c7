"""What only computes, so that it makes no difference when it runs, or how often; and what does not.

Operations by their terms, and functions of a file by what they store.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import libcst as cst

from amp_lint.model import Model
from amp_lint.syntax.assignments import assigned
from amp_lint.syntax.names import dotted
from amp_lint.syntax.returns import own_nodes
from amp_lint.verify.terms import Const, Form, Op, Term, called, walk
from amp_lint.vocabulary.purity import (
    CHANGING_ARGUMENTS,
    MODULE_CASTS,
    PURE_METHODS,
    QUERIES,
    is_pure_function,
)
from amp_lint.vocabulary.signatures import order

_NAMESPACES = frozenset(
    {"torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft", "torch.Tensor"}
)
"""Where functions live that compute, the ones below excepted."""
_RANDOM = frozenset(
    {
        "alpha_dropout", "bernoulli", "binomial", "dropout", "dropout1d", "dropout2d", "dropout3d",
        "feature_alpha_dropout", "feature_dropout", "fractional_max_pool2d",
        "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
        "fractional_max_pool3d_with_indices", "gru", "gumbel_softmax", "lstm",
        "multi_head_attention_forward", "multinomial", "native_dropout", "normal", "pca_lowrank",
        "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
        "randperm", "rnn_relu", "rnn_tanh", "rrelu", "svd_lowrank",
    }
)  # fmt: skip
_STATEFUL = frozenset(
    {
        "batch_norm", "get_rng_state", "init_num_threads", "initial_seed", "instance_norm", "load",
        "manual_seed", "save", "seed", "use_deterministic_algorithms",
    }
)  # fmt: skip
"""Beside all those that set something, by their names."""
_CHANGING_MODULE = re.compile(
    r"Dropout|BatchNorm|InstanceNorm|RReLU|Fractional|RNN|LSTM|GRU|Transformer|Multihead|Sequential"
    r"|Lazy|Parallel"
)
"""Modules that draw random numbers or keep statistics; and those that may hold such ones."""
_UNKNOWN = ("if", "lambda", "either", "loop")
_STORED = (cst.Attribute, cst.Subscript)


def is_opaque(term: Term) -> bool:
    """Whether a call may do anything but compute its result, or not the same one again."""
    term = called(term)
    if not isinstance(term, Op):
        return False
    match term.form:
        case Form.FUNCTION:
            return not _computes(term)
        case Form.MODULE | Form.OPERATOR:
            return False
        case Form.METHOD:
            if term.name in _OF_TEXTS and not _is_of_text(term):
                return True  # a queue's, a path's, a thread's
            return term.name not in PURE_METHODS and term.name not in QUERIES
        case Form.APPLY:
            return not _is_pure_module(term.args[0])
    return term.form is Form.OTHER and term.name not in _UNKNOWN


_OF_TEXTS = frozenset({"get", "join", "replace"})
"""Methods that ask a dict for what is under a text, or a text, and do more for other objects."""


def _is_of_text(method: Op) -> bool:
    owner, *given = method.args
    match method.name:
        case "get":
            return bool(given) and _is_text(given[0])
        case "join":
            return _is_text(owner)
    return len(given) > 1


def _is_text(term: Term) -> bool:
    if isinstance(term, Op):
        return term.form is Form.OTHER and term.name == cst.FormattedString.__name__
    return isinstance(term, Const) and isinstance(term.value, str)


def _computes(op: Op) -> bool:
    """Whether a function of torch gives the same whenever it is called."""
    return computes(op.name) and not _is_given_changes(op)


def _is_given_changes(op: Op) -> bool:
    """Whether what is called, or made, is told to do more than to compute."""
    by_position = dict(zip(order(op.name), op.args, strict=False))
    given = {**by_position, **dict(op.keywords)}
    told = (given[name] for name in CHANGING_ARGUMENTS.intersection(given))
    return any(not isinstance(value, Const) or bool(value.value) for value in told)


def computes(name: str) -> bool:
    """Whether a function of torch, by its name, only computes, whatever it is given."""
    space, _, last = name.rpartition(".")
    is_listed = last in _RANDOM | _STATEFUL or last.startswith("set_")
    return space in _NAMESPACES and not is_listed and not last.endswith("_")


def patched(name: str) -> bool:
    """Whether what is bound to a name of torch would be called in the place of its function."""
    return name.rpartition(".")[0] in _NAMESPACES


def _is_pure_module(callee: Term) -> bool:
    return (
        isinstance(callee, Op)
        and callee.form is Form.MODULE
        and not _CHANGING_MODULE.search(callee.last)
        and not _is_given_changes(callee)
    )


def may_be_object(term: Term | None) -> bool:
    """Whether a value may be none of torch's tensors: nothing that torch computes."""
    match term:
        case Op(Form.METHOD, name, (owner, *_)) if name in MODULE_CASTS:
            return may_be_object(owner)
        case Op(Form.METHOD, name):
            return name not in PURE_METHODS
        case Op(Form.OPERATOR, name):
            return name == "getitem"
        case Op(Form.FUNCTION):
            return False
    return True


def does_more(term: Term, *given: Term) -> bool:
    """Whether an expression does anything but compute, apart from what it was given."""
    own = Counter(part for part in walk(term) if is_opaque(part))
    known = {part for one in given for part in walk(one)}
    return any(part not in known for part in own)


def active(model: Model) -> frozenset[str]:
    """The names of functions and methods that store something, or call what does.

    Or call something for nothing but what it does. Of what is read as an attribute, and not
    called, also those that call what may do more than compute.
    """
    functions = model.tree.nodes(cst.FunctionDef)
    bodies = [(each.name.value, [*own_nodes(each)]) for each in functions]
    found = {name for name, nodes in bodies if any(map(_stores, nodes))}
    read = (each for each in functions if is_read(each))
    found |= {each.name.value for each in read if any(_calls(model, n) for n in own_nodes(each))}
    fresh = found
    while fresh:
        fresh = {name for name, nodes in bodies if not found.isdisjoint(_read(nodes))} - found
        found |= fresh
    return frozenset(found)


def is_read(function: cst.FunctionDef) -> bool:
    """Whether a function runs where an attribute is read, as far as its decorators tell."""
    names = (dotted(each.decorator) or "" for each in function.decorators)
    return any(name.endswith("property") for name in names)


def _calls(model: Model, node: cst.CSTNode) -> bool:
    """Whether a part of a function calls what may do more than compute."""
    if not isinstance(node, cst.Call):
        return False
    known = model.names.qualified(node.func)
    if "builtins.next" in known:  # of an iterator that is made for it
        return not (node.args and isinstance(node.args[0].value, cst.Call))
    if known:
        return not all(is_pure_function(name) or computes(name) for name in known)
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    return method not in PURE_METHODS | QUERIES


def _stores(node: cst.CSTNode) -> bool:
    match node:
        case cst.Expr(value=value):
            return isinstance(value, cst.Call)
        case cst.AugAssign(target=target):
            return isinstance(target, _STORED)
        case cst.Global() | cst.Nonlocal() | cst.Del():
            return True
    return any(isinstance(target, _STORED) for target, _ in assigned(node))


def _read(nodes: Iterable[cst.CSTNode]) -> set[str]:
    """The names of what is called, and of attributes."""
    calls = (each.func for each in nodes if isinstance(each, cst.Call))
    named = (each.value for each in calls if isinstance(each, cst.Name))
    return {*named, *(each.attr.value for each in nodes if isinstance(each, cst.Attribute))}
