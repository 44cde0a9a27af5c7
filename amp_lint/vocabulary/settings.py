"""What sets and reads the precision of float32 products, and what tells of bfloat16."""

from __future__ import annotations

FP32_PRECISION = "fp32_precision"
"""The attribute by which torch 2.9 and newer sets it, for a backend and kind of operation."""
_MATMUL = "torch.backends.cuda.matmul.allow_tf32"
_CUDNN = "torch.backends.cudnn.allow_tf32"
_GETTER = "torch.get_float32_matmul_precision"
READ_BROKEN_BY = {
    ("torch.backends.cuda.matmul.fp32_precision", "tf32"): frozenset({_MATMUL, _GETTER}),
    ("torch.backends.cudnn.fp32_precision", "tf32"): frozenset({_MATMUL, _GETTER}),
    ("torch.backends.fp32_precision", "tf32"): frozenset({_MATMUL, _GETTER}),
    ("torch.backends.fp32_precision", "ieee"): frozenset({_CUDNN}),
    ("torch.backends.cudnn.rnn.fp32_precision", "ieee"): frozenset({_CUDNN}),
    ("torch.backends.mkldnn.matmul.fp32_precision", "bf16"): frozenset({_GETTER}),
}
"""(What is set, to what) -> what raises when it is read, unless it was set in the old way too.

Measured with torch 2.13."""
OLD_SETTERS = frozenset({_MATMUL, _CUDNN, "torch.set_float32_matmul_precision"})
"""What sets the same in the old way; the last one is called."""
OLD_GETTERS = frozenset({_MATMUL, _CUDNN, _GETTER})
"""What reads it in the old way; the last one is called."""
BF16_CHECK = "torch.cuda.is_bf16_supported"
BF16_EMULATION = "including_emulation"
"""Its parameter, which is on."""
BF16_EMULATION_SINCE = (2, 4)
"""The torch that has it; torch 2.2 says no where bfloat16 is only emulated."""
CAPABILITIES = frozenset({"torch.cuda.get_device_capability", "torch.cuda.get_device_properties"})
"""What tells a GPU's compute capability."""
APEX_AMP, APEX_SCALING = "apex.amp.initialize", "apex.amp.scale_loss"
FP8_AUTOCAST = frozenset(
    {"transformer_engine.pytorch.fp8_autocast", "transformer_engine.pytorch.fp8.fp8_autocast"}
)
FP8_SUCCESSOR = "transformer_engine.pytorch.autocast"
FP8_RENAMES = {"fp8_recipe": "recipe", "fp8_group": "amax_reduction_group"}
"""Keywords that are called otherwise there."""
