"""What each operation of torch does with dtypes: measured, see ``benchmarks/operations.py``."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

HOMES = {
    "torch": "", "torch.nn.functional": "", "torch.special": "", "torch.Tensor": "",
    "torch.linalg": "linalg.", "torch.fft": "fft.",
}  # fmt: skip
"""Module -> what its functions are called by in the table."""
DTYPES = {
    "torch.float16": "float16", "torch.half": "float16", "torch.bfloat16": "bfloat16",
    "torch.float32": "float32", "torch.float": "float32", "torch.float64": "float64",
    "torch.double": "float64", "torch.int64": "int64", "torch.long": "int64",
    "torch.int32": "int32", "torch.int": "int32", "torch.int16": "int16", "torch.short": "int16",
    "torch.int8": "int8", "torch.uint8": "uint8", "torch.bool": "bool",
    "torch.complex64": "complex64", "torch.cfloat": "complex64", "torch.complex128": "complex128",
}  # fmt: skip
"""Qualified name -> dtype."""
FLOAT16 = frozenset(name for name, dtype in DTYPES.items() if dtype == "float16")
"""What float16 is called."""
CASTS = {
    "half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64",
    "int": "int32", "long": "int64", "short": "int16", "bool": "bool", "byte": "uint8",
    "char": "int8",
}  # fmt: skip
"""Methods that cast, and what to."""
WHOLE = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64"})
"""Dtypes of which nothing has a gradient."""
ONCE_DIFFERENTIABLE = frozenset(
    {
        "torch.nn.functional.scaled_dot_product_attention",
        "torch.nn.functional.ctc_loss",
        "torch.ctc_loss",
        "torch.nn.CTCLoss",
    }
)
"""What has no second derivative: `derivative for aten::_ctc_loss_backward is not implemented`, as
torch 2.13 says on the CPU, where gradients are differentiated again."""
RANGES = {
    "float16": (-65504.0, 65504.0), "bfloat16": (-3.3895313892515355e38, 3.3895313892515355e38),
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38),
    "float64": (-1.7976931348623157e308, 1.7976931348623157e308),
}  # fmt: skip
"""Dtype -> its least and largest number."""
EXACT = {"float16": 2048, "bfloat16": 256}
"""Up to which number all integers are exact."""
MAKERS = frozenset(
    {"zeros", "ones", "empty", "rand", "randn", "eye", "linspace", "logspace", "hann_window",
     "hamming_window", "blackman_window", "normal", "Tensor"}
)  # fmt: skip
"""Functions that make a tensor of the default dtype."""
INTEGER_MAKERS = frozenset({"randint", "randperm", "tril_indices", "triu_indices"})
TYPED = {
    "FloatTensor": "float32", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "DoubleTensor": "float64", "LongTensor": "int64", "IntTensor": "int32", "BoolTensor": "bool",
    "ByteTensor": "uint8",
}  # fmt: skip
"""Classes that make a tensor of the dtype in their name."""
HOLDERS = frozenset(f"torch.{name}" for name in ("tensor", "as_tensor", "Tensor", *TYPED))
"""What makes a tensor of numbers."""
LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"})
RANDOM = frozenset(
    f"torch.{name}" for name in ("normal", "rand", "rand_like", "randn", "randn_like")
)
"""Functions that make random numbers."""
NEW = frozenset({"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"})
"""Functions and methods that make a tensor of the dtype of another."""
ONES = frozenset({"ones", "ones_like", "new_ones"})
"""Functions and methods that make a tensor of ones."""
PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod", "property", "override", "no_grad",
                              "inference_mode", "enable_grad", "compile", "ignore", "export",
                              "script", "checkpoint", "wraps", "abstractmethod"})  # fmt: skip
"""What decorates a function and leaves autocast as it is."""
PRECISION_WORDS = ("fp16", "fp32", "bf16", "float", "half", "cast", "precision", "dtype", "amp",
                   "fwd", "bwd")  # fmt: skip
"""Words in the names of other decorators that may change the autocast state of a function."""
BOUNDED = frozenset({"tanh", "sigmoid", "softmax", "normalize", "sin", "cos", "erf", "clamp",
                     "clip", "hardtanh", "softsign", "Tanh", "Sigmoid"})  # fmt: skip
"""What gives small numbers."""
SPREADS = frozenset({"var", "std"})
"""Statistics that are 0 of what is constant."""
ROOTS = frozenset({"sqrt", "rsqrt"})
PRODUCTS = frozenset({"matmul", "bmm", "mm", "einsum"})
"""Functions that multiply two tensors; methods too, but for the last."""
MASKINGS = frozenset({"add", "sub", "where", "masked_fill", "masked_fill_"})
"""What is done to scores before their softmax."""
NUMBER_ROOTS = frozenset({"math.sqrt", "numpy.sqrt", "torch.sqrt"})
"""Functions that take the root of a size, or of a tensor that is made of one."""
FUNCTION_METHODS = ("forward", "backward")
"""What a custom autograd Function defines."""
MOVES = frozenset({"cuda", "cpu", "contiguous", "detach", "clone", "requires_grad_", "pin_memory",
                   "unfold", "share_memory_", "to_dense", "item"})  # fmt: skip
"""Methods that change no dtype, and are in no table of operations."""
VIEWS = frozenset(
    {"unsqueeze", "squeeze", "view", "reshape", "expand", "expand_as", "repeat", "flatten",
     "permute", "transpose", "t", "contiguous", "to", "cuda", "clone", "detach", "flip",
     "repeat_interleave", "unflatten"}
) | frozenset(CASTS)  # fmt: skip
"""Methods that leave the numbers as they are, but for rounding."""
ARRANGING = frozenset(
    {"broadcast_tensors", "broadcast_to", "cartesian_prod", "cat", "chunk", "column_stack",
     "concat", "concatenate", "dsplit", "dstack", "hsplit", "hstack", "index_select", "meshgrid",
     "moveaxis", "movedim", "narrow", "ravel", "reshape_as", "roll", "row_stack", "select",
     "split", "stack", "swapaxes", "swapdims", "tensor_split", "tile", "unbind", "view_as",
     "vsplit", "vstack"}
)  # fmt: skip
"""Operations that pick numbers, repeat them or put them side by side, and change none."""
EINOPS_VIEWS = frozenset({"einops.rearrange", "einops.repeat"})
"""Functions of einops that do as much with the tensor that they are given first."""
EINOPS_LAYERS = frozenset({"einops.layers.torch.Rearrange"})
"""Modules that do."""
_OF_OTHERS = {"einops.einsum": "einsum"}
"""Functions of other packages that call one of torch, and what that is called in the table."""
INDEXED_WRITES = {
    "index_copy_": 2, "index_add_": 2, "scatter_": 2, "scatter_add_": 2, "scatter_reduce_": 2,
    "masked_scatter_": 1, "index_put_": 1, "put_": 1,
}  # fmt: skip
"""Methods that write by index, in whose dtype the source has to be, and where they take it."""
INDEXED = frozenset(
    {"gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce",
     "scatter_reduce_", "index_select", "index_add", "index_add_", "index_copy", "index_copy_",
     "index_fill", "index_fill_"}
)  # fmt: skip
"""Methods whose second argument, ``index``, holds whole numbers; functions, too: their third."""
LIKELIHOODS = frozenset({"cross_entropy", "nll_loss", "log_softmax", "kl_div", "logsumexp",
                         "gaussian_nll_loss", "ctc_loss"})  # fmt: skip
"""What computes logarithms of probabilities."""
NORMALIZERS = frozenset({"logsumexp"})
"""Of these what probabilities are made with, and are used as such."""
FILLS = {
    "masked_fill": 1, "masked_fill_": 1, "index_fill": 2, "index_fill_": 2, "fill_": 0,
    "clamp": 0, "clamp_": 0, "clip": 0, "clamp_min": 0, "clamp_max": 0,
}  # fmt: skip
"""Methods that write a number, and where they take it."""
FILLED = {"full_like": 1, "full": 1, "new_full": 1}
"""What makes a tensor of one number, and where it takes that."""
SHRINK, ADD, SUBTRACT, COPY, INTERPOLATE = "mul_", "add_", "sub_", "copy_", "lerp_"
"""Methods that make a moving average in place: the first two together, one of the next two with
what is to be added or taken away, or the last."""
FLOORS = frozenset({"add", "add_", "clamp", "clamp_", "clamp_min", "clamp_min_", "clip"})
"""Methods whose first argument may keep a tensor from being 0."""
UPPER_BOUNDS = {"clamp": 1, "clamp_": 1, "clip": 1, "clamp_max": 0, "clamp_max_": 0}
"""Methods that bound a tensor from above, and where they take that bound."""
TENSOR = frozenset({"torch.Tensor"})
ASKS_FOR_TENSOR = frozenset({"torch.is_tensor"})
VANISHING = 2.0**-25
"""The largest number that rounds to 0 in float16."""
PICKS = frozenset({"max", "min", "sort", "topk", "median", "mode", "kthvalue", "cummax", "cummin",
                   "nanmedian"})  # fmt: skip
"""Operations that give values and where they were."""
INEXACT_BACKWARD = ("linalg", "cdist", "bilinear", "inverse", "cholesky", "svd", "eigh")
"""The words of what has products in its backward that autocast lowers: ``linalg``, ``cdist`` and
``bilinear`` as the page of AMP201 has measured, and torch's own names for some of ``linalg``."""
COMPOSITES = frozenset({"cov", "corrcoef", "linalg.pinv", "pinverse"})
"""Operations that autocast does not list, made of products that it does."""
WINDOWED = frozenset({"stft", "istft"})
"""Operations that promote what they get to the dtype of their window."""
REDUCTIONS = frozenset(
    {"sum", "mean", "prod", "std", "var", "max", "min", "amax", "amin", "norm", "median", "dot",
     "logsumexp", "nansum", "nanmean", "nanmedian", "argmax", "argmin", "dist", "vdot",
     "linalg.norm", "linalg.vector_norm", "linalg.matrix_norm", "trace", "count_nonzero", "any",
     "all"}
)  # fmt: skip
"""Operations that give a tensor without dimensions, if they are not told which to reduce."""
DIMENSIONED = frozenset(
    {"argwhere", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "cat", "diagflat",
     "flatten", "histc", "nonzero", "ravel", "stack", "unique", "unique_consecutive", "unsqueeze"}
)  # fmt: skip
"""Operations that give a tensor with dimensions of one without."""
LEVEL = frozenset({"cosine_similarity", "kron", "l1_loss", "mse_loss", "smooth_l1_loss"})
"""Operations that give their operands one shape before they promote them: one without dimensions
counts as well."""
ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "grad", "real", "values"})
"""Attributes of a tensor that are tensors of its dtype."""
PLANES = frozenset({"imag", "real"})
"""Attributes of a complex tensor that are tensors of real numbers."""
SIZES = frozenset({"shape", "ndim", "device", "is_cuda", "requires_grad", "layout", "itemsize"})
SIZE_METHODS = frozenset({"size", "dim", "numel", "item", "tolist", "get_device", "stride",
                          "nelement", "element_size"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operations:
    """The table, by the names of operations: ``softmax``, ``linalg.inv``, ``fft.fft``."""

    policies: dict[str, dict[str, str]]
    """Device -> operation -> what its autocast does: low, float32, widest."""
    gives: dict[str, str]
    """Operation -> what it gives for float32: ``float``, or a dtype that is no such."""
    follows_first: frozenset[str]
    """Those whose result has the dtype of the first operand, whatever the others are."""
    float_of_integers: frozenset[str]
    no_half: frozenset[str]
    """Those without a kernel for float16 on CUDA, and the Fourier transforms."""
    fewer: frozenset[str]
    """Those whose result may have fewer dimensions than what they get."""
    methods: frozenset[str]
    modules: dict[str, str]
    """Class of torch.nn -> the operation that it applies."""

    def short(self, qualified: str) -> str | None:
        """What a function is called in the table: ``softmax`` for torch.nn.functional.softmax."""
        if qualified in _OF_OTHERS:
            return _OF_OTHERS[qualified]
        home, _, name = qualified.rpartition(".")
        known = HOMES.get(home)
        if known is None or f"{known}{name}" not in self.gives:
            return None
        return f"{known}{name}"

    def is_listed(self, name: str) -> bool:
        """Whether autocast of some device casts what the operation gets."""
        return any(name in policies for policies in self.policies.values())


@functools.cache
def operations() -> Operations:
    """The table as it was measured."""
    import json  # only where a rule asks

    text = Path(__file__).with_name("operations.json").read_text("utf-8")
    data = json.loads(text)

    def each(key: str) -> dict[str, str]:
        return {name: kind for kind, names in data[key].items() for name in names.split()}

    kinds = each("gives")
    fourier = {
        name for name, kind in kinds.items() if name.startswith("fft.") and "shift" not in name
    }
    return Operations(
        policies={"cuda": each("cuda"), "cpu": each("cpu")},
        gives=kinds,
        follows_first=frozenset(each("follows")),
        float_of_integers=frozenset(each("integers")),
        no_half=(frozenset(each("kernels")) | fourier) - {"cdist"},  # of many rows it is a product
        fewer=frozenset(each("shape")),
        methods=frozenset(each("written")),
        modules=data["modules"],
    )
