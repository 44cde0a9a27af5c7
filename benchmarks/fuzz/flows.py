"""Neutral edits of control flow and of the statements that a value goes through."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from fuzz.change import Cut, Edits, Piece, Span, put, swap
from fuzz.code import Function, Place, Program
from fuzz.layouts import in_fstring, is_docstring
from fuzz.renames import dotted, fresh, full_names, uses

UNIT = "    "
Loop = (ast.For, ast.AsyncFor, ast.While)


def _lines(program: Program, block: Sequence[ast.stmt]) -> Span:
    """The lines of a block."""
    return program.line_span(block[0])[0], program.line_span(block[-1])[1]


def _strings(program: Program) -> list[Span]:
    found = program.nodes(ast.Constant, ast.JoinedStr)
    spans = [program.span(node) for node in found if not in_fstring(program, node)]
    return [span for span in spans if "\n" in program.text[slice(*span)]]


def moved(program: Program, span: Span, old: str, new: str) -> tuple[Piece, ...]:
    """Lines with another indentation; those that begin in a string stay as they are."""
    inside, pieces, at = _strings(program), list[Piece](), span[0]
    for line in program.text[slice(*span)].splitlines(keepends=True):
        fixed = any(start < at < end for start, end in inside)
        if fixed or not line.startswith(old) or not line.strip():
            pieces.append((at, at + len(line)))
        else:
            pieces += [new, (at + len(old), at + len(line))]
        at += len(line)
    if not program.text[: span[1]].endswith("\n"):
        pieces.append("\n")
    return tuple(pieces)


def _whole(program: Program) -> set[ast.stmt]:
    return {place.node for place in program.whole_lines}


def _is_block(program: Program, block: Sequence[ast.stmt]) -> bool:
    """Whether a block stands on lines of its own."""
    whole = _whole(program)
    return bool(block) and all(node in whole for node in block)


def _is_elif(program: Program, node: ast.stmt) -> bool:
    return program.source(node).startswith("elif")


def _ifs(program: Program) -> Iterator[tuple[Place, ast.If]]:
    """The tests with a block of their own, no ``elif``."""
    for place in program.whole_lines:
        node = place.node
        if isinstance(node, ast.If) and not _is_elif(program, node) and _head(program, node):
            yield place, node


def _head(program: Program, node: ast.If) -> bool:
    """Whether the test and its block are on lines of their own."""
    between = program.text[program.span(node.test)[1] : program.span(node.body[0])[0]]
    return _is_block(program, node.body) and bool(re.match(r"\)*:[^\n]*\n", between))


def _test_span(program: Program, node: ast.If) -> Span:
    """The test with the parentheses around it."""
    start = program.span(node)[0] + len("if")
    end = program.text.index(":", program.span(node.test)[1])
    return start, end


def _negated(program: Program, node: ast.If) -> tuple[Piece, ...]:
    """The opposite of a test, as people write it."""
    span, test = _test_span(program, node), node.test
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return " (", program.span(operand), ")"
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPPOSITES:
            sides = program.span(left), program.span(right)
            return " (", sides[0], f" {_OPPOSITES[type(op)]} ", sides[1], ")"
        case ast.Name() | ast.Attribute():
            return " not ", program.span(test)
    return " not (", (span[0] + 1, span[1]), ")"


_OPPOSITES: dict[type[ast.cmpop], str] = {
    ast.Is: "is not", ast.IsNot: "is", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in",
}  # fmt: skip


def _comment_free(program: Program, span: Span) -> bool:
    return "#" not in program.text[slice(*span)]


# --- tests ----------------------------------------------------------------------------------------


def _else_line(program: Program, node: ast.If) -> Span | None:
    """The line of ``else:``, if the rest of the test is one."""
    if not node.orelse or _is_elif(program, node.orelse[0]) or not _is_block(program, node.orelse):
        return None
    start, end = program.line_span(node.body[-1])[1], program.line_span(node.orelse[0])[0]
    match = re.search(rf"(?m)^{program.indent(node)}else:[^\n]*\n", program.text[start:end])
    return (start + match.start(), start + match.end()) if match else None


def swapped_branches(program: Program) -> Iterator[Edits]:
    """``if not a`` with the branches in the other order."""
    for _, node in _ifs(program):
        if line := _else_line(program, node):
            then = program.line_start(program.span(node.body[0])[0]), line[0]
            other = line[1], program.line_span(node.orelse[-1])[1]
            if program.text[: other[1]].endswith("\n"):
                test = swap(_test_span(program, node), *_negated(program, node))
                yield test, swap(then, other), swap(other, then)


def guards(program: Program) -> Iterator[Edits]:
    """``if not a: continue`` for an ``if`` at the end of a loop."""
    for place, node in _ifs(program):
        jump = _jump(program, place)
        if node.orelse or place.node is not place.block[-1] or not jump:
            continue
        indent, inner = program.indent(node), program.indent(node.body[0])
        body = _lines(program, node.body)
        between = program.text.index("\n", _test_span(program, node)[1]) + 1, body[0]
        test = swap(_test_span(program, node), *_negated(program, node))
        yield (
            test,
            swap(between, f"{inner}{jump}\n", between),
            swap(body, *moved(program, body, inner, indent)),
        )


def _jump(program: Program, place: Place) -> str | None:
    """How the rest of a block is left out, if it belongs to a loop or function."""
    if isinstance(place.owner, Loop) and place.block is place.owner.body:
        return "continue"
    if isinstance(place.owner, Function) and place.block is place.owner.body:
        return "return"
    return None


def unguarded(program: Program) -> Iterator[Edits]:
    """``if not a:`` around the rest of a loop for ``if a: continue``."""
    for place, node in _ifs(program):
        rest = place.block[place.index + 1 :]
        jump = {ast.Continue: "continue", ast.Return: "return"}.get(type(node.body[0]))
        plain = len(node.body) == 1 and program.source(node.body[0]) == jump
        if (
            not plain
            or jump != _jump(program, place)
            or node.orelse
            or not _is_block(program, rest)
        ):
            continue
        if not _comment_free(program, _lines(program, node.body)):
            continue
        indent, lines = program.indent(node), _lines(program, rest)
        test = swap(_test_span(program, node), *_negated(program, node))
        gone = swap(program.line_span(node.body[0]))
        yield test, gone, swap(lines, *moved(program, lines, indent, indent + UNIT))


def else_after_jump(program: Program) -> Iterator[Edits]:
    """``else:`` around what follows a branch that leaves."""
    for place, node in _ifs(program):
        rest = place.block[place.index + 1 :]
        leaves = isinstance(node.body[-1], (ast.Continue, ast.Break, ast.Return, ast.Raise))
        if leaves and not node.orelse and _is_block(program, rest):
            indent, lines = program.indent(node), _lines(program, rest)
            inner = moved(program, lines, indent, indent + UNIT)
            yield (swap(lines, f"{indent}else:\n", *inner),)


def merged_tests(program: Program) -> Iterator[Edits]:
    """``if a and b`` for a test in a test."""
    for _, node in _ifs(program):
        inner = node.body[0]
        if len(node.body) > 1 or node.orelse or not isinstance(inner, ast.If) or inner.orelse:
            continue
        between = _test_span(program, node)[1], _test_span(program, inner)[0] + 1
        if _head(program, inner) and _comment_free(program, between):
            lines = _lines(program, inner.body)
            old, new = program.indent(inner.body[0]), program.indent(inner)
            start = _test_span(program, node)[0] + 1
            end = _test_span(program, inner)[1]
            yield (
                put(start, "("), swap(between, ") and ("), put(end, ")"),
                swap(lines, *moved(program, lines, old, new)),
            )  # fmt: skip


def split_tests(program: Program) -> Iterator[Edits]:
    """A test in a test for ``if a and b``."""
    for _, node in _ifs(program):
        test = node.test
        if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And) or node.orelse:
            continue
        first, second = program.span(test.values[0])[1], program.span(test.values[1])[0]
        between = program.text[first:second]
        if not re.fullmatch(r"\s*and\s+", between) or "(" in program.text[
            _test_span(program, node)[0] : program.span(test)[0]
        ]:  # fmt: skip
            continue
        indent, lines = program.indent(node), _lines(program, node.body)
        cut = swap((first, second), f":\n{indent}{UNIT}if ")
        inner = program.indent(node.body[0])
        yield cut, swap(lines, *moved(program, lines, inner, indent + 2 * UNIT))


def elif_as_else(program: Program) -> Iterator[Edits]:
    """``else:`` and a test in it for ``elif``."""
    for _, node in _ifs(program):
        if len(node.orelse) == 1 and _is_elif(program, node.orelse[0]):
            start, _ = program.span(node.orelse[0])
            indent = program.indent(node)
            lines = start, program.line_span(node)[1]
            head = program.line_start(start)
            text = program.text[head:start]
            if text == indent and _block_lines(program, node.orelse[0]):
                rest = program.line_end(start) + 1, lines[1]
                line = (start + 2, rest[0])
                moved_rest = moved(program, rest, indent, indent + UNIT)
                yield (swap((head, lines[1]), f"{indent}else:\n{indent}{UNIT}", line, *moved_rest),)


def _block_lines(program: Program, node: ast.stmt) -> bool:
    """Whether all statements below a node stand on lines of their own."""
    whole = _whole(program)
    inner = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and each is not node]
    return all(each in whole or _is_elif(program, each) for each in inner)


def negations(program: Program) -> Iterator[Edits]:
    """``not x is None`` for ``x is not None``, ``not a == b`` for ``a != b``, and back."""
    opposites = {ast.IsNot: ("is not", "is"), ast.NotEq: ("!=", "=="), ast.NotIn: ("not in", "in")}
    for node in program.nodes(ast.Compare):
        if len(node.ops) != 1 or in_fstring(program, node):
            continue
        span = program.span(node)
        between = program.span(node.left)[1], program.span(node.comparators[0])[0]
        old, new = opposites.get(type(node.ops[0]), ("", ""))
        if old and program.text[slice(*between)].strip() == old:
            yield put(span[0], "(not "), swap(between, f" {new} "), put(span[1], ")")
        parent = program.parents[node]
        back = {ast.Is: "is not", ast.Eq: "!=", ast.In: "not in"}.get(type(node.ops[0]))
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not) and back:
            start = program.span(parent)[0]
            if program.text[start : span[0]] == "not ":
                yield swap((start, span[0])), swap(between, f" {back} ")


def truths(program: Program) -> Iterator[Edits]:
    """``bool(a)`` for a test ``a``, ``not not a``."""
    tests: list[ast.If | ast.While] = [*program.nodes(ast.If), *program.nodes(ast.While)]
    for node in tests:
        if not isinstance(node.test, ast.NamedExpr):
            span = program.span(node.test)
            yield put(span[0], "bool("), put(span[1], ")")
            yield put(span[0], "(not not ("), put(span[1], "))")


def choices_as_tests(program: Program) -> Iterator[Edits]:
    """``if`` and ``else`` for ``x = a if c else b``."""
    for place in program.whole_lines:
        node = place.node
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.IfExp):
            continue
        plain = len(node.targets) == 1 and isinstance(node.targets[0], (ast.Name, ast.Attribute))
        span = program.span(node)
        if not plain or "#" in program.source(node) or "\n" in program.source(node):
            continue
        choice, indent = node.value, program.indent(node)
        target = program.span(node.targets[0])
        parts = [program.span(each) for each in (choice.test, choice.body, choice.orelse)]
        yield (
            swap(
                span, "if (", parts[0], f"):\n{indent}{UNIT}", target, " = (", parts[1],
                f")\n{indent}else:\n{indent}{UNIT}", target, " = (", parts[2], ")",
            ),
        )  # fmt: skip


def tests_as_choices(program: Program) -> Iterator[Edits]:
    """``x = a if c else b`` for ``if`` and ``else``."""
    for _, node in _ifs(program):
        if len(node.body) != 1 or len(node.orelse) != 1 or not _else_line(program, node):
            continue
        one, other = node.body[0], node.orelse[0]
        span = program.span(node)
        if not isinstance(one, ast.Assign) or not isinstance(other, ast.Assign):
            continue
        targets = [program.source(each) for each in (*one.targets, *other.targets)]
        if len(targets) == 2 and targets[0] == targets[1] and _comment_free(program, span):
            parts = [program.span(each) for each in (one.value, node.test, other.value)]
            target = program.span(one.targets[0])
            text = (target, " = (", parts[0], ") if (", parts[1], ") else (", parts[2], ")")
            yield (swap(span, *text),)


# --- with -----------------------------------------------------------------------------------------


def split_with(program: Program) -> Iterator[Edits]:
    """``with a:`` and ``with b:`` in it for ``with a, b:``."""
    for place in program.whole_lines:
        node = place.node
        if not isinstance(node, ast.With) or len(node.items) != 2:
            continue
        one, other = node.items
        first = program.span(one.optional_vars or one.context_expr)[1]
        second = program.span(other.context_expr)[0]
        indent = program.indent(node)
        simple = program.text[first:second] == ", " and _is_block(program, node.body)
        if simple and program.text[slice(*program.span(node))].startswith("with ") and (
            program.text[program.span(node)[0] + 5] != "("
        ):  # fmt: skip
            lines = _lines(program, node.body)
            text = f":\n{indent}{UNIT}with "
            inner = program.indent(node.body[0])
            yield (
                swap((first, second), text),
                swap(lines, *moved(program, lines, inner, indent + 2 * UNIT)),
            )


def merged_with(program: Program) -> Iterator[Edits]:
    """``with a, b:`` for ``with b:`` alone in ``with a:``."""
    for place in program.whole_lines:
        node = place.node
        if not isinstance(node, ast.With) or len(node.body) != 1:
            continue
        inner = node.body[0]
        if not isinstance(inner, ast.With) or not _is_block(program, [inner, *inner.body]):
            continue
        last = node.items[-1]
        first = program.span(last.optional_vars or last.context_expr)[1]
        second = program.span(inner)[0] + len("with ")
        if re.fullmatch(r":\n\s*with ", program.text[first:second]):
            lines = _lines(program, inner.body)
            pieces = moved(program, lines, program.indent(inner.body[0]), program.indent(inner))
            yield swap((first, second), ", "), swap(lines, *pieces)


# --- temporaries ----------------------------------------------------------------------------------


def _sites(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that a statement evaluates before all else that does something."""
    match node:
        case (
            ast.Expr(value=value) | ast.Assign(value=value) | ast.Return(value=ast.expr() as value)
        ):
            yield from _first(value)
        case ast.If(test=test):
            yield from _first(test)
        case ast.With(items=[ast.withitem(context_expr=expression), *_]):
            yield from _first(expression)
        case ast.For(iter=iterable):
            yield from _first(iterable)


