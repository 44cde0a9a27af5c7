"""The parameters of common functions and layers of torch, in the order of their positions.

As long as they have been what they are: a later version may only add some behind them.
"""

from __future__ import annotations

from amp_lint.vocabulary.table import BY_NAME

_LAYERS = {
    "CELU": ("alpha", "inplace"),
    "Dropout": ("p", "inplace"),
    "Dropout2d": ("p", "inplace"),
    "ELU": ("alpha", "inplace"),
    "Embedding": ("num_embeddings", "embedding_dim", "padding_idx", "max_norm"),
    "EmbeddingBag": ("num_embeddings", "embedding_dim", "max_norm"),
    "GELU": ("approximate",),
    "GroupNorm": ("num_groups", "num_channels", "eps", "affine"),
    "Hardsigmoid": ("inplace",),
    "Hardswish": ("inplace",),
    "Hardtanh": ("min_val", "max_val", "inplace"),
    "LayerNorm": ("normalized_shape", "eps", "elementwise_affine"),
    "LeakyReLU": ("negative_slope", "inplace"),
    "Linear": ("in_features", "out_features", "bias"),
    "LogSoftmax": ("dim",),
    "Mish": ("inplace",),
    "ReLU": ("inplace",),
    "ReLU6": ("inplace",),
    "SELU": ("inplace",),
    "SiLU": ("inplace",),
    "Softmax": ("dim",),
    "Threshold": ("threshold", "value", "inplace"),
}
_OF_ONE = (
    "abs", "exp", "expm1", "log", "log10", "log1p", "log2", "mean", "reciprocal", "rsqrt",
    "sigmoid", "sqrt", "square", "sum", "tanh",
)  # fmt: skip
_OF_TWO = ("add", "div", "matmul", "mul", "sub")
_LOSSES = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "kl_div",
    "l1_loss", "nll_loss", "smooth_l1_loss",
)  # fmt: skip
_FUNCTIONS = {
    **dict.fromkeys(_OF_ONE, ("input",)),
    **dict.fromkeys(_OF_TWO, ("input", "other")),
    "bmm": ("input", "mat2"),
    "cat": ("tensors", "dim"),
    "clamp": ("input", "min", "max"),
    "log_softmax": ("input", "dim"),
    "logsumexp": ("input", "dim", "keepdim"),
    "softmax": ("input", "dim"),
    "stack": ("tensors", "dim"),
}
_FUNCTIONAL = {
    **dict.fromkeys(_LOSSES, ("input", "target")),
    "celu": ("input", "alpha", "inplace"),
    "dropout": ("input", "p", "training", "inplace"),
    "elu": ("input", "alpha", "inplace"),
    "embedding": ("input", "weight", "padding_idx", "max_norm"),
    "embedding_bag": ("input", "weight", "offsets", "max_norm"),
    "gelu": ("input",),
    "hardsigmoid": ("input", "inplace"),
    "hardswish": ("input", "inplace"),
    "hardtanh": ("input", "min_val", "max_val", "inplace"),
    "leaky_relu": ("input", "negative_slope", "inplace"),
    "log_softmax": ("input", "dim"),
    "logsigmoid": ("input",),
    "mish": ("input", "inplace"),
    "mse_loss": ("input", "target"),
    "relu": ("input", "inplace"),
    "relu6": ("input", "inplace"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p"),
    "selu": ("input", "inplace"),
    "sigmoid": ("input",),
    "silu": ("input", "inplace"),
    "softmax": ("input", "dim"),
    "softplus": ("input",),
    "threshold": ("input", "threshold", "value", "inplace"),
}
_ORDERS = {
    **{f"torch.nn.{name}": order for name, order in _LAYERS.items()},
    **{f"torch.{name}": order for name, order in _FUNCTIONS.items()},
    **{f"torch.nn.functional.{name}": order for name, order in _FUNCTIONAL.items()},
}


OF_MODULES = ("input", "target")
"""What the first parameters of the modules of torch.nn are called that compute and lose."""


def order(name: str) -> tuple[str, ...]:
    """The parameters of a function or class by its qualified name; () where they are not known."""
    row = BY_NAME.get(name)
    if row is not None:
        return tuple(each.name for each in row.parameters if not each.by_keyword)
    return _ORDERS.get(name, ())
