"""Tiny programs that make torch say what the symptoms of a page say, by the code of its rule."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.cpu.amp.autocast_mode import autocast as cpu_autocast
from torch.cpu.amp.grad_scaler import GradScaler as CpuScaler

Program: TypeAlias = Callable[[], object]

CUDA_ONLY = frozenset(
    {
        "RuntimeError: cuFFT only supports dimensions whose sizes are powers of two when computing "
        "in half precision, but got a signal size of...",
        'NotImplementedError: "_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for '
        "'BFloat16'",
    }
)
"""What only a GPU can say, so that nothing here does."""
FRAMEWORKS_ONLY = frozenset(
    {
        "RuntimeError: The current strategy and precision selection requires you to call "
        "`fabric.backward(loss)` instead of `loss.backward()`.",
        "ValueError: Unknown mixed_precision mode: fp32. Choose between ['no', 'fp8', 'fp16', "
        "'bf16']",
        "ValueError: At most one of fp16 and bf16 can be True, but not both",
    }
)
"""What a framework says, and not torch."""
SINCE_3_11 = frozenset({"TypeError: 'type' object does not support the context manager protocol"})
"""What Python 3.10 says in other words."""


def said(program: Program) -> Iterator[str]:
    """The warnings and the error of a program, as Python prints them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error = _error(program)
    yield from (f"{each.category.__name__}: {each.message}" for each in caught)
    if error is not None:
        yield f"{type(error).__name__}: {error}"


def _error(program: Program) -> Exception | None:
    try:
        program()
    except Exception as error:
        return error
    return None


class Step:
    """One weight, an optimizer and a scaler."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.weight = nn.Parameter(torch.ones(1, dtype=dtype))
        self.optimizer = torch.optim.SGD([self.weight], lr=1.0)
        self.scaler = torch.amp.GradScaler("cpu")

    def backward(self, factor: float = 1.0) -> None:
        loss = (self.weight * factor).float().sum()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def unscale(self) -> None:
        self.scaler.unscale_(self.optimizer)

    def step(self) -> None:
        self.scaler.step(self.optimizer)

    def update(self) -> None:
        self.scaler.update()


def unscaled_twice() -> None:
    s = Step()
    s.backward()
    s.unscale()
    s.unscale()


def never_scaled() -> None:
    s = Step()
    s.weight.sum().backward()  # type: ignore[no-untyped-call]
    s.unscale()


def unscaled_after_step() -> None:
    s = Step()
    s.backward()
    s.step()
    s.unscale()


def stepped_directly() -> None:
    s = Step()
    s.backward()
    s.optimizer.step()
    s.update()


def never_updated() -> None:
    s = Step()
    for _ in range(2):
        s.backward()
        s.step()


def given_up() -> None:
    s = Step()
    for _ in range(2):
        s.backward()
        s.unscale()


def unscaled_and_never_updated() -> None:
    s = Step()
    for _ in range(2):
        s.backward()
        s.unscale()
        s.step()


def updated_twice() -> None:
    s = Step()
    s.backward()
    s.step()
    s.update()
    s.update()


def updated_early() -> None:
    s = Step()
    for _ in range(2):
        s.backward()
        s.unscale()
        s.update()
        s.step()


def backward_unscaled() -> None:
    s = Step()
    s.weight.sum().backward()  # type: ignore[no-untyped-call]
    s.step()


def stepped_by_another() -> None:
    one, other = Step(), Step()
    one.backward()
    other.scaler.step(one.optimizer)


def scheduled_after_skip() -> None:
    s = Step()
    scheduler = torch.optim.lr_scheduler.StepLR(s.optimizer, 1)
    s.backward(float("inf"))
    s.step()
    scheduler.step()


def clipped_strictly() -> None:
    s = Step()
    s.backward(float("inf"))
    nn.utils.clip_grad_norm_([s.weight], 1.0, error_if_nonfinite=True)


def overflow_in_anomaly_mode() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 1))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = (net(torch.randn(32, 64)) - torch.randn(32, 1) * 1000).square().mean()
    with torch.autograd.detect_anomaly():
        torch.amp.GradScaler("cpu").scale(loss).backward()


def missing_scale() -> object:
    return torch.amp.GradScaler("cpu", enabled=False)._scale


def no_scale_yet() -> object:
    scale = torch.amp.GradScaler("cpu")._scale
    return scale.item()  # type: ignore[union-attr]


def method_for_dict() -> object:
    return torch.amp.GradScaler("cpu")._found_inf_per_device.values()  # type: ignore[attr-defined]


def scale_set_to_a_number() -> None:
    s = Step()
    setattr(s.scaler, "_scale", 1024.0)  # noqa: B010  (its type is another)
    s.backward()


def scale_set_early() -> None:
    s = Step()
    s.scaler._scale = torch.tensor(4.0)
    s.backward()
    s.step()


def half_step() -> None:
    s = Step(torch.float16)
    s.backward()
    s.step()


def bce_on_cuda() -> None:
    """CUDA's dispatch, without a GPU and without numbers."""
    with FakeTensorMode():
        x = torch.empty(2, device="cuda")
        torch.set_autocast_enabled("cuda", True)
        try:
            F.binary_cross_entropy(x, x)
        finally:
            torch.set_autocast_enabled("cuda", False)