def _first(node: ast.expr) -> Iterator[ast.expr]:
    yield node
    match node:
        case ast.Call(func=ast.Attribute(value=value), args=[]):
            yield from _first(value)
        case ast.Call(func=func, args=[first, *_]):
            if isinstance(func, ast.Attribute) and not _is_dotted(func):
                yield from _first(func.value)
            elif not isinstance(first, (ast.Starred, ast.GeneratorExp)):
                yield from _first(first)
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.BinOp(left=value):
            yield from _first(value)
        case ast.Compare(left=value) | ast.UnaryOp(operand=value) | ast.IfExp(test=value):
            yield from _first(value)


def _is_dotted(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_simple(node: ast.expr) -> bool:
    odd = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda)
    return isinstance(node, ast.Constant) or any(isinstance(each, odd) for each in ast.walk(node))


def temporaries(program: Program) -> Iterator[Edits]:
    """A variable for a part of a statement, on a line before it."""
    for node, site in _evaluated(program):
        whole = isinstance(node, ast.Expr) and site is node.value
        if not isinstance(site, ast.Name) and not _is_simple(site) and not whole:
            yield _named(program, node, site, "tmp")


def other_names(program: Program) -> Iterator[Edits]:
    """Another name for a variable, on the line before a statement."""
    for node, site in _evaluated(program):
        if isinstance(site, ast.Name) and site.id not in ("self", "cls"):
            yield _named(program, node, site, "same")


