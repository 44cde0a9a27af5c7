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
from amp_lint.syntax.returns import own_nodes
from amp_lint.verify.terms import Const, Form, Op, Term, walk
from amp_lint.vocabulary.purity import PURE_METHODS, QUERIES

_NAMESPACES = frozenset(
    {"torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft", "torch.Tensor"}
)
"""Where functions live that compute, the ones below excepted."""
_RANDOM = frozenset(
    {
        "alpha_dropout", "bernoulli", "binomial", "dropout", "dropout1d", "dropout2d", "dropout3d",
        "feature_alpha_dropout", "fractional_max_pool2d", "fractional_max_pool3d",
        "gumbel_softmax", "multinomial", "normal", "poisson", "rand", "rand_like", "randint",
        "randint_like", "randn", "randn_like", "randperm", "rrelu",
    }
)  # fmt: skip
_STATEFUL = frozenset(
    {
        "batch_norm", "get_rng_state", "initial_seed", "instance_norm", "load", "manual_seed",
        "save", "seed", "set_default_device", "set_default_dtype", "set_float32_matmul_precision",
        "set_grad_enabled", "set_num_threads", "set_printoptions", "set_rng_state",
        "use_deterministic_algorithms",
    }
)  # fmt: skip
_CHANGING_MODULE = re.compile(
    r"Dropout|BatchNorm|InstanceNorm|RReLU|Fractional|RNN|LSTM|GRU|Transformer|Multihead|Sequential"
)
"""Modules that draw random numbers or keep statistics; and those that may hold such ones."""
_UNKNOWN = ("if", "lambda", "either", "loop")
_STORED = (cst.Attribute, cst.Subscript)


def is_opaque(term: Term) -> bool:
    """Whether a call may do anything but compute its result, or not the same one again."""
    if not isinstance(term, Op):
        return False
    match term.form:
        case Form.FUNCTION:
            return not _computes(term)
        case Form.MODULE | Form.OPERATOR:
            return False
        case Form.METHOD:
            if term.name == "get" and len(term.args) == 1:
                return True  # a queue's
            if term.name == "replace" and len(term.args) < 3:
                return True  # a path's
            return term.name not in PURE_METHODS and term.name not in QUERIES
        case Form.APPLY:
            return not _is_pure_module(term.args[0])
    return term.form is Form.OTHER and term.name not in _UNKNOWN


def _computes(op: Op) -> bool:
    """Whether a function of torch gives the same whenever it is called."""
    if not computes(op.name):
        return False
    dropout = dict(op.keywords).get("dropout_p", Const(0.0))
    return dropout in (Const(0.0), Const(0))


def computes(name: str) -> bool:
    """Whether a function of torch, by its name, only computes, whatever it is given."""
    space, _, last = name.rpartition(".")
    return space in _NAMESPACES and last not in _RANDOM | _STATEFUL and not last.endswith("_")


def patched(name: str) -> bool:
    """Whether what is bound to a name of torch would be called in the place of its function."""
    return name.rpartition(".")[0] in _NAMESPACES


def _is_pure_module(callee: Term) -> bool:
    return (
        isinstance(callee, Op)
        and callee.form is Form.MODULE
        and not _CHANGING_MODULE.search(callee.last)
    )


def does_more(term: Term, *given: Term) -> bool:
    """Whether an expression does anything but compute, apart from what it was given."""
    own = Counter(part for part in walk(term) if is_opaque(part))
    known = {part for one in given for part in walk(one)}
    return any(part not in known for part in own)


def active(model: Model) -> frozenset[str]:
    """The names of functions and methods that store something, or call what does.

    Or call something for nothing but what it does.
    """
    functions = model.tree.nodes(cst.FunctionDef)
    bodies = [(each.name.value, [*own_nodes(each)]) for each in functions]
    found = {name for name, nodes in bodies if any(map(_stores, nodes))}
    fresh = found
    while fresh:
        fresh = {name for name, nodes in bodies if not found.isdisjoint(_read(nodes))} - found
        found |= fresh
    return frozenset(found)


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
