"""Random programs over the table of operations: is what is inferred what torch gives?

    python benchmarks/dtype_programs.py [COUNT [SEED]]    # 5000 programs, seed 0
    python benchmarks/dtype_programs.py --device cuda [COUNT [SEED]]

Each program is a few lines of straight code under an autocast region, or none. It is run for real,
on the CPU with its own lists and with CUDA's in their place, line by line; a line that raises is
left out. Then the dtypes of its variables are inferred from its text. The real dtype must be among
those that are inferred; how often there is only one says how much is known. On CUDA nothing is
put in place of anything, and programs end where a kernel stops the device: run with other seeds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
import torch

from amp_lint.amp.dtypes import ANY
from amp_lint.model import Model
from amp_lint.text.source import Source
from amp_lint.verify.experiments import cuda_policy
from amp_lint.vocabulary.operations import HOMES, operations

LINES = 8
BATCH = 50
REGIONS = {
    "plain": "if True",
    "cpu": 'with torch.autocast("cpu", dtype=torch.bfloat16)',
    "float16": 'with torch.autocast("cuda", dtype=torch.float16)',
    "bfloat16": 'with torch.autocast("cuda", dtype=torch.bfloat16)',
}
INPUTS = (
    "torch.randn(4, 4)", "torch.rand(4, 4).half()", "torch.ones(4, 4, dtype=torch.bfloat16)",
    "torch.tensor(2.0)", "torch.arange(4)", "torch.rand(4, 4).double()", "torch.eye(4)",
    "torch.rand(4, 4) > 0.5", "torch.full((4, 4), 0.5)", "torch.randn(4, 4)",
)  # fmt: skip
SHAPES = ("{f}({a})", "{f}({a}, {b})", "{f}({a}, -1)", "{f}({a}, dim=-1)", "{f}({a}, {b}, {c})")
METHODS = (
    "{a}.{f}()",
    "{a}.{f}({b})",
    "{a}.{f}(-1)",
    "{a}.{f}(dim=-1)",
    "{a}.{f}(-1, keepdim=True)",
)
PLAIN = (
    "{a} + {b}", "{a} * {b}", "{a} / {b}", "{a} - 1.0", "2 / {a}", "{a} ** 2", "{a} @ {b}",
    "{a}.float()", "{a}.half()", "{a}.to(torch.bfloat16)", "{a}.to({b}.dtype)", "{a}.type_as({b})",
    "{a}[0]", "{a}[:2]", "{a}.T", "torch.zeros_like({a})", "{a}.new_zeros(4, 4)",
    "{a}.masked_fill({b} > 0, -1.0)", "torch.where({a} > 0, {b}, {c})", "torch.cat([{a}, {b}])",
    "{a}.add_({b})", "{a}.exp_()", "torch.add({a}, {b}, out={c})", "{a} if {b}.dim() else {c}",
    "torch.softmax({a}, -1, dtype=torch.float16)", "-{a}", "{a} > {b}", "{a}.max(-1)[0]",
    "{a}.max(-1, keepdim=True).values", "torch.einsum('ij,jk->ik', {a}, {b})", "{a}.sum()",
    "torch.nn.functional.linear({a}, {b})", "{a}.sum(-1, keepdim=True)", "{a} * 0.5",
)  # fmt: skip
LEFT_OUT = frozenset(
    {"resize_", "resize_as_", "set_", "requires_grad_", "hash_tensor", "scalar_tensor", "randint",
     "cauchy", "exponential", "geometric", "log_normal", "uniform", "normal", "multinomial",
     "gradient", "nonzero_static", "cartesian_prod", "combinations", "vander", "block_diag"}
)  # fmt: skip


@dataclass
class Program:
    """Lines that run, and the dtype of what each gives."""

    region: str
    lines: list[str] = field(default_factory=list)
    dtypes: dict[str, str] = field(default_factory=dict)


def templates() -> list[str]:
    """Every call of the table's operations that small tensors may be given, and operators."""
    found = list(PLAIN)
    for name in sorted(operations().gives.keys() - LEFT_OUT):
        prefix, _, last = name.rpartition(".")
        homes = [home for home, known in HOMES.items() if known == (f"{prefix}." if prefix else "")]
        for home in homes:
            owner = _owner(home)
            if home != "torch.Tensor" and hasattr(owner, last):
                found += (s.replace("{f}", f"{home}.{last}") for s in SHAPES)
                break
        if name in operations().methods and hasattr(torch.Tensor, last):
            found += (s.replace("{f}", last) for s in METHODS)
    return [each for each in found if _runs(each)]


def _owner(home: str) -> Any:  # noqa: ANN401
    value: Any = torch
    for part in home.split(".")[1:]:
        value = getattr(value, part)
    return value


