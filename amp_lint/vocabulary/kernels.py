"""What torch calls the operations that run below autocast and autograd, without their overloads."""

from __future__ import annotations

CAST = "_to_copy"
SOFTMAX = "_softmax"
LOG_SOFTMAX = "_log_softmax"
LAYER_NORM = "native_layer_norm"
POSITIONS = "arange"
MULTIPLY = "mul"
PICKS = frozenset({"gather", "index", "index_select", "take"})
"""What gives some of the numbers of its argument."""
SUMS = frozenset({"sum", "mean"})
LOGARITHMS = frozenset({"log", "log2", "log10"})
GUARDS = frozenset({"add", "clamp_min", "clamp", "maximum"})
"""What keeps a value from being 0, with an eps."""
GUARDED = frozenset({"reciprocal", "rsqrt", "sqrt"}) | LOGARITHMS
"""What a guard is for; besides a division by it."""
DIVIDE = "div"
FILLS = frozenset(
    {"full", "full_like", "new_full", "fill", "masked_fill", "where", "scalar_tensor", "neg",
     "constant_pad_nd", "index_fill"}
)  # fmt: skip
"""What writes a constant that somebody has chosen."""
MASKS = frozenset({"mul", "add", "sub", "masked_fill", "where"})
"""What brings a constant into a score."""
ADD, INTERPOLATE = "add", "lerp"
EACH = "_foreach_"
"""What the names begin with of operations on lists of tensors."""
UPDATES = frozenset(prefix + name for prefix in ("", EACH) for name in (ADD, MULTIPLY, INTERPOLATE))
"""What, in place, updates a moving average, alone or a product and then a sum."""
OVERWRITES = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_", "exponential_"}
)
"""What writes to a tensor without reading it."""
FRESH = "empty"
"""A part of the names of what makes a tensor that nobody has written yet."""
ALIASES = frozenset({"_unsafe_view", "detach", "alias", "_reshape_alias", "_local_scalar_dense"})
"""What computes nothing, though torch does not call it a view."""
COPIES = frozenset({"", "abs", "clone", "copy", "lift_fresh", "lift_fresh_copy", CAST})
"""What gives numbers as they were put there, as in the state of a metric; "" is none at all. With
``abs`` `isfinite` begins, and what prints a tensor."""
LINEAR = frozenset(
    {"mm", "bmm", "addmm", "baddbmm", "convolution", "convolution_backward", "mul", "div", "sum",
     "_softmax_backward_data", "_log_softmax_backward_data", "threshold_backward",
     "native_layer_norm_backward", "gelu_backward", "sigmoid_backward", "tanh_backward", CAST}
)  # fmt: skip
"""What a gradient goes through in which it may become 0."""
