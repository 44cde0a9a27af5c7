"""Whether a fix is right, by experiment: in a process of its own, as it takes seconds and torch."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from amp_lint.run.session import CLEAN, FOUND

COMMAND = "amp-lint.prove"
VERDICTS = {CLEAN: "proven", FOUND: "refuted", 3: "another setting"}
"""By the exit code of ``amp-lint verify``; with any other one it says itself what is wrong."""
_ALL = ("hypothesis", "torch")
NEEDED = 'it needs torch and hypothesis: `pip install "amp-lint[verify]"`'
"""What to say where they are not."""


@functools.cache
def is_possible() -> bool:
    """Whether what experiments need is installed."""
    return all(find_spec(name) for name in _ALL)


async def proof(before: str, after: str, tell: Callable[[str], None]) -> tuple[str, str]:
    """What is to be said of a change, in a word or a line, and all that was found out.

    ``tell`` hears how far it is. Nothing is left of it if this is cancelled.
    """
    with tempfile.TemporaryDirectory(prefix="amp-lint-") as folder:
        old, new = Path(folder, "before.py"), Path(folder, "after.py")
        for path, text in ((old, before), (new, after)):
            path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "amp_lint", "verify", "--mode=eager"),
            *("--before", str(old), "--after", str(new)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=Path(sys.executable).anchor,
            start_new_session=True,
        )
        try:
            last, said = await asyncio.gather(_heard(process, tell), _read(process))
            code = await process.wait()
        finally:
            _kill(process)
    said = said.replace(f"{old} -> {new}: ", "")
    return VERDICTS.get(code) or said.partition("\n")[0] or last, said


async def _heard(process: asyncio.subprocess.Process, tell: Callable[[str], None]) -> str:
    """The last line that the process said of itself; ``tell`` hears each."""
    assert process.stderr is not None
    last = ""
    while line := await process.stderr.readline():
        last = line.decode("utf-8", "replace").strip()
        tell(last)
    return last


async def _read(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.read()).decode("utf-8", "replace")


def _kill(process: asyncio.subprocess.Process) -> None:
    """End the process and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()
