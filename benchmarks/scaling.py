"""Does the time of linting grow in proportion to the size of a program?

    python benchmarks/scaling.py [FAMILY ...] [--update benchmarks/tables/scaling.md]

Each family is a training program in float16 that grows in one way: independent tests around
events, loops in loops, long functions, helpers that call helpers. Every size is linted with all
rules, those in preview too, in this process. Printed for each size: lines; statements that the
training-step model ran, on all paths; calls of Python functions, which are the same in every run;
CPU milliseconds, the least of some runs. The exponents are the slopes of calls over lines and over
characters (what is nested is indented, too) with both axes logarithmic, fitted by least squares: 1
is linear, 2 quadratic. Exits with 1 if one over characters is above `MOST`.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from unittest import mock

from marked import updated

from amp_lint import registry
from amp_lint.engine import check
from amp_lint.model import Model
from amp_lint.run.target import Version
from amp_lint.selection import Selection
from amp_lint.syntax.links import Attachments
from amp_lint.text.source import Source

MOST = 1.15
"""The largest exponent that counts as linear."""
RUNS, LONG_MS = 3, 2000.0
BEGIN, END = "<!-- scaling table -->", "<!-- end of scaling table -->"

Block = Iterator[str]
HEAD = """\
import torch
from torch import nn
from torch.amp import GradScaler, autocast
from torch.nn.utils import clip_grad_norm_