def _runs(template: str) -> bool:
    """Whether a call gives a tensor for small ones of some dtype."""
    for kind in ("torch.rand(4, 4)", "torch.arange(16).reshape(4, 4)"):
        names = {"torch": torch, **{name: eval(kind, {"torch": torch}) for name in "abc"}}
        try:
            if first(eval(template.format(a="a", b="b", c="c"), names)) is not None:
                return True
        except Exception:  # what an operation does not take is not asked of it
            continue
    return False


def first(value: object) -> torch.Tensor | None:
    """A tensor, or the first of several."""
    if isinstance(value, torch.Tensor):
        return value if value.numel() < 4096 else None
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        return value[0]
    return None


def program(
    rng: random.Random, calls: list[str], region: str, at: int, device: str = "cpu"
) -> Program:
    """A program that ran; its variables are named after its place ``at`` in a file."""
    made = Program(region)
    known: dict[str, torch.Tensor] = {}
    dtype = {"float16": torch.float16}.get(region, torch.bfloat16)
    with torch.autocast(device, dtype=dtype, enabled=region != "plain"):
        for _ in range(LINES * 6):
            if len(made.lines) >= LINES:
                break
            target = f"v{at}_{len(made.lines)}"
            names = rng.choices([*known], k=3) if known else []
            line = rng.choice(INPUTS) if len(known) < 3 else ""
            line = line or rng.choice(calls).format(**dict(zip("abc", names, strict=True)))
            if _run(line, target, known):
                made.lines.append(f"{target} = {line}")
                made.dtypes[target] = str(known[target].dtype).removeprefix("torch.")
    return made


def _run(line: str, target: str, known: dict[str, torch.Tensor]) -> bool:
    """Run one line; whether it gave a tensor."""
    copies = {name: value.clone() for name, value in known.items()}
    try:
        value = eval(line, {"torch": torch, **copies})
    except Exception:  # as it would in the program
        return False
    if not isinstance(value, torch.Tensor) or value.numel() > 4096 or value.is_complex():
        return False
    known.update(copies)
    known[target] = value
    return True


def inferred(made: list[Program]) -> Iterator[tuple[Program, str, frozenset[str]]]:
    """For every variable of some programs, in one file: the dtypes that it may have."""
    text = 'import torch\ntorch.set_default_device("cuda")\n'  # as the measured policy takes it
    for each in made:
        text += f"{REGIONS[each.region]}:\n" + "".join(f"    {line}\n" for line in each.lines)
    model = Model(Source(text.encode(), "programs.py"))
    (run,) = model.dtypes.runs(model.tree.module)
    targets = {t.target.value: t for t in model.tree.nodes(cst.AssignTarget)}  # type: ignore[attr-defined]
    for each in made:
        for name in each.dtypes:
            assignment = model.tree.parent(targets[name])
            assert isinstance(assignment, cst.Assign)
            value = run.of(assignment.value)
            yield each, name, value.dtypes if value.is_tensor else frozenset({ANY})


def programs(
    count: int, seed: int, regions: list[str], calls: list[str], device: str
) -> Iterator[Program]:
    """Programs that ran on a device, until it does nothing more."""
    rng, kinds = random.Random(seed), itertools.cycle(regions)
    for at in range(count):
        try:
            made = program(rng, calls, next(kinds), at, device)
            torch.ones(1).sum().item()
        except RuntimeError:  # an assertion of a kernel failed
            return
        yield made


def measured(count: int, seed: int, regions: list[str], device: str = "cpu") -> dict[str, Any]:
    """How many variables of how many programs are inferred, and which wrongly."""
    calls = templates()
    torch.set_default_device(device)
    made = [*programs(count, seed, regions, calls, device)]
    found: Counter[str] = Counter()
    wrong: list[str] = []
    vague: Counter[str] = Counter()
    for start in range(0, len(made), BATCH):
        for each, name, dtypes in inferred(made[start : start + BATCH]):
            real = each.dtypes[name]
            line = next(line for line in each.lines if line.startswith(f"{name} = "))
            found["variables"] += 1
            if dtypes == {real}:
                found["single"] += 1
            elif real not in dtypes and ANY not in dtypes:
                text = f"{each.region}: {real}, not {sorted(dtypes)}: {'; '.join(each.lines)}"
                wrong.append(f"{text} AT {line}")
            else:
                vague[line.partition(" = ")[2]] += 1
    return {"programs": len(made), **found, "wrong": wrong, "vague": vague.most_common(25)}


def main() -> None:
    """Measure both lists, and print the figures as JSON, in one line: MKL prints as well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=5000, metavar="COUNT")
    parser.add_argument("seed", type=int, nargs="?", default=0, metavar="SEED")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if args.device != "cpu":
        regions = ["plain", "float16", "bfloat16"]
        print(json.dumps({args.device: measured(args.count, args.seed, regions, args.device)}))
        return
    found = measured(args.count // 2, args.seed, ["plain", "cpu"])
    cuda_policy.install()
    other = measured(args.count - args.count // 2, args.seed + 1, ["float16", "bfloat16"])
    print(json.dumps({"cpu": found, "cuda": other}))


if __name__ == "__main__":
    main()
