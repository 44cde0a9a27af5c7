"""Measures which dtype each operation of torch gives: ``amp_lint/vocabulary/operations.json``.

    python benchmarks/operations.py            # 2 minutes; needs ``pip install expecttest``
    python benchmarks/operations.py --check    # where the table differs from this machine's CUDA

The operations and their sample inputs are those of torch's own test database. Each is run on the
CPU as it is, under CPU autocast, and under CUDA's lists (`cuda_policy`); which dtypes CUDA has
kernels for is what the database declares. The two policies cannot be had in one process, so that
this file runs itself a second time for the emulated one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from amp_lint.verify.experiments import cuda_policy

TABLE = Path(__file__).parents[1] / "amp_lint" / "vocabulary" / "operations.json"
HOMES = ("", "nn.functional.", "linalg.", "fft.", "special.")
HALF, BF16, FLOAT32, INT64 = torch.float16, torch.bfloat16, torch.float32, torch.int64
SAMPLES = 3
MODULES = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "KLDivLoss": "kl_div",
    "SyncBatchNorm": "batch_norm",
}
"""Modules that are not called like their function."""
WIDEST = ("arctan2", "grid_sample", *cuda_policy.WIDEST)
"""What CUDA's autocast promotes; `grid_sample` it does otherwise than the CPU's kernels."""
VARIOUS = ("einsum", "inner", "tensordot")
"""What CPU autocast casts only for some shapes."""
NO_OPERATION = re.compile(
    r"^(torch|ops)\.|^_|^jiterator|polynomial|bessel|^(allclose|broadcast_shapes|equal|item|to)$"
    r"|^(bool|byte|char|double|float|half|bfloat16|int|long|short|cfloat|cdouble|chalf)$"
)
"""Among them casts, and what only the engine of dtypes can tell."""
VARIES = "varies"
Outcome = str
"""The dtype of the (first) result, `VARIES`, or "" where it raises."""


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--emulated", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help="compare the table with CUDA")
    args = parser.parse_args()
    if args.check:
        print("\n".join(differences(json.loads(TABLE.read_text()), measured(HALF, "cuda"))))
        return
    if args.emulated:
        cuda_policy.install()
        print(json.dumps(measured(HALF)))
        return
    again = [sys.executable, __file__, "--emulated"]
    cuda = json.loads(subprocess.run(again, check=True, capture_output=True, text=True).stdout)
    TABLE.write_text(json.dumps(table(measured(BF16), cuda), indent=1, sort_keys=True) + "\n")


def measured(region: torch.dtype, device: str = "cpu") -> dict[str, dict[str, Outcome]]:
    """Name -> what is given in which setting."""
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    found: dict[str, dict[str, Outcome]] = {}
    for info in op_db:
        name = short(info.name)
        if name is None or name in found:
            continue
        outcomes = outcomes_of(info, region, device)
        for alias in [info.name, *(alias.name for alias in info.aliases)]:
            if (known := short(alias)) is not None and outcomes:
                found.setdefault(known, outcomes)
    return found


def short(name: str) -> str | None:
    """``softmax`` for ``nn.functional.softmax``; None for what is no function of torch."""
    if NO_OPERATION.search(name) or name.rpartition(".")[0] not in {h[:-1] for h in HOMES}:
        return None
    owners = (torch, torch.nn.functional, torch.special, torch.Tensor, torch.linalg, torch.fft)
    if not any(hasattr(owner, name.rpartition(".")[2]) for owner in owners):
        return None
    return name.removeprefix("nn.functional.").removeprefix("special.")


def outcomes_of(info: Any, region: torch.dtype, device: str) -> dict[str, Outcome]:  # noqa: ANN401
    """What one operation gives."""
    source = next((d for d in (FLOAT32, torch.complex64) if d in info.dtypes), None)
    if source is not FLOAT32:
        return {}
    samples = [*itertools.islice(info.sample_inputs(device, source), SAMPLES)]
    run = info.op
    found: dict[str, Outcome] = {}
    for name, dtype in {"half": HALF, "bf16": BF16, "float32": FLOAT32, "int64": INT64}.items():
        found[name] = first(given(run, sample, everywhere(dtype)) for sample in samples)
        with torch.autocast(device, dtype=region):
            found[f"on {name}"] = first(given(run, sample, everywhere(dtype)) for sample in samples)
    mixed = [s for s in samples if floating(s) > 1]
    found["mixed"] = first(given(run, s, lambda i: FLOAT32 if i else HALF) for s in mixed)
    with torch.autocast(device, dtype=region):
        found["on mixed"] = first(given(run, s, lambda i: FLOAT32 if i else region) for s in mixed)
    reduced = (falls(run, sample) for sample in samples)
    found["reduces"] = "yes" if any(reduced) else ""
    found["no half"] = "" if HALF in info.dtypesIfCUDA else "yes"
    return found


def everywhere(dtype: torch.dtype) -> Callable[[int], torch.dtype]:
    return lambda _: dtype


def falls(run: Any, sample: Any) -> bool:  # noqa: ANN401
    """Whether the result of a sample has fewer dimensions than its input."""
    try:
        made = run(sample.input, *sample.args, **sample.kwargs)
    except Exception:  # as in `given`
        return True
    result = next(tensors(made), None)
    return result is not None and result.dim() < next(tensors(sample.input), result).dim()


def floating(sample: Any) -> int:  # noqa: ANN401
    return sum(t.is_floating_point() for t in tensors((sample.input, sample.args, sample.kwargs)))


def tensors(value: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors(item)


def given(run: Any, sample: Any, dtype: Callable[[int], torch.dtype]) -> Outcome:  # noqa: ANN401
    """What comes of a sample whose floating tensors are cast."""
    count = itertools.count()

    def cast(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.detach().to(dtype(next(count)))
        if isinstance(value, (list, tuple)):
            return type(value)(map(cast, value)) if type(value) in (list, tuple) else value
        if isinstance(value, dict):
            return {key: cast(item) for key, item in value.items()}
        return value

    try:
        made = run(cast(sample.input), *cast(sample.args), **cast(sample.kwargs))
    except Exception:  # what an operation does not take is nothing that it gives
        return ""
    result = next(tensors(made if isinstance(made, (tuple, list)) else (made,)), None)
    return str(result.dtype).removeprefix("torch.") if result is not None else ""


def first(outcomes: Iterator[Outcome]) -> Outcome:
    """The outcome of the samples that run."""
    known = {outcome for outcome in outcomes if outcome}
    return VARIES if len(known) > 1 else known.pop() if known else ""


def special(name: str) -> str:
    """What CUDA's autocast does that a run of the emulation does not tell."""
    return "widest" if name in WIDEST else VARIES if name == "inner" else ""


