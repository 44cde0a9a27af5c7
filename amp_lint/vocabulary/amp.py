"""torch's AMP interface: autocast, scalers, and the decorators of autograd functions."""

from __future__ import annotations

from amp_lint.vocabulary.meaning import Kind, Meaning, Parameter, Part, Role

DEFAULT_DTYPES = {"cuda": "float16", "cpu": "bfloat16"}
"""What autocast casts to on a device if it is not told."""

_ENABLED = Parameter("enabled", Part.ENABLED)
_DTYPE = Parameter("dtype", Part.DTYPE)
_CACHE = Parameter("cache_enabled", Part.CACHE)
_DEVICE_TYPE = Parameter("device_type", Part.DEVICE)
_DEVICE = Parameter("device", Part.DEVICE)
_INITIAL_SCALE = Parameter("init_scale", Part.INITIAL_SCALE)
_GROWTH, _BACKOFF = Parameter("growth_factor"), Parameter("backoff_factor")
_INTERVAL = Parameter("growth_interval")
_GROUP = Parameter("process_group")
_OPTIMIZER = Parameter("optimizer", Part.OPTIMIZER)
_OLD_SWITCHES = (_ENABLED, _DTYPE, _CACHE)
_OLD_SCALES = (_INITIAL_SCALE, _GROWTH, _BACKOFF, _INTERVAL, _ENABLED)

AUTOCAST = Meaning(
    names=("torch.amp.autocast", "torch.autocast"),
    parameters=(_DEVICE_TYPE, _DTYPE, _ENABLED, _CACHE),
    gives=Role.REGION,
    since=(1, 10),
)
CUDA_AUTOCAST = Meaning(
    names=("torch.cuda.amp.autocast",), parameters=_OLD_SWITCHES, gives=Role.REGION, device="cuda"
)
CPU_AUTOCAST = Meaning(
    names=("torch.cpu.amp.autocast",), parameters=_OLD_SWITCHES, gives=Role.REGION, device="cpu"
)
DEVICE_AUTOCAST = {name: row.device for row in (CUDA_AUTOCAST, CPU_AUTOCAST) for name in row.names}
"""Qualified name -> the device that its name says."""
GRAD_SCALER = Meaning(
    names=("torch.amp.GradScaler", "torch.GradScaler"),
    parameters=(_DEVICE, *_OLD_SCALES),
    gives=Role.SCALER,
    since=(2, 3),
)
CUDA_GRAD_SCALER = Meaning(
    names=("torch.cuda.amp.GradScaler",), parameters=_OLD_SCALES, gives=Role.SCALER, device="cuda"
)
CPU_GRAD_SCALER = Meaning(
    names=("torch.cpu.amp.GradScaler",), parameters=_OLD_SCALES, gives=Role.SCALER, device="cpu"
)
_SHARDED = (
    Meaning(
        names=("torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",),
        parameters=(_DEVICE, _INITIAL_SCALE, _BACKOFF, _GROWTH, _INTERVAL, _ENABLED, _GROUP),
        gives=Role.SCALER,
    ),
    Meaning(
        names=("fairscale.optim.grad_scaler.ShardedGradScaler",),
        parameters=(*_OLD_SCALES, _GROUP),
        gives=Role.SCALER,
    ),
)

SHARDED = frozenset(name for row in _SHARDED for name in row.names)
"""Scalers of which those of all processes skip a step together."""
STEPPER = Meaning(
    names=("timm.utils.NativeScaler", "timm.utils.cuda.NativeScaler"),
    parameters=(_DEVICE,),
    gives=Role.STEPPER,
)
"""It keeps a scaler, has the state of that for its own, and is called with a loss."""
STEPPER_CALL = Meaning(
    owner=Role.STEPPER,
    parameters=(
        Parameter("loss", Part.LOSS), _OPTIMIZER, Parameter("clip_grad", Part.LIMIT),
        Parameter("clip_mode"), Parameter("parameters"), Parameter("create_graph", Part.GRAPH),
        Parameter("need_update"),
    ),
)  # fmt: skip
"""How it is called; no row, for it has no name: it goes backward, unscales, clips and steps."""

_CUSTOM_DEVICE = Parameter("device_type", Part.DEVICE, by_keyword=True)
_CAST_INPUTS = Parameter("cast_inputs", by_keyword=True)
CUSTOM_FWD = Meaning(
    names=("torch.amp.custom_fwd",),
    parameters=(Parameter("fwd"), _CUSTOM_DEVICE, _CAST_INPUTS),
    since=(2, 4),
)
CUSTOM_BWD = Meaning(
    names=("torch.amp.custom_bwd",), parameters=(Parameter("bwd"), _CUSTOM_DEVICE), since=(2, 4)
)
CUDA_CUSTOM_FWD = Meaning(
    names=("torch.cuda.amp.custom_fwd",),
    parameters=(Parameter("fwd"), _CAST_INPUTS),
    device="cuda",
)
CUDA_CUSTOM_BWD = Meaning(
    names=("torch.cuda.amp.custom_bwd",), parameters=(Parameter("bwd"),), device="cuda"
)

