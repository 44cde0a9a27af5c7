"""``python -m amp_lint``, and the program ``amp-lint``."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> int:
    """Run amp-lint as a process of its own; the exit code."""
    try:
        from amp_lint.run import import_path, streams

        import_path.isolate()
        streams.guard()
        from amp_lint import cli

        return cli.main()
    except KeyboardInterrupt:
        _interrupted()


def _interrupted() -> NoReturn:
    """Say so and end, at once: what Python does at its end could be interrupted again."""
    try:
        print("interrupted: every file is either as it was or fixed", file=sys.stderr, flush=True)
        sys.stdout.flush()
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