def _evaluated(program: Program) -> Iterator[tuple[ast.stmt, ast.expr]]:
    imported = set(full_names(program))
    for place in program.whole_lines:
        if not is_docstring(place) and not _is_elif(program, place.node):
            for site in _sites(place.node):
                if (dotted(site) or "").partition(".")[0] not in imported:
                    yield place.node, site


def _named(program: Program, node: ast.stmt, site: ast.expr, wish: str) -> Edits:
    start, _ = program.line_span(node)
    span = program.span(site)
    name = fresh(program, f"{wish}_{span[0]}_{span[1]}")
    line = (f"{program.indent(node)}{name} = (", span, ")\n")
    return Cut(start, start, line), swap(span, name)


def no_temporaries(program: Program) -> Iterator[Edits]:
    """A value in place of the variable that only the next statement reads."""
    for place in program.whole_lines:
        node = place.node
        following = place.block[place.index + 1 : place.index + 2]
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not following:
            continue
        target = node.targets[0]
        if not isinstance(target, ast.Name) or "#" in program.source(node):
            continue
        names = uses(program, target.id)
        sites = [each for each in _sites(following[0]) if each in names]
        declared = re.search(rf"(global|nonlocal) [^\n]*\b{target.id}\b", program.text)
        if len(names) != 2 or len(sites) != 1 or declared or in_fstring(program, sites[0]):
            continue
        lines, value = program.line_span(node), program.span(node.value)
        if "#" not in program.text[slice(*lines)]:
            yield swap(lines), swap(program.span(sites[0]), "(", value, ")")


