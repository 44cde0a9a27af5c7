"""The parameters of common functions and layers of torch, in the order of their positions.

As long as they have been what they are: a later version may only add some behind them.
"""

from __future__ import annotations

from amp_lint.vocabulary.table import BY_NAME

_LAYERS = {
    "Dropout": ("p", "inplace"),
    "Dropout2d": ("p", "inplace"),
    "GELU": ("approximate",),
    "GroupNorm": ("num_groups", "num_channels", "eps", "affine"),
    "LayerNorm": ("normalized_shape", "eps", "elementwise_affine"),
    "LeakyReLU": ("negative_slope", "inplace"),
    "Linear": ("in_features", "out_features", "bias"),
    "LogSoftmax": ("dim",),
    "ReLU": ("inplace",),
    "Softmax": ("dim",),
}
_FUNCTIONS = {
    "cat": ("tensors", "dim"),
    "clamp": ("input", "min", "max"),
    "log_softmax": ("input", "dim"),
    "logsumexp": ("input", "dim", "keepdim"),
    "softmax": ("input", "dim"),
    "stack": ("tensors", "dim"),
}
_FUNCTIONAL = {
    "dropout": ("input", "p", "training", "inplace"),
    "gelu": ("input",),
    "mse_loss": ("input", "target"),
    "relu": ("input", "inplace"),
}
_ORDERS = {
    **{f"torch.nn.{name}": order for name, order in _LAYERS.items()},
    **{f"torch.{name}": order for name, order in _FUNCTIONS.items()},
    **{f"torch.nn.functional.{name}": order for name, order in _FUNCTIONAL.items()},
}


def order(name: str) -> tuple[str, ...]:
    """The parameters of a function or class by its qualified name; () where they are not known."""
    row = BY_NAME.get(name)
    if row is not None:
        return tuple(each.name for each in row.parameters if not each.by_keyword)
    return _ORDERS.get(name, ())
