"""What workers are asked to do: the only place where torch is imported."""

from __future__ import annotations

import functools
import importlib
import os
import sys

from amp_lint.run.target import Version
from amp_lint.verify.obligations import (
    Cast,
    Comparison,
    Expression,
    Import,
    Object,
    Obligation,
    Policy,
    State,
    Step,
)
from amp_lint.verify.proof import Environment, Judgement, ProofSettings

_EXPERIMENTS: dict[type[Obligation], str] = {
    Expression: "expressions.levels",
    Object: "objects",
    Step: "training.steps",
    Policy: "policy",
    Import: "imported",
    State: "training.state",
    Cast: "casts",
}


_STOPPED = 70
"""Exit code of a process whose device has stopped."""


def start_torch(settings: ProofSettings) -> None:
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


def environment(settings: ProofSettings) -> Environment:
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


Findings = tuple[list[int], list[int]] | str
"""The lines on which a rule reports something before and after; or why that is not known."""


def lift(
    before: str, after: str, name: str, code: str | None, target_torch: Version | None
) -> tuple[Comparison, Findings]:
    """What has to be shown of the change, and of which findings of a rule it is rid."""
    from amp_lint.engine import AnalysisError
    from amp_lint.text.source import SourceError
    from amp_lint.verify.compare import compare

    comparison = compare(before, after, name=name)
    if code is None:
        return comparison, ""
    try:
        old, new = (findings(text, name, code, target_torch) for text in (before, after))
    except (SourceError, AnalysisError, RecursionError) as error:
        return comparison, f"the text could not be linted: {error}"
    return comparison, (old, new)


@functools.lru_cache(maxsize=16)  # the sites of a file have their old text in common
def findings(text: str, name: str, code: str, target_torch: Version | None) -> list[int]:
    """The lines on which a rule reports something.

    Raises:
        SourceError, AnalysisError: the text cannot be analysed.
    """
    from amp_lint import engine, registry
    from amp_lint.selection import Selection
    from amp_lint.text.source import Source
    from amp_lint.verify.compare import known_model

    rule = registry.find(code)
    source = Source.of(text, name)
    selection = Selection((rule,) if rule else (), target_torch, noqa=False, preview=True)
    model = known_model(text, name)
    found = engine.check(source, selection, model=model)
    return [source.position(each.start)[0] for each in found]


def judge(obligation: Obligation, settings: ProofSettings) -> Judgement:
    """Run the experiments for one obligation."""
    module = importlib.import_module(
        f"amp_lint.verify.experiments.{_EXPERIMENTS[type(obligation)]}"
    )
    try:
        judgement: Judgement = module.judge(obligation, settings)
    finally:  # it most often raises then
        _end_if_stopped(settings.device)
    return judgement


def _end_if_stopped(device: str) -> None:
    """End this process where the device does nothing more for it: what it has shown is void.

    That is so after a kernel's assertion failed, which any result may have come after.
    """
    import torch

    if torch.device(device).type != "cuda":
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        text = (str(error).splitlines() or ["the device stopped"])[0]
        print(text, file=sys.stderr, flush=True)
        os._exit(_STOPPED)


def has_cuda() -> bool:
    """Whether torch finds a GPU."""
    import torch

    return torch.cuda.is_available()