DEPRECATED = {
    CUDA_AUTOCAST: AUTOCAST,
    CPU_AUTOCAST: AUTOCAST,
    CUDA_GRAD_SCALER: GRAD_SCALER,
    CPU_GRAD_SCALER: GRAD_SCALER,
    CUDA_CUSTOM_FWD: CUSTOM_FWD,
    CUDA_CUSTOM_BWD: CUSTOM_BWD,
}
"""What is named after a device -> what replaces it."""
MISNAMED = {
    f"torch.amp.{device}{sign}{row.word}": row
    for row in dict.fromkeys(DEPRECATED.values())
    for device in DEFAULT_DTYPES
    for sign in "._"
}
"""What no torch has -> what is meant, which takes the device as an argument."""

IS_ON = frozenset(
    {"torch.is_autocast_cpu_enabled", "torch.is_autocast_enabled", "torch._C.is_autocast_enabled"}
)
"""Functions that say whether autocast is on."""
_DEVICE_WORDS = {"gpu": "cuda", "cpu": "cpu", "xla": "xla", "ipu": "ipu"}
DEPRECATED_STATE = {
    f"torch.{verb}_autocast_{word}_{what}": (f"torch.{verb}_autocast_{what}", device)
    for verb, what in (("get", "dtype"), ("set", "dtype"), ("is", "enabled"), ("set", "enabled"))
    for word, device in _DEVICE_WORDS.items()
    if (word, what) != ("gpu", "enabled")
}
"""What asks for autocast's state on one device, or sets it -> what replaces it, and the device.

There has never been one that says whether it is on for the GPU: `torch.is_autocast_enabled()`."""
STATE_BY_DEVICE = (2, 4)
"""The torch that brought those for any device."""
STATE_ARGUMENTS = {"torch.is_autocast_enabled": 1, "torch.set_autocast_enabled": 2}
"""Those that were there before, for the GPU alone -> how many arguments they take with a device."""

SCALE = Meaning(
    owner=Role.SCALER,
    methods=("scale",),
    parameters=(Parameter("outputs", Part.LOSS),),
    gives=Role.SCALED_LOSS,
)
GET_SCALE = Meaning(owner=Role.SCALER, methods=("get_scale",), gives=Role.SCALE)
IS_ENABLED = Meaning(owner=Role.SCALER, methods=("is_enabled",))
STATE_DICT = Meaning(owner=Role.SCALER, methods=("state_dict",))
LOAD_STATE_DICT = Meaning(
    owner=Role.SCALER, methods=("load_state_dict",), parameters=(Parameter("state_dict"),)
)
_METHODS = (
    Meaning(
        owner=Role.SCALER,
        methods=("unscale_",),
        unique=True,
        parameters=(_OPTIMIZER,),
        does=(Kind.UNSCALE,),
    ),
    Meaning(owner=Role.SCALER, methods=("step",), parameters=(_OPTIMIZER,), does=(Kind.STEP,)),
    Meaning(
        owner=Role.SCALER,
        methods=("update",),
        parameters=(Parameter("new_scale"),),
        does=(Kind.UPDATE,),
    ),
)

ROWS = (
    *DEPRECATED, *dict.fromkeys(DEPRECATED.values()), *_SHARDED, STEPPER, SCALE, *_METHODS,
    GET_SCALE, IS_ENABLED, STATE_DICT, LOAD_STATE_DICT,
)  # fmt: skip

BY_SCALE, BY_INVERSE = "scale", "1/scale"
"""What gradients are multiplied by, besides numbers."""
SCALE_ATTRIBUTES = frozenset({"_scale", "_get_scale_async"})
"""Private attributes of a scaler that give the scale as well."""
BFLOAT16_FLAGS = frozenset(
    {"bf16", "bfloat16", "use_bf16", "use_bfloat16", "is_bf16", "enable_bf16", "bf16_run"}
)
"""What settings are called that turn bfloat16 on."""
LEFT_IN_BACKWARD = frozenset(
    {"checkpoint_sequential", "custom_bwd", "gradient_checkpointing_enable"}
)
RECOMPUTED = frozenset({"torch.utils.checkpoint.checkpoint"})
"""What enters regions in backward, for a function or for what is computed again there.

The count of regions is each thread's own, and the copies of weights are of all: measured with torch
2.13, a region that is left on another thread drops them."""
REFUSED_IN_STEP = frozenset({"closure"})
"""Keywords for which a scaler's step raises while it is on, whatever they are given."""
STAGES = "_per_optimizer_states"
"""Its private record of which optimizers' gradients are unscaled, or stepped on."""