def attributes_as_variables(program: Program) -> Iterator[Edits]:
    """``scaler = self.scaler`` at the start of a method, and its uses."""
    for node in program.functions:
        found = _attributes_of(program, node)
        for attribute in sorted(found):
            start, end = program.line_span(node.body[0])
            if is_docstring(Place(node.body[0], node.body, node)):
                start = end
            body = _is_block(program, node.body) and program.text[:start].endswith("\n")
            name = fresh(program, f"the_{attribute}", attribute)
            line = f"{program.indent(node.body[0])}{name} = self.{attribute}\n"
            if body and node.name != "__init__":
                spans = [program.span(use) for use in found[attribute]]
                yield put(start, line), *(swap(span, name) for span in spans)


def _attributes_of(program: Program, function: Function) -> dict[str, list[ast.Attribute]]:
    """What a method reads of ``self`` and only ``__init__`` writes."""
    inner = [
        node for node in ast.walk(function) if isinstance(node, ast.arg) and node.arg == "self"
    ]
    if len(inner) != 1:
        return {}  # a method of another class in it, or none at all
    found: dict[str, list[ast.Attribute]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and dotted(node) == f"self.{node.attr}":
            found.setdefault(node.attr, []).append(node)
    known = _initialised(program)
    return {
        name: nodes
        for name, nodes in found.items()
        if name in known and not any(in_fstring(program, node) for node in nodes)
    }


def _initialised(program: Program) -> set[str]:
    """The attributes that some ``__init__`` writes and nothing else does, no class or method."""
    defined, written = {node.name for node in program.functions}, set[str]()
    for node in program.nodes(ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            owner = next((n for n in program.above(node) if isinstance(n, Function)), None)
            (written if owner and owner.name == "__init__" else defined).add(node.attr)
    return written - defined


def tuples(program: Program) -> Iterator[Edits]:
    """``a, b = x, y`` for two assignments."""
    for place in program.whole_lines:
        one = place.node
        other = next(iter(place.block[place.index + 1 : place.index + 2]), None)
        if not isinstance(one, ast.Assign) or not isinstance(other, ast.Assign):
            continue
        targets = [*one.targets, *other.targets]
        if len(targets) != 2 or not all(isinstance(each, ast.Name) for each in targets):
            continue
        first = program.source(one.targets[0])
        reads = any(getattr(each, "id", "") == first for each in ast.walk(other))
        span = program.span(one)[0], program.span(other)[1]
        plain = not any(isinstance(each.value, (ast.Tuple, ast.Yield)) for each in (one, other))
        if not reads and plain and _comment_free(program, span):
            spans = [program.span(each) for each in (*targets, one.value, other.value)]
            pieces = (spans[0], ", ", spans[1], " = (", spans[2], "), (", spans[3], ")")
            yield (swap(span, *pieces),)


def untupled(program: Program) -> Iterator[Edits]:
    """Two assignments for ``a, b = x, y``."""
    for place in program.whole_lines:
        node = place.node
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=first) as a, ast.Name() as b])],
                value=ast.Tuple(elts=[x, y]),
            ) if first not in {getattr(each, "id", "") for each in ast.walk(y)}:
                starred = isinstance(x, ast.Starred) or isinstance(y, ast.Starred)
                spans = [program.span(each) for each in (a, x, b, y)]
                indent = program.indent(node)
                if not starred and "#" not in program.source(node):
                    pieces = (
                        spans[0],
                        " = (",
                        spans[1],
                        f")\n{indent}",
                        spans[2],
                        " = (",
                        spans[3],
                    )
                    yield (swap(program.span(node), *pieces, ")"),)


