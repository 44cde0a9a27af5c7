"""Mutants of programs: what an editor holds while somebody types, and other programs."""

from __future__ import annotations

import ast
import builtins
import keyword
import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass

from amp_lint.edit.edits import splice
from amp_lint.text.diagnostic import Edit
from fuzz import bases
from fuzz.bases import LAYOUTS, Base
from fuzz.code import Place, Program, parsed, shifted

TRIES = 40
WORDS = [
    "torch", "amp", "autocast", "GradScaler", "scaler", "optimizer", "model", "loss", "scale",
    "unscale_", "step", "update", "backward", "clip_grad_norm_", "parameters", "zero_grad", "half",
    "softmax", "log", "state_dict", "get_scale", "float16", "bfloat16", "cuda", "self", "None",
]  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A changed program, and how it came about."""

    data: bytes
    base: str
    changes: tuple[str, ...]


def mutant(random: random.Random) -> Mutant:
    """A mutant of any program, every second time one that is no Python."""
    base = bases.draw(random)
    return broken(base, random) if random.random() < 0.5 else living(base, random)


# --- what is no Python any more -------------------------------------------------------------------


def broken(base: Base, random: random.Random) -> Mutant:
    """A mutant that Python refuses."""
    layout = bases.layout(random)
    data, changes = LAYOUTS[layout](base.text), [layout]
    for _ in range(TRIES):
        name = random.choice(sorted(BREAKS))
        data = BREAKS[name](data, random)
        changes.append(name)
        if parsed(data) is None:
            return Mutant(data, base.name, tuple(changes))
    return Mutant(data + b"\n(", base.name, (*changes, "bracket"))


def _cut(data: bytes, random: random.Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _cut_line(data: bytes, random: random.Random) -> bytes:
    """As when somebody types in the middle of a file."""
    lines = data.splitlines(keepends=True) or [b"\n"]
    row = random.randrange(len(lines))
    body = lines[row].rstrip(b"\r\n")
    end = lines[row][len(body) :]
    lines[row] = body[: random.randrange(len(body) + 1)] + end
    return b"".join(lines)


def _typed(data: bytes, random: random.Random) -> bytes:
    typed = [
        "scaler.", "with torch.autocast(", "if ", "for x in", "clip_grad_norm_(model.",
        "def f(", "class", "scaler.scale(loss", "x = ", "@", "f'{", '"""', "\\", "try:", "else:",
        "<<<<<<< HEAD", "=======", ">>>>>>> theirs", "print 'x'", "import", "from torch import (",
        "lambda:", "...[", "async", "match x:", "except* E:", "return return", "x = = 1",
    ]  # fmt: skip
    lines = data.splitlines(keepends=True)
    row = random.randrange(len(lines) + 1)
    near = lines[row] if row < len(lines) else b""
    indent = near[: len(near) - len(near.lstrip(b" \t"))]
    lines.insert(row, indent + random.choice(typed).encode() + b"\n")
    return b"".join(lines)


def _bracket(data: bytes, random: random.Random) -> bytes:
    places = [i for i, byte in enumerate(data) if byte in b"()[]{}:,"]
    if not places:
        return data + b"("
    at = random.choice(places)
    new = random.choice([b"", b"(", b")", b"[", b"]", b"{", b"}", data[at : at + 1] * 2])
    return data[:at] + new + data[at + 1 :]


def _quote(data: bytes, random: random.Random) -> bytes:
    places = [i for i, byte in enumerate(data) if byte in b"'\""]
    if not places:
        return data + b"'"
    at = random.choice(places)
    return data[:at] + random.choice([b"", b"'", b'"', b'"""', b"\\"]) + data[at + 1 :]


def _indentation(data: bytes, random: random.Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b"\n"]
    row = random.randrange(len(lines))
    stripped = lines[row].lstrip(b" \t")
    indent = lines[row][: len(lines[row]) - len(stripped)]
    lines[row] = random.choice([indent + b" ", indent[1:], b"", b"\t" + indent]) + stripped
    return b"".join(lines)


def _doubled(data: bytes, random: random.Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b"\n"]
    row = random.randrange(len(lines))
    lines[row:row] = lines[row : row + random.randint(1, 3)]
    return b"".join(lines)


