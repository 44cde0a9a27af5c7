"""``python -m amp_lint``, and the program ``amp-lint``."""

from __future__ import annotations

import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> int:
    """Run amp-lint as a process of its own; the exit code."""
    sys.unraisablehook = _unraisable
    try:
        from amp_lint.run import import_path, streams

        import_path.isolate()
        streams.guard()
        from amp_lint import cli

        code = cli.main()
        if cli.is_lint(sys.argv[1:]):
            _leave(code)
        return code
    except KeyboardInterrupt:
        _interrupted()


def _leave(code: int) -> NoReturn:
    """End at once: nothing is left to be done, and to take trees apart node by node was 1.3 s of
    the 15 that transformers takes.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _unraisable(ignored: sys.UnraisableHookArgs) -> None:
    """Ctrl-C once more, if Python has dropped it.

    So it does where it cannot raise: in what is called when an object is thrown away, such as the
    lock of a module that has just been imported.
    """
    if ignored.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(ignored)
        return
    main = _thread.get_ident()  # Python raises it in no other
    _thread.start_new_thread(_interrupt, (main,))  # raised in here, it would be dropped again


def _interrupt(main: int) -> None:
    import signal

    time.sleep(0.01)
    if hasattr(signal, "pthread_kill"):  # what the main thread is waiting for is interrupted too
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _interrupted() -> NoReturn:
    """Say so and end, at once: what Python does at its end could be interrupted again."""
    try:
        print("interrupted: every file is either as it was or fixed", file=sys.stderr, flush=True)
        sys.stdout.flush()
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
