"""Neutral edits of names: variables, parameters, imports, arguments, annotations."""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from fuzz.change import Cut, Edits, put, swap
from fuzz.code import Function, Program
from fuzz.layouts import in_fstring, is_docstring, is_future

_ROLE = re.compile(r"scaler|opt|sgd|adam|sched|accelerator|fabric", re.IGNORECASE)
_MAKERS = re.compile(r"GradScaler$|optim\.\w+$|lr_scheduler\.\w+$")
NEW_NAMES = ("renamed", "obj_2", "état", "s", "my_long_name_of_it", "_x")


def words(program: Program) -> set[str]:
    """All that may be a name somewhere in a program."""
    return {*re.findall(r"[^\W\d]\w*", program.text), *dir(builtins)}


def fresh(program: Program, *wishes: str) -> str:
    """A name that the program does not use."""
    used = words(program)
    numbered = (f"{wishes[0]}_{n}" for n in itertools.count(2))
    return next(name for name in itertools.chain(wishes, numbered) if name not in used)


def uses(program: Program, name: str) -> list[ast.Name]:
    """All uses of a variable, whatever its scope."""
    return [node for node in program.nodes(ast.Name) if node.id == name]


def parameters(program: Program) -> list[ast.arg]:
    """The parameters of all functions."""
    return program.nodes(ast.arg)


# --- variables ------------------------------------------------------------------------------------


def renamed(program: Program) -> Iterator[Edits]:
    """A variable or parameter that has another name in the whole file.

    What comes from elsewhere is an optimizer or a scaler by its name alone: that word stays.
    """
    for number, name in enumerate(sorted(variables(program))):
        told = _ROLE.search(name) and not _is_made_here(program, name)
        for wish in (f"my_{name}", f"{name}_of_it") if told else NEW_NAMES:
            new = fresh(program, f"{wish}{number or ''}")
            if not in_fstrings(program, name):
                yield renaming(program, name, new)


def renaming(program: Program, name: str, new: str) -> Edits:
    """One variable or parameter under another name in the whole file."""
    spans = [program.span(node) for node in uses(program, name)]
    given = (node for node in parameters(program) if node.arg == name)
    spans += [_name_span(program, node, name) for node in given]
    return tuple(swap(span, new) for span in (*spans, *_keywords(program, name)))


def _is_made_here(program: Program, name: str) -> bool:
    """Whether all that a variable may be is made by torch, for everybody to see."""
    stored = [use for use in uses(program, name) if not isinstance(use.ctx, ast.Load)]
    holders = [program.parents[use] for use in stored]
    values = [holder.value for holder in holders if isinstance(holder, ast.Assign)]
    made = [isinstance(v, ast.Call) and _MAKERS.search(program.source(v.func)) for v in values]
    given = any(node.arg == name for node in parameters(program))
    return bool(made) and all(made) and len(made) == len(stored) and not given


def _name_span(program: Program, node: ast.AST, name: str) -> tuple[int, int]:
    start, _ = program.span(node)
    return start, start + len(name)


def in_fstrings(program: Program, name: str) -> bool:
    """Whether a name stands in an f-string, where its place is not known."""
    return any(in_fstring(program, node) for node in uses(program, name))


def variables(program: Program) -> set[str]:
    """Names that are bound in this file and mean the same to nobody else."""
    bound = {node.id for node in program.nodes(ast.Name) if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in parameters(program)}
    return bound - _fixed(program) - {"self", "cls"} - set(dir(builtins))


def _fixed(program: Program) -> set[str]:
    """Names whose places `ast` does not know, or that are attributes as well."""
    fixed: set[str] = set()
    for node in program.walked:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                fixed.add(name)
            case ast.ClassDef(name=name, body=body):
                fixed |= {name, *_stored(body)}
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                fixed |= {*names}
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                fixed |= {(each.asname or each.name).split(".")[0] for each in aliases}
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                fixed.add(name)
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                fixed.add(name)
            case ast.Call(func=func, keywords=keywords) if not _is_own(program, func):
                fixed |= {keyword.arg for keyword in keywords if keyword.arg} & _arguments(program)
    return fixed