def policy(found: dict[str, Outcome], low: str) -> str:
    """What a region does to the result of an operation."""
    narrow, wide = found["on half" if low == "float16" else "on bf16"], found["on float32"]
    if VARIES in (narrow, wide):
        return VARIES
    if wide == low:
        return "low"
    if wide == "float32" and narrow == "float32" and found["half"] != "float32":
        return "float32"
    return ""


def differences(told: Any, found: dict[str, dict[str, Outcome]]) -> Iterator[str]:  # noqa: ANN401
    """What the table says otherwise than CUDA does, one line each; the last counts them."""
    lists = {
        key: {name: kind for kind, names in told[key].items() for name in names.split()}
        for key in ("cuda", "gives", "follows")
    }
    count = 0
    for name in sorted(found.keys() & lists["gives"].keys()):
        each = found[name]
        promotes = (each["on half"], each["on mixed"]) == ("float16", "float32")
        read = {"cuda": "widest" if promotes and name in WIDEST else policy(each, "float16")}
        if each["float32"]:
            read["gives"] = "float" if each["float32"] == "float32" else each["float32"]
        if each["mixed"]:
            read["follows"] = "first" if each["mixed"] == "float16" else ""
        for key, value in read.items():
            if (known := lists[key].get(name, "")) not in (value, VARIES):
                count += 1
                yield f"{key}: {name}: {known!r} in the table, {value!r} here; {each}"
    yield f"{len(found)} operations on {torch.cuda.get_device_name()}, {count} differences"


def table(cpu: dict[str, dict[str, Outcome]], cuda: dict[str, dict[str, Outcome]]) -> Any:  # noqa: ANN401
    """The lists that the package ships, each as one line of names."""
    lists: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in sorted(cpu.keys() & cuda.keys()):
        plain, emulated = cpu[name], cuda[name]
        result = plain["float32"]
        lists["gives"]["float" if result == "float32" else result].append(name)
        lists["cpu"][VARIES if name in VARIOUS else policy(plain, "bfloat16")].append(name)
        lists["cuda"][special(name) or policy(emulated, "float16")].append(name)
        lists["integers"]["float" if plain["int64"] == "float32" else ""].append(name)
        if plain["mixed"] == "float16":
            lists["follows"]["first"].append(name)
        if plain["reduces"]:
            lists["shape"]["fewer"].append(name)
        if plain["no half"]:
            lists["kernels"]["no half"].append(name)
        if hasattr(torch.Tensor, name):
            lists["written"]["as method"].append(name)
    del lists["cpu"][""], lists["cuda"][""], lists["integers"][""]
    made: dict[str, Any] = {
        key: {kind: " ".join(names) for kind, names in kinds.items()}
        for key, kinds in lists.items()
    }
    made["modules"] = modules({*cpu})
    made["torch"] = torch.__version__.partition("+")[0]
    return made


def modules(names: set[str]) -> dict[str, str]:
    """Module -> the operation that it applies."""
    plain = {re.sub(r"_", "", name): name for name in sorted(names)}
    found = {}
    for module in sorted(dir(torch.nn)):
        key = module.lower().removesuffix("loss")
        tries = (module.lower(), key, re.sub(r"[123]d$", "", key))
        name = next((plain[each] for each in tries if each in plain), None)
        name = MODULES.get(module, name)
        if module[0].isupper() and name in names:
            found[module] = name
    return found


if __name__ == "__main__":
    main()
