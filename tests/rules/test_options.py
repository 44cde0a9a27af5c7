"""Command-line options: names, choices, and where they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest

from amp_lint.model import Model
from tests.programs import model_of

if TYPE_CHECKING:  # where mypy finds what is installed below `amp_lint.rules`
    from rules.switches._options import CommandLineOptions
else:
    from amp_lint.rules.switches._options import CommandLineOptions


def model(text: str) -> Model:
    return model_of(f"import argparse\nparser = argparse.ArgumentParser()\n{text}\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'--dtype', default='bfloat16'", ("dtype", True)),
        ("'-d', '--amp-dtype', choices=['fp16', 'bf16']", ("amp_dtype", True)),
        ("'--precision', choices=list({'bf16': 1})", ("precision", True)),
        ("'--bf16', action='store_true'", ("bf16", True)),
        ("'--x', dest='use_bf16', action='store_true'", ("use_bf16", True)),
        ("'--dtype', default='float16'", ("dtype", False)),
        ("'--dtype', help='bf16 or fp16'", ("dtype", False)),
        ("'--kv-cache-dtype', default='bfloat16'", ("kv_cache_dtype", False)),
        ("'--model', default='big_bf16'", ("model", False)),
        ("'--bf16', type=int", ("bf16", False)),
        ("'path', default='bf16'", None),
        ("*names", None),
    ],
)
def test_options(arguments: str, expected: tuple[str, bool] | None) -> None:
    found = model(f"parser.add_argument({arguments})").part(CommandLineOptions).all
    assert [(option.name, option.offers_bf16) for option in found] == (
        [expected] if expected else []
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("args.dtype", True),
        ("args.dtype in ('bf16', 'fp16')", True),
        ("chosen", True),
        ("not (a or chosen)", True),
        ("other", False),
        ("args.bf16", False),
        ("dtype", False),
    ],
)
def test_reads(expression: str, expected: bool) -> None:
    found = model(
        "parser.add_argument('--dtype')\nargs = parser.parse_args()\n"
        f"chosen = args.dtype == 'bf16'\nother = args.bf16\nprint({expression})"
    )
    print_call = found.tree.nodes(cst.Call)[-1]
    (option,) = found.part(CommandLineOptions).all
    assert found.part(CommandLineOptions).reads(option, print_call.args[0].value) is expected