def enter(make: Callable[..., Any], *arguments: object, **named: object) -> Program:
    """A program that enters a region."""

    def program() -> None:
        with make(*arguments, **named):
            pass

    return program


def call(function: Callable[..., Any], *arguments: object, **named: object) -> Program:
    """A program that is one call."""
    return lambda: function(*arguments, **named)


def scaler_on_a_device() -> None:
    CpuScaler("cpu").scale(torch.ones(1))  # type: ignore[arg-type]


def class_entered() -> None:
    with torch.autocast:  # type: ignore[attr-defined]
        pass


def old_decorator() -> None:
    cpu_autocast(_identity)(torch.ones(1))  # type: ignore[arg-type]


def _identity(x: torch.Tensor) -> torch.Tensor:
    return x


def no_gradients() -> None:
    s = Step()
    s.scaler.scale(torch.ones(1))
    s.step()


def updated_unscaled() -> None:
    s = Step()
    s.weight.sum().backward()  # type: ignore[no-untyped-call]
    s.optimizer.step()
    s.update()


def stepped_with_closure() -> None:
    s = Step()
    s.backward()
    s.scaler.step(s.optimizer, closure=_identity)


def reading(old: Callable[[], object]) -> Program:
    """Read in the old way what was set in the new one."""

    def program() -> None:
        matmul = torch.backends.cuda.matmul
        before = matmul.fp32_precision
        matmul.fp32_precision = "tf32"
        try:
            old()
        finally:
            matmul.fp32_precision = before

    return program


