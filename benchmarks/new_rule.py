"""Begin a rule: its module and its page, with what every one of them has.

    python benchmarks/new_rule.py AMP116 forgotten-thing --family scaling

The page follows the format of `amp_lint/handbook/pages.py` and its tests fail until the rule finds
what the example marks: that is where to start. CONTRIBUTING.md says what comes next.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from amp_lint import registry

ROOT = Path(__file__).parents[1]
_MODULE = '''\
"""{code}: WHAT IT FINDS, in one line without a full stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_lint.rule import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from amp_lint.model import Model


class {title}(Rule):
    """WHAT IS WRONG WITH IT."""

    code = "{code}"
    name = "{name}"
    severity = Severity.WARNING
    preview = True
    requires = (frozenset({{"autocast", "GradScaler"}}),)

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report every place; what is asked of the program stands in the model."""
        yield from ()
'''
_PAGE = """\
# {code} {name}

## What it does

Finds WHAT, in one paragraph that can be read alone.

## Symptoms

No error is raised.

* what a user sees, in the words of users, the most typical first

## Why it is a bug

What happens to the run, with a number that was measured, and how.

## Example

```py
import torch


def train(model, optimizer, loader):
    ...  # error: {code}
```

## Fix and its safety

What the fix does, when it is safe, when there is none.

## Known problems

Silent:

```py ok
import torch
```

## References

* where torch's source or documentation says it
"""


def main() -> int:
    args = _arguments()
    known = {word for rule in registry.all_rules() for word in (rule.code, rule.name)}
    if not re.fullmatch(r"AMP[1-8]\d\d", args.code) or not re.fullmatch(r"[a-z\d-]+", args.name):
        sys.exit(f"{args.code} {args.name}: a code is AMP116, a name forgotten-thing")
    if taken := known & {args.code, args.name}:
        sys.exit(f"{', '.join(sorted(taken))}: is taken")
    folder = args.rules / args.family
    if not folder.is_dir():
        sys.exit(f"{folder}: no such family")
    for path, text in _files(folder, args.code, args.name).items():
        path.write_text(text, "utf-8")
        print(path)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("code", help="the next free one of its family, such as AMP116")
    parser.add_argument("name", help="two or three words with hyphens")
    parser.add_argument("--family", default="scaling", help="the folder (default: scaling)")
    parser.add_argument("--rules", type=Path, default=ROOT / "rules", help=argparse.SUPPRESS)
    return parser.parse_args()


def _files(folder: Path, code: str, name: str) -> dict[Path, str]:
    words = {"code": code, "name": name, "title": "".join(map(str.title, name.split("-")))}
    stem = name.replace("-", "_")
    return {
        folder / f"{stem}.py": _MODULE.format(**words),
        folder / f"{stem}.md": _PAGE.format(**words),
    }


if __name__ == "__main__":
    sys.exit(main())
