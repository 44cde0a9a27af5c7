"""What runs in a worker process: the only place where torch is imported."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pickle
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

from amp_lint.target import Version
from amp_lint.verify.obligations import Comparison, Expression, Object, Obligation, Policy, Step
from amp_lint.verify.proof import Environment, Judgement, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

RECURSION_LIMIT = 20_000
"""Deep terms unpickle and pickle recursively."""
STACK_BYTES = 512 * 2**20
TOO_DEEP = "nests too deeply"

_EXPERIMENTS: dict[type[Obligation], str] = {
    Expression: "levels",
    Object: "objects",
    Step: "steps",
    Policy: "policy",
}


def serve(memory: int) -> None:
    """Answer calls that come through stdin until it is closed.

    A call is a pickled ``(function, args)``; the answer ``(True, result)`` or ``(False, error)``
    with the error in one line. ``memory`` limits the address space, in bytes; 0 means no limit.
    """
    _limit_memory(memory)
    calls, answers = _take_over_streams()
    threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(RECURSION_LIMIT)
    todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_work, args=(todo, answers), daemon=True).start()
    with contextlib.suppress(EOFError):
        while True:
            todo.put(pickle.load(calls))
    os._exit(0)  # nobody is left to work for, so what is under way ends too


def _work(todo: queue.SimpleQueue[Any], answers: BinaryIO) -> None:
    while True:
        function, args = todo.get()
        answers.write(_answer(function, args))
        answers.flush()


def _answer(function: Callable[..., object], args: tuple[object, ...]) -> bytes:
    try:
        return pickle.dumps((True, function(*args)))
    except MemoryError:
        error = "out of memory"
    except RecursionError:
        error = TOO_DEEP
    except Exception as raised:
        first, *_ = str(raised).splitlines() or [""]
        error = f"{type(raised).__name__}: {first}"
    return pickle.dumps((False, error))


def _take_over_streams() -> tuple[BinaryIO, BinaryIO]:
    """Streams for calls and answers, out of reach of what else prints, reads or is started."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return calls, answers


def _limit_memory(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    if memory:
        with contextlib.suppress(ValueError, OSError):  # the limit in force is lower already
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def start_torch(settings: Settings) -> None:
    """Import torch and set it up: one thread, one compiler, CUDA's policy where there is no CUDA.

    Raises:
        ImportError: torch or Hypothesis is not installed.
    """
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    import hypothesis  # noqa: F401
    import torch

    torch.set_num_threads(1)
    if torch.device(settings.device).type == "cpu":
        from amp_lint.verify.experiments import cuda_policy

        cuda_policy.install()


def environment(settings: Settings) -> Environment:
    """Where the experiments run.

    Raises:
        RuntimeError: there is no such device.
    """
    import platform

    import torch

    from amp_lint import __version__

    device = torch.device(settings.device)
    cuda = device.type == "cuda"
    torch.empty(1, device=device)
    return Environment(
        torch=str(torch.__version__),  # plain text, which needs no torch to be unpickled
        python=platform.python_version(),
        device=torch.cuda.get_device_name(device) if cuda else device.type,
        cuda=cuda,
        seed=settings.seed,
        amp_lint=__version__,
    )


def lift(before: str, after: str, name: str) -> Comparison:
    """What has to be shown of the change."""
    from amp_lint.verify.compare import compare

    return compare(before, after, name=name)


@functools.lru_cache(maxsize=16)  # the sites of a file have their old text in common
def findings(text: str, name: str, code: str, target_torch: Version | None) -> list[int]:
    """The lines on which a rule reports something.

    Raises:
        SourceError, AnalysisError: the text cannot be analysed.
    """
    from amp_lint import engine, registry
    from amp_lint.source import Source

    rule = registry.find(code)
    source = Source.of(text, name)
    selection = engine.Selection((rule,) if rule else (), target_torch, noqa=False)
    return [source.position(found.start)[0] for found in engine.check(source, selection)]


def judge(obligation: Obligation, settings: Settings) -> Judgement:
    """Run the experiments for one obligation."""
    module = importlib.import_module(
        f"amp_lint.verify.experiments.{_EXPERIMENTS[type(obligation)]}"
    )
    judgement: Judgement = module.judge(obligation, settings)
    return judgement


def has_cuda() -> bool:
    """Whether torch finds a GPU."""
    import torch

    return torch.cuda.is_available()
