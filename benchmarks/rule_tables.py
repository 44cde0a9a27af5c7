"""The tables of docs/rules.md: every rule, by family.

python benchmarks/rule_tables.py [--update docs/rules.md]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path

from marked import updated

from amp_lint import registry
from amp_lint.report.page import FIXES
from amp_lint.rule import Rule

BEGIN, END = "<!-- rules -->", "<!-- end of rules -->"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write them there too")
    args = parser.parse_args()
    text = tables(registry.every_rule())
    print(text)
    if args.update:
        args.update.write_text(updated(args.update.read_text("utf-8"), BEGIN, END, text), "utf-8")
    return 0


def tables(rules: Sequence[Rule]) -> str:
    """Markdown: the sentence of each family, and a line for each of its rules."""
    families = groupby(sorted(rules, key=_family), key=_family)
    parts = sorted(([*members] for _, members in families), key=lambda members: members[0].code)
    return "\n\n".join("\n".join(_table(members)) for members in parts)


def _table(members: Sequence[Rule]) -> Iterator[str]:
    yield f"## {(import_module(_family(members[0])).__doc__ or '').strip().rstrip('.')}"
    yield ""
    yield "| code | name | finds | severity | fix |"
    yield "|---|---|---|---|---|"
    for rule in members:
        module = type(rule).__module__.split(".", 2)[2].replace(".", "/")
        code = f"[{rule.code}](../rules/{module}.md)"
        finds = registry.summary(rule) + " (preview)" * rule.preview
        fixes = ", ".join(FIXES[kind] for kind in rule.fixes) or "none"
        yield f"| {code} | {rule.name} | {finds} | {rule.severity.value} | {fixes} |"


def _family(rule: Rule) -> str:
    return type(rule).__module__.rpartition(".")[0]


if __name__ == "__main__":
    sys.exit(main())