"""
STEP = """\
optimizer.zero_grad()
with autocast("cuda", dtype=torch.float16):
    logits = model(inputs)
    loss = criterion(logits, targets)
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
""".splitlines()
EVENTS = (
    "clip_grad_norm_(model.parameters(), args.limit)",
    "scaler.unscale_(optimizer)",
    "optimizer.zero_grad()",
    "loss = loss / args.steps",
)


@dataclass(frozen=True)
class Family:
    """Programs that grow in one way."""

    text: Callable[[int], str]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Measured:
    """What linting one program cost."""

    size: int
    lines: int
    characters: int
    statements: int
    calls: int
    milliseconds: float


# --- programs -------------------------------------------------------------------------------------


def indent(block: Sequence[str] | Block, by: int = 1) -> Block:
    return (" " * 4 * by + line for line in block)


def function(name: str, body: Sequence[str] | Block, parameters: str = "") -> Block:
    given = parameters or "model, loader, criterion, optimizer, scaler, args, inputs, targets, loss"
    yield f"def {name}({given}):"
    yield from indent(body)
    yield ""


def script(*functions: Block) -> str:
    return HEAD + "".join(f"{line}\n" for block in functions for line in block)


def training(body: Sequence[str] | Block) -> str:
    """One function with a loop: forward and backward, then ``body``, then step and update."""

    def lines() -> Block:
        yield 'scaler = GradScaler("cuda", enabled=args.amp)'
        yield "for inputs, targets in loader:"
        yield from indent(STEP[:5])
        yield from indent(body)
        yield from indent(STEP[7:])

    return script(function("train", lines()))


def independent_tests(n: int) -> str:
    return training(
        line for i in range(n) for line in (f"if args.option_{i}:", f"    {EVENTS[i % 4]}")
    )


def tests_of_one_setting(n: int) -> str:
    def body() -> Block:
        for i in range(n):
            yield "if args.amp:"
            yield f"    {EVENTS[i % 2]}"
            yield "else:"
            yield f"    value_{i} = float(loss)"

    return training(body())


def exclusive_tests(n: int) -> str:
    def body() -> Block:
        for i in range(n):
            yield f"{'elif' if i else 'if'} args.mode == {i}:"
            yield f"    {EVENTS[i % 4]}"

    return training(body())


def nested_loops(n: int) -> str:
    def body() -> Block:
        for i in range(n):
            yield from indent([f"for inputs_{i} in loader:", f"    {EVENTS[2]}"], i)
        yield from indent(STEP, n)

    return script(function("train", body()))


def nested_tests(n: int) -> str:
    def body() -> Block:
        for i in range(n):
            yield from indent([f"if args.option_{i}:", f"    {EVENTS[i % 4]}"], i)

    return training(body())


def nested_regions(n: int) -> str:
    def body() -> Block:
        for i in range(n):
            text = f'with autocast("cuda", enabled=args.amp_{i}):'
            yield from indent([text, "    loss = model(inputs)"], i)
        yield from indent(["scaler.scale(loss).backward()"], n)

    return training(body())


def straight_line(n: int) -> str:
    """``n`` lines, every eighth block a training step."""

    def body() -> Block:
        for i in range(n // 32):
            yield from STEP
            for j in range(23):
                yield f"value_{j} = value_{(j + i) % 23} * args.weight + float(loss)"

    return script(function("train", body()))


def straight_script(n: int) -> str:
    def body() -> Block:
        for i in range(n // 16):
            yield from STEP
            yield f"total_{i} = float(loss)"
            yield f"history.append(total_{i})"
            yield f"x = torch.softmax(logits + total_{i}, -1)"
            yield "x = x.log()"
            yield "if args.verbose:"
            yield "    print(x, loss)"
            yield ""

    return script(body())


def one_name(n: int) -> str:
    """One name that is assigned again and again, and used in every line."""
    return training(
        line
        for i in range(n // 2)
        for line in (f"loss = loss + args.weights[{i}] * loss", "total = total + loss")
    )


def helpers(n: int) -> str:
    """Many helpers, each called by one function."""
    each = (function(f"step_{i}", [*STEP, "return loss"]) for i in range(n))
    given = "model, loader, criterion, optimizer, scaler, args, inputs, targets, loss"
    return script(*each, function("train", (f"loss = step_{i}({given})" for i in range(n))))


def chain(n: int) -> str:
    """Helpers, each calling the next twice."""
    given = "model, loader, criterion, optimizer, scaler, args, inputs, targets, loss"
    each = (
        function(f"step_{i}", [*STEP, f"step_{i + 1}({given})", f"step_{i + 1}({given})"])
        for i in range(n)
    )
    return script(*each, function(f"step_{n}", STEP))


def web(n: int) -> str:
    """Helpers, each calling five others."""
    given = "model, loader, criterion, optimizer, scaler, args, inputs, targets, loss"

    def body(i: int) -> Block:
        yield from STEP
        for j in range(5):
            yield f"step_{(5 * i + j) % n}({given})"

    return script(*(function(f"step_{i}", body(i)) for i in range(n)))


def methods(n: int) -> str:
    """One class with many methods that share what ``__init__`` made."""

    def body() -> Block:
        yield from function("__init__", ["self.scaler = GradScaler()", "self.total = 0"], "self")
        for i in range(n):
            own = [line.replace("scaler.", "self.scaler.") for line in STEP]
            own += [f"self.loss_{i} = loss", f"self.total = self.total + self.loss_{i}"]
            own += [f"if self.amp_{i % 7}:", f"    self.step_{max(i - 1, 0)}(model)"]
            yield from function(f"step_{i}", own, "self, model")

    return script(iter(["class Trainer:", *indent(body())]))


def attempts(n: int) -> str:
    def body() -> Block:
        for i in range(n):
            yield "try:"
            yield f"    {EVENTS[i % 4]}"
            yield "except RuntimeError:"
            yield f"    {EVENTS[(i + 2) % 4]}"
            yield "finally:"
            yield f"    value_{i} = float(loss)"

    return training(body())


def matches(n: int) -> str:
    def body() -> Block:
        for i in range(n):
            yield f"match args.mode_{i}:"
            for j in (1, 2):
                yield f"    case {j}:"
                yield f"        {EVENTS[(i + j) % 4]}"

    return training(body())


def contexts(n: int) -> str:
    def body() -> Block:
        for i in range(n):
            yield f'with autocast("cuda", enabled=args.amp_{i % 5}):'
            yield "    loss = loss + model(inputs)"
            yield f"with torch.no_grad(), profile('{i}'):"
            yield f"    {EVENTS[i % 4]}"

    return training(body())


def optimizers(n: int) -> str:
    """One loss, and many optimizers that are unscaled, clipped and stepped by one scaler."""

    def body() -> Block:
        yield from (f"optimizer_{i} = torch.optim.SGD(model, lr=0.1)" for i in range(n))
        yield "for inputs, targets in loader:"
        yield from indent(STEP[:5])
        for i in range(n):
            yield f"    scaler.unscale_(optimizer_{i})"
            yield "    clip_grad_norm_(model.parameters(), 1.0)"
            yield f"    scaler.step(optimizer_{i})"
        yield "    scaler.update()"

    return script(function("train", body()))


def modules(n: int) -> str:
    """Networks with chains of tensor operations."""

    def body(i: int) -> Block:
        yield from function("__init__", [f"self.norm = nn.LayerNorm({i + 1}, eps=1e-12)"], "self")
        forward = ["x = self.norm(x).float()", "p = torch.softmax(x, dim=-1)", "p = p.clamp(0, 1)"]
        forward += ["y = torch.log(p + 1e-10)", "if mask is not None:", "    y = y * mask"]
        yield from function("forward", [*forward, "return nn.functional.linear(y, p)"], "self, x")

    def net(i: int) -> Block:
        yield f"class Net{i}(nn.Module):"
        yield from indent(body(i))

    def train() -> Block:
        yield from (f"net_{i} = Net{i}().half()" for i in range(n))
        yield from STEP

    return script(*map(net, range(n)), function("train", train()))


def trainers(n: int) -> str:
    """What a long real file looks like: trainers with settings, epochs, checkpoints, helpers."""
    return script(*(trainer(i) for i in range(n)))


def trainer(i: int) -> Block:
    yield f"def loss_{i}(model, batch, weight=None):"
    yield "    logits = model(batch['inputs'])"
    yield "    losses = -(torch.log_softmax(logits, -1) * batch['targets']).sum(-1)"
    yield "    if weight is not None:"
    yield "        losses = losses * weight"
    yield "    return losses.mean()"
    yield f"def train_{i}(model, loader, scheduler, args, scaler=None):"
    yield "    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)"
    yield "    if args.fp16 and scaler is None:"
    yield '        scaler = GradScaler("cuda")'
    yield "    for epoch in range(args.epochs):"
    yield "        for step, batch in enumerate(loader):"
    yield '            with autocast("cuda", enabled=args.fp16):'
    yield f"                loss = loss_{i}(model, batch, args.weight)"
    yield "            if args.accumulation > 1:"
    yield "                loss = loss / args.accumulation"
    yield "            if args.fp16:"
    yield "                scaler.scale(loss).backward()"
    yield "            else:"
    yield "                loss.backward()"
    yield "            if (step + 1) % args.accumulation == 0:"
    yield "                if args.fp16:"
    yield "                    scaler.unscale_(optimizer)"
    yield "                if args.max_norm:"
    yield "                    clip_grad_norm_(model.parameters(), args.max_norm)"
    yield "                if args.fp16:"
    yield "                    scaler.step(optimizer)"
    yield "                    scaler.update()"
    yield "                else:"
    yield "                    optimizer.step()"
    yield "                scheduler.step()"
    yield "                optimizer.zero_grad()"
    yield "            if args.log and step % args.log == 0:"
    yield "                print(epoch, step, float(loss))"
    yield "        state = {'model': model.state_dict(), 'optimizer': optimizer.state_dict()}"
    yield "        if scaler is not None:"
    yield "            state['scaler'] = scaler.state_dict()"
    yield f"        torch.save(state, f'{{args.output}}/{i}-{{epoch}}.pt')"
    yield ""


LONG = (1000, 2000, 5000, 10_000)
MANY = (50, 100, 200, 400)
FAMILIES = {
    "independent tests": Family(independent_tests, (10, 20, 40, 80, 160, 320)),
    "tests of one setting": Family(tests_of_one_setting, (10, 20, 40, 80, 160, 320)),
    "if-elif chain": Family(exclusive_tests, (10, 20, 40, 80, 120)),
    "nested tests": Family(nested_tests, (10, 20, 40, 80)),
    "nested loops": Family(nested_loops, (5, 10, 15, 19)),
    "nested regions": Family(nested_regions, (5, 10, 15, 18)),
    "try": Family(attempts, (10, 20, 40, 80, 160, 320)),
    "match": Family(matches, (10, 20, 40, 80, 160, 320)),
    "with": Family(contexts, (10, 20, 40, 80, 160, 320)),
    "long function": Family(straight_line, (*LONG, 20_000)),
    "long script": Family(straight_script, LONG),
    "one name": Family(one_name, LONG),
    "optimizers": Family(optimizers, (10, 20, 40, 80, 160, 320)),
    "helpers": Family(helpers, MANY),
    "chain of helpers": Family(chain, MANY),
    "web of helpers": Family(web, MANY),
    "methods": Family(methods, MANY),
    "modules": Family(modules, MANY),
    "trainers": Family(trainers, (25, 50, 100, 200)),
}


# --- measuring ------------------------------------------------------------------------------------


def lint(text: str, selection: Selection) -> None:
    check(Source(text.encode(), "generated.py"), selection)


def measure(family: Family, size: int, selection: Selection) -> Measured:
    text = family.text(size)
    milliseconds = timed(text, selection)
    statements, calls = counted(text, selection)
    return Measured(size, text.count("\n"), len(text), statements, calls, milliseconds)


def timed(text: str, selection: Selection) -> float:
    """CPU milliseconds, the least of `RUNS`, or of one that is long."""
    least = math.inf
    for _ in range(RUNS):
        gc.collect()
        start = time.process_time()
        lint(text, selection)
        least = min(least, 1000 * (time.process_time() - start))
        if least > LONG_MS:
            break
    return least


def counted(text: str, selection: Selection) -> tuple[int, int]:
    """What one run of linting counts, the same each time.

    Returns:
        The statements that the training-step model ran, and how often linting entered a Python
        function or resumed a generator.
    """
    models: list[Model] = []
    calls = 0

    def made(source: Source, target_torch: Version | None, attached: Attachments | None) -> Model:
        models.append(Model(source, target_torch, attached))
        return models[-1]

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    with mock.patch.object(Model, "close"), mock.patch("amp_lint.model.Model", made):
        sys.setprofile(note)
        try:
            lint(text, selection)
        finally:
            sys.setprofile(None)
    return sum(root.statements for model in models for root in model.steps.roots), calls


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line through the logarithms of the points, by least squares."""
    logs = [(math.log(x), math.log(max(y, 1e-9))) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread


# --- report ---------------------------------------------------------------------------------------


def rows(name: str, measured: Sequence[Measured]) -> Iterator[str]:
    by_lines = exponent([(m.lines, m.calls) for m in measured])
    by_text = exponent([(m.characters, m.calls) for m in measured])
    for m in measured:
        last = m is measured[-1]
        yield (
            f"| {name if m is measured[0] else ''} | {m.size:,} | {m.lines:,} | {m.characters:,} "
            f"| {m.statements:,} | {m.calls:,} | {m.milliseconds:,.0f} "
            f"| {1000 * m.milliseconds / m.lines:,.0f} "
            f"| {f'{by_lines:.2f}' if last else ''} | {f'{by_text:.2f}' if last else ''} |"
        )


HEADING = (
    "| family | n | lines | characters | statements run | calls | CPU ms | ms per 1000 lines "
    "| exponent, lines | exponent, characters |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write the table there too")
    args = parser.parse_args()
    selection = Selection(registry.all_rules())
    lint(trainers(1), selection)  # so that no family pays for imports
    lines, steep = [HEADING], []
    print(HEADING)
    for name in args.families or FAMILIES:
        family = FAMILIES[name]
        measured = [measure(family, size, selection) for size in family.sizes]
        lines += rows(name, measured)
        print("\n".join(rows(name, measured)), flush=True)
        if exponent([(m.characters, m.calls) for m in measured]) > MOST:
            steep.append(name)
    if args.update:
        args.update.write_text(
            updated(args.update.read_text("utf-8"), BEGIN, END, "\n".join(lines)), "utf-8"
        )
    print("linear" if not steep else f"steeper than linear: {', '.join(steep)}")
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