def _stored(body: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if not isinstance(statement, Function | ast.ClassDef):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                    yield node.id


def _arguments(program: Program) -> set[str]:
    """Parameters of this file's functions, which a call of something unknown may name."""
    return {node.arg for node in parameters(program)} if _passes_functions(program) else set()


def _passes_functions(program: Program) -> bool:
    """Whether a function of this file is used other than in a call."""
    own = {node.name for node in program.functions}
    called = {id(node.func) for node in program.nodes(ast.Call)}
    loads = program.nodes(ast.Name, ast.Attribute)
    return any(
        (getattr(node, "id", None) or getattr(node, "attr", None)) in own and id(node) not in called
        for node in loads
    ) or any(node.decorator_list for node in program.functions)


def _is_own(program: Program, func: ast.expr) -> bool:
    """Whether a call is of a function or class of this file."""
    name = getattr(func, "id", None) or getattr(func, "attr", None)
    return name in program.definitions


def _keywords(program: Program, name: str) -> list[tuple[int, int]]:
    return [
        _name_span(program, keyword, name)
        for call in program.nodes(ast.Call)
        if _is_own(program, call.func)
        for keyword in call.keywords
        if keyword.arg == name and name in {node.arg for node in parameters(program)}
    ]


# --- imports --------------------------------------------------------------------------------------


def _imports(program: Program) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of one line, at the top of the file, that nothing else shares names with."""
    for place in program.whole_lines:
        node = place.node
        if isinstance(node, (ast.Import, ast.ImportFrom)) and place.owner is program.tree:
            yield node


def _only_loaded(program: Program, name: str) -> bool:
    """Whether a name is bound by one import and nothing else."""
    bound = [
        (each.asname or each.name).split(".")[0]
        for node in program.nodes(ast.Import, ast.ImportFrom)
        for each in node.names  # type: ignore[attr-defined]
    ]
    stored = any(not isinstance(node.ctx, ast.Load) for node in uses(program, name))
    others = {node.arg for node in parameters(program)} | program.definitions
    unknown = name in others or stored or f'"{name}' in program.text
    return bound.count(name) == 1 and not unknown and not in_fstrings(program, name)


def aliases(program: Program) -> Iterator[Edits]:
    """``import torch as t``, ``from torch.nn.utils import clip_grad_norm_ as clip``."""
    for node in _imports(program):
        for each in node.names:
            name = each.asname or each.name
            if "." in name or name == "*" or not _only_loaded(program, name):
                continue
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                continue
            new = fresh(program, name[0].lower(), f"{name}_alias")
            imported = swap(program.span(each), f"{each.name} as {new}")
            yield imported, *(swap(program.span(use), new) for use in uses(program, name))


def split_imports(program: Program) -> Iterator[Edits]:
    """One import for each name."""
    for node in _imports(program):
        if len(node.names) > 1 and "#" not in program.source(node) and not _starred(node):
            head = f"from {_module(node)} import" if isinstance(node, ast.ImportFrom) else "import"
            lines = [f"{head} {program.source(each)}" for each in node.names]
            yield (swap(program.span(node), "\n".join(lines)),)


def _starred(node: ast.Import | ast.ImportFrom) -> bool:
    return any(each.name == "*" for each in node.names)


def _module(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def import_forms(program: Program) -> Iterator[Edits]:
    """``import torch.nn.functional as F`` and ``from torch.nn import functional as F``."""
    for node in _imports(program):
        if len(node.names) != 1 or _starred(node):
            continue
        (each,) = node.names
        if isinstance(node, ast.Import) and "." in each.name and each.asname:
            package, _, last = each.name.rpartition(".")
            yield (swap(program.span(node), f"from {package} import {last} as {each.asname}"),)
        elif isinstance(node, ast.ImportFrom) and each.name in ("nn", "amp", "functional"):
            text = f"import {_module(node)}.{each.name} as {each.asname or each.name}"
            yield (swap(program.span(node), text),)


def dotted(node: ast.AST) -> str | None:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _attributes(program: Program) -> Iterator[tuple[ast.Attribute, str]]:
    """Dotted names that begin with the one ``import torch`` and are called."""
    plain = any(
        isinstance(node, ast.Import)
        and [(a.name, a.asname) for a in node.names] == [("torch", None)]
        for node in _imports(program)
    )
    if not plain or not _only_loaded(program, "torch"):
        return
    for call in program.nodes(ast.Call):
        name = dotted(call.func)
        if name and name.startswith("torch.") and isinstance(call.func, ast.Attribute):
            yield call.func, name


def _at_import(program: Program) -> int:
    """Where another import can be put: behind ``import torch``."""
    node = next(n for n in _imports(program) if program.source(n) == "import torch")
    return program.span(node)[1]


def imported_names(program: Program) -> Iterator[Edits]:
    """``from torch.nn.utils import clip_grad_norm_`` for ``torch.nn.utils.clip_grad_norm_``."""
    for name in sorted({name for _, name in _attributes(program)}):
        package, _, last = name.rpartition(".")
        new = fresh(program, last, last[:4])
        text = f"\nfrom {package} import {last}" + (f" as {new}" if new != last else "")
        spans = [program.span(node) for node, other in _attributes(program) if other == name]
        if program.text.find("import torch\n") >= 0:
            yield put(_at_import(program), text), *(swap(span, new) for span in spans)


def imported_modules(program: Program) -> Iterator[Edits]:
    """``from torch import amp`` and ``amp.autocast`` for ``torch.amp.autocast``."""
    for node, name in _attributes(program):
        package, _, last = name.rpartition(".")
        outer, _, module = package.rpartition(".")
        if outer and program.text.find("import torch\n") >= 0:
            new = fresh(program, module)
            text = f"\nfrom {outer} import {module}" + (f" as {new}" if new != module else "")
            yield put(_at_import(program), text), swap(program.span(node), f"{new}.{last}")


def variables_for_functions(program: Program) -> Iterator[Edits]:
    """``clip = torch.nn.utils.clip_grad_norm_`` right behind the imports, and its uses."""
    for name in sorted({name for _, name in _attributes(program)}):
        last = name.rpartition(".")[2]
        new = fresh(program, f"{last}_function")
        spans = [program.span(node) for node, other in _attributes(program) if other == name]
        if "import torch\n" in program.text and not last.startswith(("no_grad", "autocast")):
            text = f"\n{new} = {name}"
            yield put(_at_import(program), text), *(swap(span, new) for span in spans)


# --- arguments ------------------------------------------------------------------------------------

SIGNATURES: dict[str, tuple[str, ...]] = {
    "torch.autocast": ("device_type", "dtype", "enabled", "cache_enabled"),
    "torch.cuda.amp.autocast": ("enabled", "dtype", "cache_enabled"),
    "torch.amp.GradScaler": ("device", "init_scale", "growth_factor", "backoff_factor"),
    "torch.cuda.amp.GradScaler": ("init_scale", "growth_factor", "backoff_factor"),
    "torch.nn.utils.clip_grad_norm_": ("parameters", "max_norm", "norm_type"),
    "torch.nn.utils.clip_grad_value_": ("parameters", "clip_value"),
    "torch.nn.functional.softmax": ("input", "dim"),
    "torch.softmax": ("input", "dim"),
    "torch.log": ("input",),
    "torch.nn.LayerNorm": ("normalized_shape", "eps"),
    "scaler.step": ("optimizer",),
    "scaler.unscale_": ("optimizer",),
    "scaler.scale": ("outputs",),
    "self.scaler.step": ("optimizer",),
    "self.scaler.unscale_": ("optimizer",),
    "self.scaler.scale": ("outputs",),
}
SAME = {
    "torch.amp.autocast": "torch.autocast",
    "torch.amp.autocast_mode.autocast": "torch.autocast",
    "torch.cpu.amp.autocast": "torch.cuda.amp.autocast",
}


def full_names(program: Program) -> dict[str, str]:
    """What the names that are imported at the top of the file stand for."""
    found = {}
    for node in _imports(program):
        for each in node.names:
            name = each.asname or each.name
            if not _only_loaded(program, name.split(".")[0]):
                continue
            if isinstance(node, ast.ImportFrom):
                found[name] = f"{_module(node)}.{each.name}"
            elif each.asname or "." not in name:
                found[name] = each.name
    return found


def _signature(program: Program, call: ast.Call) -> tuple[str, ...]:
    if not (name := dotted(call.func)):
        return ()
    first, _, rest = name.partition(".")
    full = f"{full_names(program).get(first, first)}{'.' if rest else ''}{rest}"
    own = [node for node in program.functions if node.name == name]
    if len(own) == 1 and own[0] in program.tree.body and _only_defined(program, name):
        arguments = own[0].args
        if not arguments.posonlyargs and not arguments.vararg and not own[0].decorator_list:
            return tuple(each.arg for each in arguments.args)
    return SIGNATURES.get(SAME.get(full, full), ())


def _only_defined(program: Program, name: str) -> bool:
    return all(isinstance(node.ctx, ast.Load) for node in uses(program, name))


def keywords(program: Program) -> Iterator[Edits]:
    """The last positional argument by its keyword."""
    for call in program.nodes(ast.Call):
        names = _signature(program, call)
        if not call.args or in_fstring(program, call) or len(call.args) > len(names):
            continue
        last = call.args[-1]
        if any(isinstance(each, (ast.Starred, ast.GeneratorExp)) for each in call.args):
            continue
        if program.text[program.span(last)[0] - 1] in "( ":
            start = program.span(last)[0]
            if program.text[:start].rstrip()[-1] in "(," and not _in_brackets(program, call, last):
                yield (put(start, f"{names[len(call.args) - 1]}="),)


def _in_brackets(program: Program, call: ast.Call, argument: ast.AST) -> bool:
    """Whether parentheses of its own stand around an argument."""
    before = program.text[program.span(call.func)[1] : program.span(argument)[0]]
    return before.count("(") > 1


def positions(program: Program) -> Iterator[Edits]:
    """The first keyword argument by its position."""
    for call in program.nodes(ast.Call):
        names = _signature(program, call)
        if in_fstring(program, call) or not call.keywords or len(call.args) >= len(names):
            continue
        first = call.keywords[0]
        if first.arg == names[len(call.args)]:
            yield (swap((program.span(first)[0], program.span(first.value)[0])),)


def keyword_order(program: Program) -> Iterator[Edits]:
    """Two keyword arguments in the other order."""
    for call in program.nodes(ast.Call):
        for one, other in itertools.pairwise(call.keywords):
            simple = all(
                isinstance(k.value, (ast.Name, ast.Constant, ast.Attribute)) for k in (one, other)
            )
            if one.arg and other.arg and simple and not in_fstring(program, call):
                first, second = program.span(one), program.span(other)
                yield swap(first, second), swap(second, first)


# --- annotations and assignments ------------------------------------------------------------------


def annotated(program: Program) -> Iterator[Edits]:
    """An annotation at a variable."""
    declared = {
        name
        for node in program.nodes(ast.Global, ast.Nonlocal)
        for name in node.names  # type: ignore[attr-defined]
    }
    for node in program.nodes(ast.Assign):
        target = node.targets[0]
        simple = isinstance(target, (ast.Name, ast.Attribute))
        if len(node.targets) == 1 and simple and getattr(target, "id", "") not in declared:
            for annotation in ("object", '"GradScaler"', "Any"):
                yield (put(program.span(target)[1], f": {annotation}"),)


def parameter_annotations(program: Program) -> Iterator[Edits]:
    """An annotation at a parameter."""
    for node in parameters(program):
        arguments = program.parents[node]
        lambdas = isinstance(program.parents[arguments], ast.Lambda)
        if node.annotation is None and not lambdas:
            yield (put(program.span(node)[1], ": object"),)


def return_annotations(program: Program) -> Iterator[Edits]:
    """What a function returns."""
    for node in program.functions:
        start, end = program.span(node)[0], program.span(node.body[0])[0]
        head = re.search(r"\)(?=:[ \t]*(#[^\n]*)?\n[^()]*\Z)", program.text[start:end])
        if node.returns is None and head:
            yield (put(start + head.end(), " -> object"),)


def chained(program: Program) -> Iterator[Edits]:
    """``a = scaler = GradScaler()``."""
    for node in program.nodes(ast.Assign):
        start = program.span(node.value)[0]
        if program.text[:start].endswith(" = "):
            name = fresh(program, f"alias_{start}")
            for place, end in ((program.span(node)[0], ""), (start, "_2")):
                yield (put(place, f"{name}{end} = "),)


def docstrings(program: Program) -> Iterator[Edits]:
    """A docstring in a function or class."""
    for place in program.whole_lines:
        owner = place.owner
        if not isinstance(owner, Function | ast.ClassDef) or place.node is not owner.body[0]:
            continue
        if not is_docstring(place) and program.indent(place.node) != program.indent(owner):
            start, _ = program.line_span(place.node)
            yield (put(start, f'{program.indent(place.node)}"""What it does."""\n'),)


STATEMENTS = ("print('here')", "n_seen = 0", "pass", "assert True", "import os", "n_seen: int")


def statements(program: Program) -> Iterator[Edits]:
    """A statement that has nothing to do with it."""
    for place, statement in zip(program.whole_lines, itertools.cycle(STATEMENTS), strict=False):
        start, _ = program.line_span(place.node)
        taken = {"n_seen", "os"} & words(program)
        if not is_docstring(place) and not is_future(place):
            line = "pass" if taken else statement
            yield (put(start, f"{program.indent(place.node)}{line}\n"),)


CUTS: dict[str, Callable[[Program], Iterator[tuple[Cut, ...]]]] = {
    "renamed variables": renamed,
    "import aliases": aliases,
    "split imports": split_imports,
    "forms of imports": import_forms,
    "imported names": imported_names,
    "imported modules": imported_modules,
    "variables for functions": variables_for_functions,
    "keyword arguments": keywords,
    "positional arguments": positions,
    "order of keywords": keyword_order,
    "annotations": annotated,
    "parameter annotations": parameter_annotations,
    "return annotations": return_annotations,
    "chained assignment": chained,
    "docstrings": docstrings,
    "other statements": statements,
}
