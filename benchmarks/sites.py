"""Proves the fixes that the rules offer at the labelled bugs of public code, each by itself.

    python benchmarks/sites.py LABELS TARGET

LABELS and TARGET as for real_code.py. For every labelled bug with a finding that offers a fix, the
file and the file with just this fix are held against each other, in eager mode. Prints what is not
proven and why, then a table by rule. Exits with 1 if fewer than 80 % are proven.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from amp_lint import engine, registry
from amp_lint.edit import edits
from amp_lint.selection import Selection
from amp_lint.text.diagnostic import applicable
from amp_lint.text.source import Source
from amp_lint.verify import ProofSettings, Prover, Verdict
from amp_lint.verify.prover import Change

PROMISED = 0.8
LIMIT = 300.0
"""Seconds for an obligation: the verdicts of a busy machine are those of an idle one."""


@dataclass(frozen=True)
class Site:
    """A labelled bug with a fix."""

    code: str
    place: str
    change: Change


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    found = list(sites(args.labels / "dev.jsonl", args.target))
    with Prover(ProofSettings(modes=("eager",)), limit=LIMIT) as prover:
        proofs = prover.prove_all([site.change for site in found])
    verdicts: Counter[tuple[str, Verdict]] = Counter()
    for site, proof in zip(found, proofs, strict=True):
        verdicts[site.code, proof.verdict] += 1
        if proof.verdict is not Verdict.PROVEN:
            why = proof.counterexample.text if proof.counterexample else "; ".join(proof.reasons)
            print(f"{site.code} {site.place}: {proof.verdict.value}: {why}")
    for code in sorted({site.code for site in found}):
        total = sum(verdicts[code, verdict] for verdict in Verdict)
        print(f"| {code} | {verdicts[code, Verdict.PROVEN]} of {total} |")
    proven = sum(count for (_, verdict), count in verdicts.items() if verdict is Verdict.PROVEN)
    print(f"| all | {proven} of {len(found)} |")
    return 0 if proven >= PROMISED * len(found) else 1


def sites(labels: Path, target: Path) -> Iterator[Site]:
    """The bugs whose finding offers a fix, file by file."""
    selection = Selection(tuple(registry.all_rules()), None, noqa=False)
    for path, spans in sorted(_spans(labels, target).items()):
        source = Source(path.read_bytes(), str(path))
        for finding in engine.check(source, selection, named=True):
            row, _ = source.position(finding.start)
            applied = applicable(finding.fix, unsafe=True)
            if not applied or not any(row in span for span in spans[finding.code]):
                continue
            assert finding.fix is not None
            after, _ = edits.apply(source.text, [finding.fix])
            place = f"{path.relative_to(target)}:{row}"
            yield Site(finding.code, place, Change(source.text, after, str(path), finding.code))


def _spans(labels: Path, target: Path) -> dict[Path, dict[str, list[range]]]:
    """The lines of every bug by file and code."""
    found: dict[Path, dict[str, list[range]]] = defaultdict(lambda: defaultdict(list))
    for line in labels.read_text("utf-8").splitlines():
        label = json.loads(line)
        path = target / label["repo"].replace("/", "__") / label["commit"][:8] / label["path"]
        if label["label"] == "TP" and path.is_file():
            found[path][label["code"]].append(range(label["line"], label["end_line"] + 1))
    return found


if __name__ == "__main__":
    sys.exit(main())