def _swapped_lines(data: bytes, random: random.Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b"\n"]
    one, other = (random.randrange(len(lines)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _bytes(data: bytes, random: random.Random) -> bytes:
    changed = bytearray(data or b"x")
    for _ in range(random.choice([1, 1, 2, 10, 100])):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _odd_character(data: bytes, random: random.Random) -> bytes:
    odd = ["\0", "\x0b", "\x0c", "\x1a", "\u2028", "\u200b", "\ufeff", "\xa0", "“", "\xd7",
           "\x1b[0m", "\r", "\x85", "\U0001f600", "\u202e", "\u017f"]  # fmt: skip
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(odd).encode() + data[at:]


def _encoding(data: bytes, random: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    kind = random.randrange(5)
    if kind == 0:
        codec = random.choice(["utf-16", "utf-32-le", "utf-7", "cp037", "utf-16-be"])
        return text.encode(codec, "replace")
    if kind == 1:
        return f"# naïve ü\n{text}".encode("latin-1", "replace")
    cookies = ["utf-8", "latin-1", "ascii", "utf-16", "nonsense", "cp1252", "gbk", "rot13", "hex",
               "idna", "shift_jis", "punycode", "unicode_escape", "mbcs"]  # fmt: skip
    if kind == 2:
        return f"# -*- coding: {random.choice(cookies)} -*-\n".encode() + data
    if kind == 3:
        return b"\xef\xbb\xbf" * random.randint(1, 2) + data
    return data + random.choice(
        [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"]
    )


def _chunk(data: bytes, random: random.Random) -> bytes:
    one, other = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:one] + data[other:]


BREAKS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": _cut,
    "cut line": _cut_line,
    "typed": _typed,
    "bracket": _bracket,
    "quote": _quote,
    "indentation": _indentation,
    "doubled lines": _doubled,
    "swapped lines": _swapped_lines,
    "bytes": _bytes,
    "odd character": _odd_character,
    "encoding": _encoding,
    "chunk": _chunk,
}

# --- other programs -------------------------------------------------------------------------------


def living(base: Base, random: random.Random) -> Mutant:
    """A mutant that is a program, in some layout."""
    text, changes = base.text, list[str]()
    for _ in range(random.choice([1, 1, 2, 3, 5])):
        for _ in range(TRIES):
            name = random.choice(sorted(CHANGES))
            changed = CHANGES[name](Program(text), random)
            if changed is not None and changed != text and parsed(changed):
                text = changed
                changes.append(name)
                break
    layout = bases.layout(random)
    data = LAYOUTS[layout](text)
    if parsed(data) is None:  # tabs in a string with an escape, a future import behind a cookie
        layout, data = "plain", text.encode("utf-8", "replace")
    return Mutant(data, base.name, (*changes, layout))


def _pick(program: Program, random: random.Random) -> Place | None:
    return random.choice(program.whole_lines) if program.whole_lines else None


def _text_of(program: Program, place: Place) -> str:
    start, end = program.line_span(place.node)
    text = program.text[start:end]
    return text if text.endswith("\n") else f"{text}\n"


def _deleted(program: Program, random: random.Random) -> str | None:
    if not (place := _pick(program, random)):
        return None
    content = "" if len(place.block) > 1 else f"{program.indent(place.node)}pass\n"
    return program.after(Edit(*program.line_span(place.node), content))


def _duplicated(program: Program, random: random.Random) -> str | None:
    if not (place := _pick(program, random)):
        return None
    start, end = program.line_span(place.node)
    between = "" if program.text[:end].endswith("\n") else "\n"
    return program.after(Edit(end, end, between + program.text[start:end]))


def _moved(program: Program, random: random.Random) -> str | None:
    one, other = _pick(program, random), _pick(program, random)
    if not one or not other or one is other:
        return None
    if program.line_span(one.node)[0] <= program.line_span(other.node)[0]:
        one, other = other, one
    start, _ = program.line_span(other.node)
    begin, end = program.line_span(one.node)
    if begin < program.line_span(other.node)[1]:
        return None
    moved = shifted(_text_of(program, one), program.indent(one.node), program.indent(other.node))
    left = "" if len(one.block) > 1 else f"{program.indent(one.node)}pass\n"
    return program.after(Edit(start, start, moved), Edit(begin, end, left))


def _moved_down(program: Program, random: random.Random) -> str | None:
    """Exchange a statement and the next one."""
    if not (place := _pick(program, random)) or place.index + 1 == len(place.block):
        return None
    start, middle = program.line_span(place.node)
    following = place.block[place.index + 1]
    begin, end = program.line_span(following)
    text = program.text
    if begin < middle:
        return None
    return text[:start] + text[begin:end] + text[middle:begin] + text[start:middle] + text[end:]


def _transplanted(program: Program, random: random.Random) -> str | None:
    """A statement of another program before one of this."""
    other = Program(bases.draw(random).text)
    there, here = _pick(other, random), _pick(program, random)
    if not there or not here:
        return None
    indents = other.indent(there.node), program.indent(here.node)
    start, _ = program.line_span(here.node)
    return program.after(Edit(start, start, shifted(_text_of(other, there), *indents)))


WRAPPERS = [
    "if use_amp:", "if scaler is not None:", "if (step + 1) % 4 == 0:", "for _ in range(2):",
    "while True:", "with torch.autocast('cuda'):", "with torch.no_grad():", "def inner():",
    "class Inner:", "with autocast(), lock as held:", "async def inner():", "try:\nfinally",
    "if not ready: pass\nelse:", "try:\nexcept", "match mode:\ncase", "for a, *b in pairs:",
    "if (n := f()) > 1:",     "with torch.cuda.amp.autocast(enabled=flag):",
]  # fmt: skip


def _wrapped(program: Program, random: random.Random) -> str | None:
    """Some statements of a block in a block of their own."""
    if not (place := _pick(program, random)):
        return None
    last = random.choice(place.block[place.index :])
    start, end = program.line_span(place.node)[0], program.line_span(last)[1]
    old = program.indent(place.node)
    unit = random.choice(["    ", "  ", "\t"])
    wrapper = random.choice(WRAPPERS)
    body = program.text[start:end]
    body += "" if body.endswith("\n") else "\n"
    head, _, tail = wrapper.partition("\n")
    if head == "match mode:":
        text = f"{old}{head}\n{old}{unit}case _:\n{shifted(body, old, old + unit * 2)}"
    else:
        text = f"{old}{head}\n{shifted(body, old, old + unit)}"
        if tail == "else:":
            text = f"{old}{head}\n{old}{tail}\n{shifted(body, old, old + unit)}"
        elif tail:
            text += f"{old}{tail}:\n{old}{unit}{random.choice(['pass', 'scaler.update()'])}\n"
    return program.after(Edit(start, end, text))


def _unwrapped(program: Program, random: random.Random) -> str | None:
    """A block without its header."""
    owners = [p for p in program.whole_lines if getattr(p.node, "body", None)]
    if not owners:
        return None
    owner = random.choice(owners).node
    body = owner.body  # type: ignore[attr-defined]
    start, end = program.line_span(owner)[0], program.line_span(body[-1])[1]
    begin = program.line_span(body[0])[0]
    if begin <= start:
        return None
    inner = shifted(program.text[begin:end], program.indent(body[0]), program.indent(owner))
    return program.after(Edit(start, end, inner))


def _argument_dropped(program: Program, random: random.Random) -> str | None:
    calls = [c for c in program.nodes(ast.Call) if c.args or c.keywords]
    if not calls:
        return None
    call = random.choice(calls)
    parts = [*map(program.source, call.args), *map(program.source, call.keywords)]
    parts.pop(random.randrange(len(parts)))
    return program.after(program.replaced(call, f"{program.source(call.func)}({', '.join(parts)})"))


ARGUMENTS = [
    "True", "False", "None", "0", "1.0", "*args", "**kwargs", "enabled=False", "dtype=torch.half",
    "dtype=torch.bfloat16", "dim=-1", "device_type='cuda'", "max_norm=1.0", "foo=bar", "*x, *y",
    "x for x in y",
    "retain_graph=True", "enabled=use_amp", "eps=1e-12", "optimizer", "model.parameters()", "'cpu'",
    "init_scale=1.0", "error_if_nonfinite=True", "closure", "a := 1", "lambda: 0", "...",
]  # fmt: skip


def _argument_added(program: Program, random: random.Random) -> str | None:
    calls = program.nodes(ast.Call)
    if not calls:
        return None
    call = random.choice(calls)
    parts = [*map(program.source, call.args), *map(program.source, call.keywords)]
    parts.insert(random.randrange(len(parts) + 1), random.choice(ARGUMENTS))
    return program.after(program.replaced(call, f"{program.source(call.func)}({', '.join(parts)})"))


def _identifiers(program: Program) -> list[str]:
    words = re.findall(r"\b[^\W\d]\w*\b", program.text)
    return [word for word in words if not keyword.iskeyword(word)] or ["x"]


def _names_swapped(program: Program, random: random.Random) -> str | None:
    """Two names for each other in the whole program."""
    one, other = random.choice(_identifiers(program)), random.choice(_identifiers(program))
    both = {one: other, other: one}
    return re.sub(rf"\b({one}|{other})\b", lambda match: both[match[1]], program.text)


def _name_replaced(program: Program, random: random.Random) -> str | None:
    """One occurrence of a name by another name."""
    found = [m for m in re.finditer(r"\b[^\W\d]\w*\b", program.text) if not keyword.iskeyword(m[0])]
    if not found:
        return None
    match = random.choice(found)
    new = random.choice([*_identifiers(program), *WORDS])
    return program.after(Edit(match.start(), match.end(), new))


LITERALS = [
    "0", "1", "-1", "1e-12", "65536.0", "float('inf')", "None", "True", "False", "''", "'cuda'",
    '"cpu"', "b''", "()", "[]", "{}", "...", "torch.float16", "10**9", "0x10", "1j", "f'{x}'",
    "'" + string.punctuation.replace("'", "").replace("\\", "") + "'", "'a' 'b'", "'''a\nb'''",
]  # fmt: skip


def _literal_replaced(program: Program, random: random.Random) -> str | None:
    inside = program.nodes(ast.JoinedStr, ast.FormattedValue)
    found = [
        node
        for node in program.nodes(ast.Constant)
        if not any(above in inside for above in program.above(node))
    ]
    return (
        program.after(program.replaced(random.choice(found), random.choice(LITERALS)))
        if found
        else None
    )


def _expression_replaced(program: Program, random: random.Random) -> str | None:
    """An expression by another one of the program."""
    found = program.nodes(ast.expr)
    if len(found) < 2:
        return None
    one, other = random.choice(found), random.choice(found)
    text = program.source(other)
    content = random.choice([text, f"({text})", f"not {text}", f"*{text}", f"({text} or {text})"])
    return program.after(program.replaced(one, content))


def _function_merged(program: Program, random: random.Random) -> str | None:
    """The body of a function, or of another program, behind that of another."""
    functions = [p for p in program.whole_lines if isinstance(p.node, ast.FunctionDef)]
    if not functions:
        text = bases.draw(random).text
        return f"{program.text}\n{text}" if random.random() < 0.5 else f"{text}\n{program.text}"
    one, other = random.choice(functions).node, random.choice(functions).node
    assert isinstance(one, ast.FunctionDef) and isinstance(other, ast.FunctionDef)
    begin, end = program.line_span(other.body[0])[0], program.line_span(other.body[-1])[1]
    at = program.line_span(one.body[-1])[1]
    if not program.text[:at].endswith("\n"):
        return None
    body = shifted(
        program.text[begin:end], program.indent(other.body[0]), program.indent(one.body[0])
    )
    return program.after(Edit(at, at, body))


def _as_function(program: Program, random: random.Random) -> str | None:
    """The program as the body of a function or class, or twice."""
    head = random.choice(
        ["def main():", "class Main:", "async def main(self, *, scaler=None):", ""]
    )
    body = shifted(f"{program.text}\n", "", "    ") if head else program.text
    return f"{head}\n{body}" + ("" if head else f"\n{program.text}")


def _joined(program: Program, random: random.Random) -> str | None:
    """A simple statement on the line of the one before it."""
    if not (place := _pick(program, random)) or not place.index or hasattr(place.node, "body"):
        return None
    before = place.block[place.index - 1]
    _, end = program.span(before)
    start, _ = program.span(place.node)
    return program.after(Edit(end, start, "; ")) if not hasattr(before, "body") else None


def _builtin_shadowed(program: Program, random: random.Random) -> str | None:
    """A name that means something else from some line on."""
    if not (place := _pick(program, random)):
        return None
    names = [*WORDS[:8], *_identifiers(program), random.choice(dir(builtins))]
    line = random.choice(["{0} = None", "import {0}", "from .x import {0}", "del {0}", "{0}: int",
                          "{0} = {0}", "{0} = copy({0})", "global {0}", "{0} += 1",
                          "def {0}(): ..."])  # fmt: skip
    start, _ = program.line_span(place.node)
    text = program.indent(place.node) + line.format(random.choice(names)) + "\n"
    return splice(program.text, [Edit(start, start, text)])


CHANGES: dict[str, Callable[[Program, random.Random], str | None]] = {
    "deleted": _deleted,
    "duplicated": _duplicated,
    "moved": _moved,
    "exchanged": _moved_down,
    "transplanted": _transplanted,
    "wrapped": _wrapped,
    "unwrapped": _unwrapped,
    "argument dropped": _argument_dropped,
    "argument added": _argument_added,
    "names swapped": _names_swapped,
    "name replaced": _name_replaced,
    "literal replaced": _literal_replaced,
    "expression replaced": _expression_replaced,
    "merged": _function_merged,
    "as a function": _as_function,
    "joined": _joined,
    "rebound": _builtin_shadowed,
}