def traced() -> None:
    with torch.autocast("cpu"):
        torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))  # type: ignore[no-untyped-call]


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(w)
        return x @ w

    @staticmethod
    def backward(ctx: BackwardCFunction, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (w,) = ctx.saved_tensors
        return gradient @ w.t(), None


def gone_backward() -> None:
    with torch.autocast("cpu"):
        y = Product.apply(_float(2, 2).requires_grad_(), _float(2, 2))  # type: ignore[no-untyped-call]
    y.sum().backward()


def _float(*size: int) -> torch.Tensor:
    return torch.ones(*size)


def _half(*size: int) -> torch.Tensor:
    return torch.ones(*size, dtype=torch.float16)


INDEX, MASK = torch.tensor([0]), torch.tensor([True])

PROGRAMS: dict[str, tuple[Program, ...]] = {
    "AMP103": (unscaled_twice, unscaled_after_step),
    "AMP104": (stepped_directly,),
    "AMP105": (never_updated, given_up, unscaled_and_never_updated),
    "AMP106": (updated_twice, updated_early),
    "AMP107": (backward_unscaled,),
    "AMP112": (scheduled_after_skip,),
    "AMP113": (clipped_strictly, overflow_in_anomaly_mode),
    "AMP114": (stepped_by_another,),
    "AMP115": (
        missing_scale,
        no_scale_yet,
        method_for_dict,
        scale_set_to_a_number,
        scale_set_early,
    ),
    "AMP211": (gone_backward,),
    "AMP203": (
        half_step,
        lambda: nn.Linear(2, 2).half()(_float(1, 2)),
        lambda: nn.Conv2d(1, 1, 1).half()(_float(1, 1, 2, 2)),
    ),
    "AMP204": (bce_on_cuda,),
    "AMP206": (
        call(torch.autocast),
        call(torch.autocast, device="cuda"),
        call(torch.cuda.amp.autocast, device_type="cuda"),
        call(torch.cuda.amp.GradScaler, device="cuda"),
        enter(torch.autocast, "cpu", False),
        enter(torch.autocast, "cpu", dtype="bfloat16"),
        enter(cpu_autocast, torch.bfloat16),
        scaler_on_a_device,
        call(torch.autocast, True),
        call(torch.autocast, torch.device("cpu")),
        call(torch.autocast, "cpu", dtype=torch.float32),
        lambda: torch.amp.cuda,  # type: ignore[attr-defined]
        lambda: importlib.import_module("torch.amp.cuda"),
        stepped_with_closure,
    ),
    "AMP207": (
        *((class_entered,) if sys.version_info >= (3, 11) else ()),
        call(torch.autocast, _identity),
        old_decorator,
    ),
    "AMP401": (
        call(torch.cuda.amp.autocast),
        call(torch.cuda.amp.GradScaler),
        call(torch.cuda.amp.custom_fwd, _identity),
        call(torch.cuda.amp.custom_bwd, _identity),
        call(cpu_autocast),
        call(CpuScaler),
    ),
    "AMP402": (
        call(torch.get_autocast_gpu_dtype),
        call(torch.is_autocast_cpu_enabled),
        call(torch.set_autocast_gpu_dtype, torch.float16),
        lambda: torch.is_autocast_xpu_enabled(),  # type: ignore[attr-defined]
    ),
    "AMP403": (
        reading(lambda: torch.backends.cuda.matmul.allow_tf32),
        reading(torch.get_float32_matmul_precision),
    ),
    "AMP501": (never_scaled, backward_unscaled),
    "AMP503": (given_up,),
    "AMP504": (half_step,),
}
"""Each makes one message of its rule's page."""

UNCOVERED: tuple[Program, ...] = (
    lambda: torch.bmm(_half(1, 2, 2), _float(1, 2, 2)),
    lambda: _half(2, 2) @ _float(2, 2),
    lambda: nn.Linear(2, 2)(_half(1, 2)),
    lambda: nn.Conv2d(1, 1, 1)(_half(1, 1, 2, 2)),
    lambda: _half(2, 2) @ _float(2),
    lambda: torch.dot(_half(2), _float(2)),
    lambda: F.scaled_dot_product_attention(_half(1, 2, 2), _float(1, 2, 2), _float(1, 2, 2)),
    lambda: F.binary_cross_entropy(_half(2), _float(2)),
    lambda: nn.LayerNorm(2).half()(_float(2)),
    lambda: nn.LSTM(2, 2)(_half(1, 1, 2)),
    lambda: _float(1).__setitem__(INDEX, _half(1)),
    lambda: _float(1).index_add_(0, INDEX, _half(1)),
    lambda: _float(1).index_copy_(0, INDEX, _half(1)),
    lambda: _float(1).scatter_(0, INDEX, _half(1)),
    lambda: _float(1).masked_scatter_(MASK, _half(1)),
    lambda: _half(1).masked_fill_(MASK, -1e9),
    lambda: torch.linalg.det(_half(2, 2)),
    lambda: torch.linalg.qr(_float(2, 2).bfloat16()),
    lambda: torch.linalg.inv(_half(2, 2)),
    lambda: torch.quantile(_half(2), 0.5),
    lambda: torch.fft.fft(_half(3)),
    lambda: torch.stft(_half(100), 16, return_complex=True),
    lambda: _float(1).bfloat16().numpy(),
    no_gradients,
    updated_unscaled,
    lambda: torch.amp.GradScaler("cpu").load_state_dict({}),
    call(torch.amp.GradScaler, device_type="cuda"),
    call(torch.amp.custom_fwd, _identity),
    call(torch.autocast, "cuda"),
    call(torch.amp.GradScaler, "cuda"),
    traced,
)
"""Each makes one message that no rule is about."""
