"""CUDA's autocast policy on a machine without CUDA: which operations run in which dtype.

``torch.autocast("cpu")`` has other operation lists than ``torch.autocast("cuda")``: on the CPU
``exp``, ``softmax``, ``sum`` and ``layer_norm`` stay in float16, on CUDA they run in float32.
`install` registers CUDA's lists (``ATen/autocast_mode.h`` of torch 2.13) as kernels of the CPU's
autocast, so that ``torch.autocast("cpu", torch.float16)`` casts as CUDA would, in eager mode, in
autograd and under ``torch.compile``. It changes the whole process, until `remove`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator

import torch

Kernel = Callable[..., object]
Operation = torch._ops.OpOverload

FLOAT32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p",
    "reciprocal", "rsqrt", "sinh", "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar",
    "softplus", "layer_norm", "native_layer_norm", "rms_norm", "group_norm", "frobenius_norm.dim",
    "nuclear_norm", "nuclear_norm.dim", "cosine_similarity", "dist", "pdist", "renorm",
    "logsumexp", "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d",
    "_upsample_nearest_exact2d", "upsample_nearest3d", "_upsample_nearest_exact3d",
    "upsample_linear1d", "upsample_bilinear2d", "_upsample_bilinear2d_aa", "upsample_trilinear3d",
    "upsample_bicubic2d", "_upsample_bicubic2d_aa",
)  # fmt: skip
"""Run in float32, and not already so by the CPU's own list."""

FLOAT32_OUTPUT = (
    "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum",
    "linalg_vector_norm", "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum",
    "sum.dim_IntList",
)  # fmt: skip
"""Get ``dtype=torch.float32``, unless a dtype is given."""

FLOAT32_NORMS = {"norm.Scalar": "ScalarOpt_dtype", "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype"}
"""Become the overload that takes a dtype, with float32."""

LOW_PRECISION = (
    "_convolution", "convolution", "addmv", "addr", "einsum", "mv", "chain_matmul",
    "linalg_multi_dot", "gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell",
)  # fmt: skip
"""Run in the dtype of the region, and not already so by the CPU's own list."""

WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "index_put", "tensordot",
    "scatter_add",
)  # fmt: skip
"""Run in the widest dtype of their arguments."""

OF_KERNELS = ("trace",)
"""In no list; their kernels call what is (`diagonal().sum()`), which autocast casts there: float32,
measured on CUDA with torch 2.11."""

BANNED = "binary_cross_entropy"
_BAN = """\
torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""

_REPLACING = (
    {"allow_override": True}
    if "allow_override" in inspect.signature(torch.library.Library.impl).parameters
    else {}  # an older torch replaces without being told
)
_libraries: list[torch.library.Library] = []


def install() -> None:
    """Make the CPU's autocast of this process follow CUDA's lists. Does nothing the second time."""
    if _libraries:
        return
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _libraries.append(library)  # what it registers lives as long as it does
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "overriding a previously registered kernel"
        for name, kernel in dict(_kernels()).items():  # what is there twice is the later one
            library.impl(name, kernel, "AutocastCPU", **_REPLACING)  # type: ignore[no-untyped-call]


def remove() -> None:
    """Give the CPU's autocast its own lists again."""
    while _libraries:
        _libraries.pop()._destroy()  # type: ignore[no-untyped-call]


def _kernels() -> Iterator[tuple[str, Kernel]]:
    yield from ((name, _in_float32(_operation(name))) for name in FLOAT32)
    yield from ((name, _to_float32(_operation(name))) for name in FLOAT32_OUTPUT)
    yield from ((name, _norm(name, overload)) for name, overload in FLOAT32_NORMS.items())
    yield from ((name, _in_region_dtype(_operation(name))) for name in LOW_PRECISION)
    yield from ((name, _in_widest(_operation(name))) for name in WIDEST)
    yield from ((name, _unlisted(_operation(name))) for name in _only_on_cpu())
    yield from ((name, _in_float32(_operation(name))) for name in OF_KERNELS)
    yield BANNED, _refuse


def _only_on_cpu() -> list[str]:
    """Operations that the CPU's autocast casts and CUDA's does not know."""
    listed = torch._C._dispatch_get_registrations_for_dispatch_key
    names = set(listed("AutocastCPU")) - set(listed("AutocastCUDA"))
    return sorted(name.removeprefix("aten::") for name in names if name.startswith("aten::"))


def _operation(name: str) -> Operation:
    packet, _, overload = name.partition(".")
    operation: Operation = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return operation


def _without_autocast(operation: Operation, *args: object, **keywords: object) -> object:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        return operation(*args, **keywords)


def _in_float32(operation: Operation) -> Kernel:
    def kernel(*args: object, **keywords: object) -> object:
        return _casted(operation, torch.float32, args, keywords)

    return kernel


def _in_region_dtype(operation: Operation) -> Kernel:
    def kernel(*args: object, **keywords: object) -> object:
        return _casted(operation, torch.get_autocast_dtype("cpu"), args, keywords)

    return kernel


def _in_widest(operation: Operation) -> Kernel:
    def kernel(*args: object, **keywords: object) -> object:
        found = [value.dtype for value in _tensors((args, *keywords.values()))]
        wide = torch.float32 in found
        dtype = torch.float32 if wide else torch.get_autocast_dtype("cpu")
        return _casted(operation, dtype, args, keywords)

    return kernel


def _to_float32(operation: Operation) -> Kernel:
    names = [argument.name for argument in operation._schema.arguments]
    position = names.index("dtype")

    def kernel(*args: object, **keywords: object) -> object:
        given = args[position] if len(args) > position else keywords.get("dtype")
        if given is not None or not _eligible(args[0]):
            return _without_autocast(operation, *args, **keywords)
        keywords["dtype"] = torch.float32
        return _without_autocast(operation, *args[:position], **keywords)

    return kernel


def _norm(name: str, overload: str) -> Kernel:
    operation, with_dtype = _operation(name), getattr(torch.ops.aten.norm, overload)
    names = [argument.name for argument in operation._schema.arguments]
    defaults = {"p": 2, "keepdim": False}

    def kernel(*args: object, **keywords: object) -> object:
        if not _eligible(args[0]):
            return _without_autocast(operation, *args, **keywords)
        given = {**defaults, **dict(zip(names, args, strict=False)), **keywords}
        ordered = [given[name] for name in names]
        return _without_autocast(with_dtype, *ordered, dtype=torch.float32)

    return kernel


def _unlisted(operation: Operation) -> Kernel:
    """The operation as autocast leaves it alone; what it is made of is still cast."""
    if operation.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return lambda *args, **keywords: operation.decompose(*args, **keywords)
    return lambda *args, **keywords: _without_autocast(operation, *args, **keywords)


def _refuse(*args: object, **keywords: object) -> object:
    raise RuntimeError(_BAN)


def _casted(
    operation: Operation,
    dtype: torch.dtype,
    args: tuple[object, ...],
    keywords: dict[str, object],
) -> object:
    given = [_cast(arg, dtype) for arg in args]
    named = {name: _cast(value, dtype) for name, value in keywords.items()}
    return _without_autocast(operation, *given, **named)


def _cast(value: object, dtype: torch.dtype) -> object:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if _eligible(value) else value
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    return value


def _eligible(value: object) -> bool:
    """Whether autocast casts a tensor: floating, and not float64."""
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return False
    return value.is_floating_point() and value.dtype is not torch.float64


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor) and _eligible(value):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