def longhand(program: Program) -> Iterator[Edits]:
    """``n = n + 1`` for ``n += 1``."""
    signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
    for node in program.nodes(ast.AugAssign):
        sign = signs.get(type(node.op))
        if sign and isinstance(node.target, ast.Name):
            target, value = program.span(node.target), program.span(node.value)
            yield (swap(program.span(node), target, " = ", target, f" {sign} (", value, ")"),)


def shorthand(program: Program) -> Iterator[Edits]:
    """``n += 1`` for ``n = n + 1``, for numbers."""
    for node in program.nodes(ast.Assign):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name) as target],
                value=ast.BinOp(
                    left=ast.Name(id=left), op=ast.Add(), right=ast.Constant() as right
                ),
            ) if name == left:
                spans = program.span(target), program.span(right)
                yield (swap(program.span(node), spans[0], " += ", spans[1]),)


CUTS: dict[str, Callable[[Program], Iterator[tuple[Cut, ...]]]] = {
    "branches swapped": swapped_branches,
    "guards": guards,
    "no guards": unguarded,
    "else after a jump": else_after_jump,
    "tests merged": merged_tests,
    "tests split": split_tests,
    "else for elif": elif_as_else,
    "negations": negations,
    "truth values": truths,
    "tests for choices": choices_as_tests,
    "choices for tests": tests_as_choices,
    "with split": split_with,
    "with merged": merged_with,
    "temporaries": temporaries,
    "other names": other_names,
    "no temporaries": no_temporaries,
    "variables for attributes": attributes_as_variables,
    "tuples": tuples,
    "no tuples": untupled,
    "n = n + 1": longhand,
    "n += 1": shorthand,
}
