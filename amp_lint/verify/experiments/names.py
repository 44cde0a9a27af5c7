"""The operations that the verifier runs, by name. All compute a value and do nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


NAMESPACES = frozenset(
    {"torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.Tensor"}
)

_POINTWISE = """
abs absolute acos acosh add addcdiv addcmul arccos arcsin arctan arctan2 asin asinh atan atan2
atanh ceil celu clamp clamp_max clamp_min clip cos cosh deg2rad div divide elu entr eq erf erfc
erfcx erfinv exp exp2 expit expm1 fmax fmin fmod floor floor_divide frac ge gelu glu greater
greater_equal gt hardshrink hardsigmoid hardswish hardtanh hypot isfinite isinf isnan ldexp le
leaky_relu lerp less less_equal lgamma log log10 log1p log2 log_ndtr logaddexp logaddexp2
logical_and logical_not logical_or logical_xor logit logsigmoid lt maximum minimum mish mul
multiply nan_to_num ndtr ne neg negative not_equal pow positive prelu rad2deg reciprocal relu relu6
remainder round rsqrt selu sigmoid sign sgn silu sin sinc sinh softplus softshrink softsign sqrt
square sub subtract tan tanh tanhshrink threshold true_divide trunc where xlog1py xlogy
"""
_REDUCTIONS = """
all amax amin any argmax argmin argsort cummax cummin cumprod cumsum diff logcumsumexp logsumexp
max mean median min nanmean nanquantile nansum norm normalize prod quantile softmax
softmin log_softmax sort std sum topk trace
var var_mean std_mean vector_norm matrix_norm cosine_similarity pairwise_distance
layer_norm group_norm rms_norm instance_norm
"""
_SHAPES = """
broadcast_to cat chunk clone concat concatenate detach diag diag_embed diagonal expand expand_as
flatten flip gather hstack index_select masked_fill masked_select moveaxis movedim narrow permute
ravel repeat repeat_interleave reshape roll rot90 scatter select split squeeze stack swapaxes
swapdims t take take_along_dim tile transpose tril triu unbind unflatten unfold
unsqueeze vstack pad one_hot numel zeros ones full arange eye linspace zeros_like ones_like
full_like new_zeros new_ones new_full interpolate is_floating_point finfo
"""
_PRODUCTS = """
addbmm addmm addmv addr baddbmm bmm bilinear cdist chain_matmul cholesky cholesky_solve cross
det dot einsum eigh eigvalsh ger inner inv inverse kron linear logdet lstsq lu_factor matmul
matrix_exp matrix_power mm multi_dot mv outer pdist pinv qr scaled_dot_product_attention slogdet
solve solve_triangular svd svdvals tensordot vdot vecdot
avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d conv1d conv2d adaptive_avg_pool1d
adaptive_avg_pool2d
"""
_LOSSES = """
binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy
gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss
multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss
smooth_l1_loss soft_margin_loss triplet_margin_loss
"""
FUNCTIONS = words(f"{_POINTWISE}{_REDUCTIONS}{_SHAPES}{_PRODUCTS}{_LOSSES}")
CASTS = words("to type float half double bfloat16 long int bool cpu cuda type_as")
METHODS = CASTS | words("contiguous dim size view view_as reshape_as")
OPERATORS = words(
    """add sub mul truediv floordiv mod pow matmul neg pos invert not_ lt le gt ge eq ne and_ or_
    xor getitem"""
)
ATTRIBUTES = words(
    """T mT H mH shape dtype device ndim data real values indices eps tiny min max
    smallest_normal"""
)
MODULES = words(
    """Softmax LogSoftmax Softmin Softmax2d Sigmoid LogSigmoid Softplus Softsign Tanh ReLU ReLU6
    GELU SiLU ELU CELU SELU Mish Hardtanh Hardsigmoid Hardswish LeakyReLU Tanhshrink Threshold
    GLU Identity Flatten Unflatten CosineSimilarity PairwiseDistance LayerNorm GroupNorm
    RMSNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d AvgPool1d AvgPool2d
    Sequential CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss KLDivLoss MSELoss L1Loss
    SmoothL1Loss HuberLoss PoissonNLLLoss GaussianNLLLoss HingeEmbeddingLoss SoftMarginLoss
    CosineEmbeddingLoss MarginRankingLoss TripletMarginLoss MultiMarginLoss"""
)
MODULE_METHODS = words("half float double bfloat16 to eval train cpu cuda")
DTYPES = {
    f"torch.{name}": name
    for name in sorted(
        words(
            """float16 half bfloat16 float32 float float64 double int8 int16 int32 int int64 long
            uint8 bool"""
        )
    )
}
CONSTANTS: dict[str, Any] = {
    "math.pi": math.pi,
    "math.e": math.e,
    "math.inf": math.inf,
    "torch.pi": math.pi,
    "torch.e": math.e,
    "torch.inf": math.inf,
}
BUILTINS: dict[str, Callable[..., Any]] = {
    "float": float,
    "int": int,
    "abs": abs,
    "len": len,
    "math.sqrt": math.sqrt,
    "math.log": math.log,
    "math.exp": math.exp,
    "math.log2": math.log2,
    "torch.finfo": torch.finfo,
    "torch.Size": torch.Size,
}
SIZED = words(
    """expand repeat repeat_interleave tile broadcast_to zeros ones full arange eye linspace
    new_zeros new_ones new_full pad one_hot interpolate unfold diag diag_embed conv1d conv2d
    avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d adaptive_avg_pool1d
    adaptive_avg_pool2d"""
)
"""Operations that make a result as large as their numbers say."""
OUTER = words(
    """outer ger einsum cdist pdist kron tensordot inner bilinear diag diag_embed conv1d conv2d
    matmul mm bmm multi_dot chain_matmul linear addmm addr"""
)
"""Operations whose result can be larger than its arguments broadcast together."""
PRODUCTS = OUTER - words("cdist diag diag_embed pdist")
"""Those that multiply."""
MOVES = words(
    """gather index_select select take_along_dim narrow getitem squeeze unsqueeze view reshape
    transpose permute flatten contiguous diagonal diag t expand detach T mT chunk split clone
    unbind stack cat masked_fill where"""
)
"""Operations that round nothing."""
ASSERTING = words(
    """binary_cross_entropy BCELoss nll_loss NLLLoss cross_entropy CrossEntropyLoss
    multi_margin_loss MultiMarginLoss multilabel_margin_loss gather scatter index_select take
    take_along_dim getitem one_hot"""
)
"""Operations whose kernels assert on CUDA what those of the CPU raise errors of: after a failed
assertion the device does nothing more for the process (`CUDA_KERNEL_ASSERT` in torch's kernels)."""
FUSED = words("scaled_dot_product_attention")
"""Operations that round many times inside."""
COMPOSED = words(
    """BCEWithLogitsLoss CrossEntropyLoss PoissonNLLLoss binary_cross_entropy_with_logits
    cross_entropy poisson_nll_loss"""
)
"""Losses that are several operations of torch: of an input in float16 and a target in float32 they
give a result in float32, and round to float16 inside."""
HAZARDS = words("exp exp2 expm1 sinh cosh pow square sigmoid reciprocal rsqrt")
"""Operations that overflow because of how code is written, not because its inputs are large."""
COMPARING = words(
    """eq ne lt le gt ge equal not_equal less less_equal greater greater_equal is_ is_not"""
)
"""Operations that give flags of numbers."""
BOUNDING = words(
    """clamp clip clamp_min clamp_max mod remainder fmod floordiv floor_divide maximum minimum fmax
    fmin hardtanh threshold"""
)
"""Operations that do something else with numbers beyond a bound."""
SHAPING = words(
    """view reshape flatten unflatten ravel squeeze unsqueeze view_as reshape_as expand expand_as
    broadcast_to"""
)
"""Operations that give other axes."""
ARITHMETIC = (
    CASTS
    | MOVES
    | COMPARING
    | BOUNDING
    | words(
        """add sub mul truediv div multiply divide true_divide subtract pow square neg negative pos
        abs absolute sign sum prod cumsum cumprod max min amax amin any all lerp addcmul sort"""
    )
)
"""Operations on numbers of any dtype, integers as well."""
