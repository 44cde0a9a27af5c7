"""What may differ between two functions besides AMP, since it makes no difference: names of locals.

A name that only one text has is put back: a temporary is replaced by what it stands for, and what
is left is renamed. Whatever cannot be put back stays, and shows as a difference.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import libcst as cst

from amp_lint.flow.values import literal
from amp_lint.syntax.assignments import assignments
from amp_lint.syntax.tree import descendants
from amp_lint.verify.compare.effect_free import is_opaque, is_read, may_be_object
from amp_lint.verify.compare.erase import Eraser
from amp_lint.verify.compare.plain import BLOCK, Plain, plain
from amp_lint.verify.compare.shown.course import Course
from amp_lint.verify.compare.shown.prints import Prints
from amp_lint.verify.compare.shown.repeats import text_of
from amp_lint.verify.compare.shown.values import Values
from amp_lint.vocabulary.purity import MODULE_CASTS

_SEE_NAMES = frozenset({"locals", "vars", "eval", "exec", "dir"})
"""What asks for the names of locals."""
_FRAMES = (
    "_getframe", "capture_locals", "cgitb", "currentframe", "f_back", "f_locals", "getargvalues",
    "getframeinfo", "getinnerframes", "getouterframes", "gi_frame", "cr_frame", "locals_max_length",
    "setprofile", "settrace", "show_locals", "stack", "tb_frame", "walk_stack", "walk_tb",
)  # fmt: skip
"""What gives all locals, or shows them."""
_CODE = (
    "__code__", "argname", "co_cellvars", "co_code", "co_freevars", "co_names", "co_varnames",
    "dis", "executing", "f_code", "func_code", "getclosurevars", "getsource", "getsourcelines",
    "ic", "icecream", "pysnooper", "snoop", "torchsnooper", "varname",
)  # fmt: skip
"""What tells how a function calls its locals."""
_READERS = frozenset({"eval", "evaluate", "execute", "query", "sql", "sqldf"})
"""What looks for names in a text that it is given."""
_WITHOUT_FRAMES = frozenset({"builtins", "logging", "os", "pathlib", "re", "torch", "warnings"})
"""Modules that look for nothing in the frames of who calls them."""
_WORD = re.compile(r"\w+")
_OF_NUMBERS = frozenset({"dim", "numel", "size"})
"""Methods that tell how large a tensor is."""
_LAZY = ("BooleanOperation", "IfExp", "Lambda", "ListComp", "SetComp", "DictComp", "GeneratorExp",
         "FunctionDef", "ClassDef", "While", BLOCK)  # fmt: skip
"""What may run its parts not at all, often or later."""
_BINDING = ("AnnAssign", "AssignTarget", "AugAssign", "For")
"""What binds its first part."""
_SIMPLE = (
    "Arg", "Attribute", "BinaryOperation", "Call", "Comparison", "ComparisonTarget", "Index",
    "List", "Name", "Slice", "Subscript", "SubscriptElement", "Tuple", "Element",
    "UnaryOperation", "known", "literal",
)  # fmt: skip
"""What binds no name by itself."""
_HEAD = frozenset({"Name", "known", "literal", "Attribute", "Arg", "AssignTarget"})
"""What computes nothing by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of one text, with its plain tree."""

    eraser: Eraser
    tree: Plain

    @property
    def locals(self) -> list[str]:
        """Its own local names but for its parameters, in the order in which they are bound."""
        node = self.tree.node
        assert isinstance(node, cst.FunctionDef)
        names = self.eraser.model.names
        scope = names.scope_of(node)
        order = self.eraser.model.tree.order
        own = [
            (order(bindings[0].node), name)
            for name, bindings in scope.bindings.items()
            if all(binding.kind in _BOUND for binding in bindings)
        ]
        return [name for _, name in sorted(own)]


_BOUND = frozenset({"assign", "unpack", "augment", "for", "with"})


def alike(before: Function, after: Function) -> tuple[Plain, Plain]:
    """The trees of two functions, with the names of locals that only one has put back."""
    if _sees_names(before):
        return before.tree, after.tree
    old, new = before.locals, after.locals
    gone = [name for name in old if name not in new]
    come = [name for name in new if name not in old]
    erased = {*_erased(before, gone), *_erased(after, come)}
    erased |= {*gone} & {*_told(before)} | {*come} & {*_told(after)}
    after = Function(after.eraser, _without_prints(before, after))
    one = _without_temporaries(before, [name for name in gone if name not in erased])
    other = _without_temporaries(after, [name for name in come if name not in erased])
    left = [name for name in gone if _count(one, name)]
    right = [name for name in come if _count(other, name)]
    inside = _bound_inside(before) | _bound_inside(after) | erased
    is_free = inside.isdisjoint((*left, *right))
    if len(left) == len(right) and is_free and not any(_count(one, name) for name in right):
        one = _renamed(one, dict(zip(left, right, strict=True)))
    return one, other


def _erased(function: Function, names: Iterable[str]) -> Iterator[str]:
    """Those of some names that also stand in what is erased of a function."""
    tree = function.eraser.model.tree
    for name in names:
        written = sum(
            tree.contains(function.tree.node, word) and _is_variable(tree.parent(word), word)
            for word in tree.named(name)
        )
        if written > _count(function.tree, name):
            yield name


def _told(function: Function) -> Iterator[str]:
    """The words of texts that a call may look for among the locals of its caller.

    It gives something back, as a query of what a name stands for does, and nobody knows it. A text
    of one word is a key or a label.
    """
    model, node = function.eraser.model, function.tree.node
    for call in model.tree.below(node, cst.Call):
        known = {name.partition(".")[0] for name in model.names.qualified(call.func)}
        ignored = isinstance(model.tree.parent(call), (cst.Expr, cst.Raise))
        if ignored or not known.isdisjoint(_WITHOUT_FRAMES):
            continue
        for text in (text for arg in call.args for text in _texts(function, arg.value)):
            words = _WORD.findall(text)
            yield from words if len(words) > 1 else ()


def _texts(function: Function, node: cst.BaseExpression) -> Iterator[str]:
    """The texts that an expression may be, but for what is filled in."""
    for value in function.eraser.model.values.alternatives(node):
        known = literal(value)
        parts = value.parts if isinstance(value, cst.FormattedString) else ()
        yield from (part.value for part in parts if isinstance(part, cst.FormattedStringText))
        yield from (known,) if isinstance(known, str) else ()


def _is_variable(holder: cst.CSTNode | None, word: cst.Name) -> bool:
    """Whether a word is no attribute, and no keyword."""
    match holder:
        case cst.Attribute(attr=own) | cst.Arg(keyword=own):
            return own is not word
    return True


def _bound_inside(function: Function) -> set[str]:
    """The names that functions and lambdas within a function bind, or take from the module."""
    model, node = function.eraser.model, function.tree.node
    found: set[str] = set()
    scopes: list[cst.FunctionDef | cst.Lambda] = [
        *model.tree.below(node, cst.FunctionDef),
        *model.tree.below(node, cst.Lambda),
    ]
    for inner in scopes:
        found.update(model.names.scope_of(inner).bindings if inner is not node else ())
    below = model.tree.below
    outer: list[cst.Global | cst.Nonlocal] = [*below(node, cst.Global), *below(node, cst.Nonlocal)]
    found.update(item.name.value for each in outer for item in each.names)
    return found


def alike_expressions(before: Eraser, after: Eraser, old: Plain, new: Plain) -> tuple[Plain, Plain]:
    """Two pieces of code; where one is a call of a small helper, what that computes."""
    return _called(before, old) or old, _called(after, new) or new


def _called(eraser: Eraser, call: Plain) -> Plain | None:
    """What a call of a function of this file computes that is one ``return``.

    None unless each argument is read where it makes no difference how often.
    """
    node, program = call.node, eraser.model.program
    if not isinstance(node, cst.Call) or all(part.node is not node.func for part in call.parts):
        return None  # it is no call as it is written
    result = eraser.model.operations.helper_result(node)
    function = eraser.model.values.function(node.func) if result is not None else None
    if result is None or function is None or not eraser.side.lifter.is_inlined(node):
        return None
    given = {name: eraser.plain(value) for name, value in program.bind(function, node).items()}
    for param in function.params.params:
        if param.default is not None:
            given.setdefault(param.name.value, eraser.plain(param.default))
    if not all(each.kind in _HEAD for each in given.values()):
        return None
    return _filled(eraser.plain(result), given, node)


def _filled(tree: Plain, given: dict[str, Plain], call: cst.Call) -> Plain:
    """What a function returns, with its arguments; it counts as written where it is called."""
    if tree.kind == "Name":
        return next((value for name, value in given.items() if _is_name(tree, name)), tree)
    parts = [_filled(part, given, call) for part in tree.parts]
    return plain(tree.kind, tree.text, parts, call)


def _sees_names(function: Function) -> bool:
    """Whether a function may see how its locals are called, also in what is erased of it."""
    texts = {part.text for part in _every(function.tree)}
    calls = function.eraser.model.tree.below(function.tree.node, cst.Call)
    tree = function.eraser.model.tree
    texts_of_names = tree.below(function.tree.node, cst.FormattedStringExpression)
    shown = any(each.equal is not None for each in texts_of_names)
    looks = function.eraser.side.mentions(*_FRAMES, *_CODE)
    return shown or looks or not texts.isdisjoint(_SEEN) or any(map(_reads_text, calls))


def _reads_text(call: cst.Call) -> bool:
    """Whether a call may read locals that a text names: ``frame.query("loss > @limit")``."""
    word = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(word, cst.Name) and word.value in _READERS and bool(call.args)


_SEEN = frozenset(f"value={name!r}" for name in _SEE_NAMES)


def _every(tree: Plain) -> Iterator[Plain]:
    yield tree
    for part in tree.parts:
        yield from _every(part)


def _is_name(part: Plain, name: str) -> bool:
    return part.text == f"value={name!r}"


def _count(tree: Plain, name: str) -> int:
    return sum(_is_name(part, name) for part in _every(tree))


def _renamed(tree: Plain, names: dict[str, str]) -> Plain:
    texts = {f"value={old!r}": f"value={new!r}" for old, new in names.items()}
    if tree.kind == "Name":
        return plain("Name", texts.get(tree.text, tree.text), (), tree.node)
    parts = [_renamed(part, names) for part in tree.parts]
    return plain(tree.kind, tree.text, parts, tree.node)


# --- temporaries --------------------------------------------------------------------------------


def _without_temporaries(function: Function, names: Sequence[str]) -> Plain:
    """The tree with each name that is bound once put where it is first used, if it can be."""
    tree, inside = function.tree, _bound_inside(function)
    if function.eraser.model.tree.named("weakref"):
        return tree  # the name may be all that keeps its object
    for name in (name for name in names if name not in inside):
        tree = _inlined(function, tree, name, tree) or tree
    return tree


def _inlined(function: Function, tree: Plain, name: str, whole: Plain) -> Plain | None:
    """The tree, a part of the whole, without a temporary; None if there is none to take out."""
    if tree.kind == BLOCK:
        for index, statement in enumerate(tree.parts):
            value = _bound(statement, name)
            if value is not None:
                if _count(function.tree, name) == 1:
                    kept = _unnamed(function, tree.parts, index)
                    return plain(BLOCK, "", kept, tree.node) if kept is not None else None
                if _count(whole, name) > sum(_count(part, name) for part in tree.parts[index:]):
                    return None
                kept = _put(function, tree.parts[index + 1 :], name, value, _rank(whole, value))
                if kept is None:
                    return None
                return plain(BLOCK, "", (*tree.parts[:index], *kept), tree.node)
    for index, part in enumerate(tree.parts):
        inner = _inlined(function, part, name, whole)
        if inner is not None:
            parts = (*tree.parts[:index], inner, *tree.parts[index + 1 :])
            return plain(tree.kind, tree.text, parts, tree.node)
    return None


def _unnamed(function: Function, block: Sequence[Plain], index: int) -> tuple[Plain, ...] | None:
    """A block in which a value that nobody reads gets no name; none that only computes.

    None if it is an object that may live as long as it has one.
    """
    value = block[index].parts[1]
    if _may_end(function, value.node) or not _is_let_go(function, value):
        return None
    kept = (
        ()
        if _is_plain_value(function, value.node)
        else (plain("Expr", _EXPR, [value], block[index].node),)
    )
    return (*block[:index], *kept, *block[index + 1 :])


def _is_let_go(function: Function, value: Plain) -> bool:
    """Whether what an expression gives is nothing that does something as long as it is there.

    A function of the file, or of others, may give a thread, a server or a handle.
    """
    names = function.eraser.model.names
    call = value.node
    if not isinstance(call, cst.Call) or _is_pure(function, value):
        return True
    known = names.qualified(call.func)
    return bool(known) and all(
        each.startswith("torch.") and each.rpartition(".")[2].islower() for each in known
    )


_EXPR = "value:1"
_NO_CODE = (cst.Name, cst.BaseNumber, cst.BaseString, cst.Tuple, cst.List, cst.Element, cst.Arg)


def _is_plain_value(function: Function, node: cst.CSTNode) -> bool:
    """Whether something computes nothing that may raise, and changes nothing."""
    parts = (node, *descendants(node))
    if any(_is_active(function, part) for part in parts):
        return False
    if all(isinstance(part, _NO_CODE) for part in parts):
        return True
    unit = function.tree.node
    if not isinstance(unit, cst.FunctionDef) or not isinstance(node, cst.BaseExpression):
        return False
    return Values(Course(function.eraser, unit), frozenset()).kind(node) is not None


# --- what is only shown -------------------------------------------------------------------------


def _without_prints(before: Function, after: Function) -> Plain:
    """The new tree without what it prints or logs more than the old one, of what only computes."""
    known = Counter(part.digest for part in _every(before.tree))
    return _unprinted(_prints(before, after), after.tree, known)


_SHOWING = ("Expr", "If")
_FAILING = ("BinaryOperation", "Subscript", "Attribute", "Call")


def _prints(before: Function, after: Function) -> Prints:
    """What the new function shows, of what the old one computes anyway, too."""
    done = {text_of(part.node) for part in _every(before.tree) if part.kind in _FAILING}
    assert isinstance(after.tree.node, cst.FunctionDef)
    return Prints(after.eraser, after.tree.node, done)


def _unprinted(prints: Prints, tree: Plain, known: Counter[bytes]) -> Plain:
    if tree.kind != BLOCK:
        parts = [_unprinted(prints, part, known) for part in tree.parts]
        return plain(tree.kind, tree.text, parts, tree.node) if tree.parts else tree
    kept = []
    for part in tree.parts:
        inner = (each for each in _every(part) if each.kind == "Expr")
        added = part.kind in _SHOWING and not any(known[each.digest] for each in inner)
        if added and prints.is_shown(part.node):
            continue
        known[part.digest] -= part.kind == "Expr"
        kept.append(_unprinted(prints, part, known))
    return plain(BLOCK, "", kept, tree.node)


def _bound(statement: Plain, name: str) -> Plain | None:
    """What a statement binds a name to, and nothing else."""
    if statement.kind != "Assign" or len(statement.parts) != 2:
        return None
    target, value = statement.parts
    return value if _is_name(target.parts[0], name) else None


def _put(
    function: Function, rest: Sequence[Plain], name: str, value: Plain, rank: int
) -> tuple[Plain, ...] | None:
    """The statements behind a binding with the value in the place of the name."""
    if not all(part.kind in _SIMPLE for part in _every(value)) or _may_end(function, value.node):
        return None
    pure = _is_pure(function, value)
    for index, statement in enumerate(rest):
        if _count(statement, name):
            everywhere = _put_everywhere(function, rest[index:], name, value) if pure else None
            if everywhere is not None:
                return (*rest[:index], *everywhere)
            made = _first_replaced(function, statement, name, value, pure=pure)
            behind = (_marked(each, name, value, rank) for each in rest[index + 1 :])
            return (*rest[:index], _marked(made, name, value, rank), *behind) if made else None
        if not pure or not _is_quiet(function, statement, value):
            return None
    return None


def _put_everywhere(
    function: Function, rest: Sequence[Plain], name: str, value: Plain
) -> tuple[Plain, ...] | None:
    """Statements with a value wherever its name is read; None if it may not be the same there.

    It has to be a number that a tensor knows of itself: of those that are one, it makes no
    difference how often each is made. What runs in between may neither bind what the value reads,
    nor do more than compute.
    """
    reading = [index for index, statement in enumerate(rest) if _count(statement, name)]
    times = sum(_count(statement, name) for statement in rest)
    if times == 1 or not _is_of_a_tensor(function, value.node):
        return None
    names = {part.digest for part in _every(value) if part.kind == "Name"}
    names |= {part.digest for each in rest for part in _every(each) if _is_name(part, name)}
    if not all(_only_binds(function, each, names) for each in rest[: reading[-1] + 1]):
        return None
    return tuple(_replaced(statement, name, value) for statement in rest)


def _is_of_a_tensor(function: Function, node: cst.CSTNode) -> bool:
    """Whether an expression is a number that says how large a tensor is."""
    match node:
        case cst.Call(func=cst.Attribute(value=cst.Name(), attr=attr)):
            return attr.value in _OF_NUMBERS
        case cst.Subscript(value=cst.Attribute(value=cst.Name(), attr=attr)):
            return attr.value == "shape"
    return False


def _only_binds(function: Function, statement: Plain, names: AbstractSet[bytes]) -> bool:
    """Whether a statement gives a local, none of some names, what only is computed."""
    if statement.kind not in ("Assign", "AugAssign") or len(statement.parts) != 2:
        return False
    target, made = statement.parts
    target = target.parts[0] if target.kind == "AssignTarget" else target
    is_other = target.kind == "Name" and target.digest not in names
    return (
        is_other and all(part.kind in _SIMPLE for part in _every(made)) and _is_pure(function, made)
    )


def _replaced(tree: Plain, name: str, value: Plain) -> Plain:
    """Code with a value in the place of a name."""
    if _is_name(tree, name):
        return value
    parts = [_replaced(part, name, value) for part in tree.parts]
    return plain(tree.kind, tree.text, parts, tree.node) if parts else tree


def _may_end(function: Function, node: cst.CSTNode) -> bool:
    """Whether something is an object that may do something when nobody has it any more.

    One of a class, but for those of torch and its like.
    """
    if not isinstance(node, cst.Call):
        return False
    known = function.eraser.model.names.qualified(node.func)
    func = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    name = func.value if isinstance(func, cst.Name) else ""
    is_class = name[:1].isupper() or "builtins.open" in known
    return is_class and not all(each.startswith(_ENDLESS) for each in known or ("",))


_ENDLESS = (
    "collections.", "datetime.", "numpy.", "pandas.", "pathlib.", "torch.Generator", "torch.Size",
    "torch.Tensor", "torch.amp.", "torch.cuda.amp.", "torch.device", "torch.distributions.",
    "torch.nn.", "torch.optim.",
)  # fmt: skip
"""Packages, and classes, whose objects do nothing when they end."""


def _rank(whole: Plain, value: Plain) -> int:
    """How often the same is computed above a value: two results of one expression are two."""
    above = itertools.takewhile(lambda part: part.node is not value.node, _every(whole))
    return sum(part.digest == value.digest for part in above)


def _marked(tree: Plain, name: str, value: Plain, rank: int) -> Plain:
    """Code in which a name that went is only what it stood for."""
    if _is_name(tree, name):
        return plain("Name", f"made as {value.digest.hex()} {rank}", (), tree.node)
    parts = [_marked(part, name, value, rank) for part in tree.parts]
    return plain(tree.kind, tree.text, parts, tree.node)


def _is_pure(function: Function, value: Plain) -> bool:
    """Whether an expression only computes."""
    found = function.eraser.side.lifter.found
    for part in _every(value):
        term = found.get(id(part.node))
        if part.kind not in _SIMPLE or (part.kind == "Call" and (term is None or is_opaque(term))):
            return False
        if _is_active(function, part.node):
            return False
    return True


def _is_active(function: Function, node: cst.CSTNode) -> bool:
    """Whether an attribute may be that of a class of this file, and change something.

    Or an item may be made when it is asked for.
    """
    active = function.eraser.side.active
    match node:
        case cst.Attribute(attr=attr):
            return attr.value in active or not active.isdisjoint(_READING)
        case cst.Subscript(value=owner):
            makes = any(map(function.eraser.model.tree.named, _MAKING_ITEMS))
            found = function.eraser.side.lifter.found
            return (makes or _ITEM in active) and may_be_object(found.get(id(owner)))
    return False


_READING = ("__getattr__", "__getattribute__")
_ITEM = "__getitem__"
_MAKING_ITEMS = ("defaultdict", "__missing__")


def _is_apart(function: Function, one: Plain, other: Plain) -> bool:
    """Whether of what only computes, neither casts where it stands what the other one reads."""
    pairs = ((one, other), (other, one))
    return not any(
        {_last_word(part) for part in _every(reading)} & (words | _OF_CASTS)
        for casting, reading in pairs
        if (words := {*_cast_modules(function, casting)})
    )


_OF_CASTS = frozenset({"device", "dtype"})
"""What a cast of a module changes, under whatever name one asks for it."""


def _cast_modules(function: Function, tree: Plain) -> Iterator[str]:
    """The last words of what code casts, and may be modules."""
    found = function.eraser.side.lifter.found
    for part in _every(tree):
        match part.node:
            case cst.Call(func=cst.Attribute(value=owner, attr=attr)):
                is_cast = part.kind == "Call" and attr.value in MODULE_CASTS
                if is_cast and may_be_object(found.get(id(owner))):
                    while isinstance(owner, cst.Subscript):
                        owner = owner.value
                    yield _word(owner)


def _last_word(part: Plain) -> str:
    return _word(part.node) if part.kind in ("Attribute", "Name") else ""


def _word(node: cst.CSTNode) -> str:
    """``b`` of ``a.b``, and of ``b``; "" for what has no name."""
    word = node.attr if isinstance(node, cst.Attribute) else node
    return word.value if isinstance(word, cst.Name) else ""


def _is_quiet(function: Function, statement: Plain, value: Plain) -> bool:
    """Whether a statement only binds a local that an expression does not read."""
    if statement.kind != "Assign":
        return False
    target, made = statement.parts[0].parts[0], statement.parts[1]
    if target.kind != "Name" or any(part.digest == target.digest for part in _every(value)):
        return False
    return _is_pure(function, made) and _is_apart(function, made, value)


def _first_replaced(
    function: Function, tree: Plain, name: str, value: Plain, *, pure: bool
) -> Plain | None:
    """A statement with the value where the name is read first; None if that is not sound.

    What is evaluated before must not see what the value does, nor change what it reads, and the
    name has to be read once whenever the statement is reached.
    """
    if _is_name(tree, name):
        return value
    for index, part in enumerate(tree.parts):
        if _count(part, name):
            if _may_be_left_out(tree, index) or (index == 0 and tree.kind in _BINDING):
                return None
            made = _first_replaced(function, part, name, value, pure=pure)
            parts = (*tree.parts[:index], made, *tree.parts[index + 1 :]) if made else ()
            return plain(tree.kind, tree.text, parts, tree.node) if made else None
        if not (_is_inert(function, part, value) if pure else _is_late(function, tree, index)):
            return None
    return None


def _may_be_left_out(tree: Plain, index: int) -> bool:
    """Whether a part need not be evaluated: an arm, what is asserted only in a message."""
    return tree.kind in _LAZY or (tree.kind, min(index, 2)) in (("Assert", 1), ("Comparison", 2))


def _is_late(function: Function, tree: Plain, index: int) -> bool:
    """Whether a part may be evaluated before or after a call that stands behind it.

    A name, or what is called or bound; not an attribute that is read, or a name of others, which
    the call may change.
    """
    part = tree.parts[index]
    is_head = (tree.kind, index) == ("Call", 0) or part.kind == "AssignTarget"
    kinds = _HEAD if is_head else _HEAD - {"Attribute"}
    every = [*_every(part)]
    return all(each.kind in kinds for each in every) and not any(
        _may_be_rebound(function, each) for each in every
    )


def _may_be_rebound(function: Function, part: Plain) -> bool:
    """Whether a call may give a name another value, or an attribute of which a method is called."""
    model = function.eraser.model
    node = part.node
    if part.kind == "Name" and isinstance(node, cst.Name):
        bound = model.names.bindings(node)
        inside = node.value in _bound_inside(function)
        own = all(model.tree.contains(function.tree.node, each.node) for each in bound)
        fixed = all(each.kind in ("import", "function", "class") for each in bound)
        return inside or not (own or fixed)
    if part.kind == "Attribute" and isinstance(node, cst.Attribute):
        owner = node.value
        words = [node.attr.value, *([owner.attr.value] if isinstance(owner, cst.Attribute) else ())]
        return any(
            _is_assigned(function, word) or _is_of_property(function, word) for word in words
        )
    return False


def _is_of_property(function: Function, attribute: str) -> bool:
    """Whether an attribute is one that a class of the file computes when it is read."""
    functions = function.eraser.model.tree.nodes(cst.FunctionDef)
    return any(
        each.name.value in _READING or (each.name.value == attribute and is_read(each))
        for each in functions
    )


_SETTING = frozenset({"builtins.delattr", "builtins.setattr"})


def _is_assigned(function: Function, attribute: str) -> bool:
    """Whether something but a constructor assigns to an attribute of some name."""
    model = function.eraser.model
    tree = model.tree
    for call in tree.nodes(cst.Call):
        if model.names.is_any(call.func, _SETTING) and len(call.args) > 1:
            word = literal(call.args[1].value)
            if word == attribute or not isinstance(word, str):
                return True
    targets = [target for target, _ in assignments(tree)]
    targets += (each.target for each in tree.nodes(cst.AugAssign))
    for target in targets:
        if isinstance(target, cst.Attribute) and target.attr.value == attribute:
            home = tree.ancestor(target, cst.FunctionDef)
            if home is None or home.name.value != "__init__":
                return True
    return False


def _is_inert(function: Function, part: Plain, value: Plain) -> bool:
    """Whether a part may be evaluated before or after a value that is only computed."""
    only = all(each.kind in _HEAD for each in _every(part)) or _is_pure(function, part)
    return only and _is_apart(function, part, value)
