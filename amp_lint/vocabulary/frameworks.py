"""Frameworks that scale losses, open regions or take steps themselves."""

from __future__ import annotations

from amp_lint.vocabulary.meaning import Kind, Meaning, Parameter, Part, Role

_ACCELERATOR, _FABRIC = "accelerator", "fabric"

_ENABLED = Parameter("enabled", Part.ENABLED)
_LOSS = Parameter("loss", Part.LOSS)
_PARAMETERS, _NORM_TYPE = Parameter("parameters"), Parameter("norm_type", Part.NORM_TYPE)
_MAX_NORM = Parameter("max_norm", Part.LIMIT)
_CLIP_VALUE = Parameter("clip_value", Part.LIMIT)

ACCELERATE = (
    Meaning(
        names=("accelerate.Accelerator", "accelerate.accelerator.Accelerator"),
        gives=Role.ACCELERATOR,
    ),
    Meaning(
        names=("accelerate.utils.AutocastKwargs", "accelerate.AutocastKwargs"),
        parameters=(_ENABLED, Parameter("cache_enabled", Part.CACHE)),
    ),
    Meaning(
        owner=Role.ACCELERATOR,
        called=_ACCELERATOR,
        methods=("backward",),
        parameters=(_LOSS,),
        does=(Kind.BACKWARD,),
    ),
    Meaning(
        owner=Role.ACCELERATOR,
        called=_ACCELERATOR,
        methods=("autocast",),
        parameters=(Parameter("autocast_handler", Part.ENABLED),),
        gives=Role.REGION,
    ),
    Meaning(owner=Role.ACCELERATOR, called=_ACCELERATOR, methods=("accumulate",)),
    Meaning(
        owner=Role.ACCELERATOR,
        called=_ACCELERATOR,
        methods=("prepare", "prepare_optimizer"),
        gives=Role.PREPARED,
    ),
    Meaning(
        owner=Role.ACCELERATOR,
        called=_ACCELERATOR,
        methods=("clip_grad_norm_",),
        parameters=(_PARAMETERS, _MAX_NORM, _NORM_TYPE),
        does=(Kind.UNSCALE, Kind.CLIP),
        every=True,
    ),
    Meaning(
        owner=Role.ACCELERATOR,
        called=_ACCELERATOR,
        methods=("clip_grad_value_",),
        parameters=(_PARAMETERS, _CLIP_VALUE),
        does=(Kind.UNSCALE, Kind.CLIP),
        every=True,
    ),
    Meaning(
        owner=Role.ACCELERATOR,
        called=_ACCELERATOR,
        methods=("unscale_gradients",),
        parameters=(Parameter("optimizer", Part.OPTIMIZER),),
        does=(Kind.UNSCALE,),
        every=True,
    ),
)
"""Its own scaler, on with fp16 alone, scales the loss, after a division by the number of rounds
that are accumulated; a prepared optimizer steps by it and updates it. Within ``accumulate`` a step
is taken in the last round only, and the others do nothing."""
FABRIC = (
    Meaning(
        names=(
            "lightning.Fabric",
            "lightning.fabric.Fabric",
            "lightning_fabric.Fabric",
        ),
        gives=Role.FABRIC,
    ),
    Meaning(
        owner=Role.FABRIC,
        called=_FABRIC,
        methods=("backward",),
        parameters=(Parameter("tensor", Part.LOSS),),
        does=(Kind.BACKWARD,),
    ),
    Meaning(owner=Role.FABRIC, called=_FABRIC, methods=("autocast",), gives=Role.REGION),
    Meaning(owner=Role.FABRIC, called=_FABRIC, methods=("clip_gradients",)),
    Meaning(
        owner=Role.FABRIC,
        called=_FABRIC,
        methods=("setup", "setup_optimizers"),
        gives=Role.PREPARED,
    ),
)
_OTHERS = (
    Meaning(owner=Role.LIGHTNING, methods=("manual_backward",), parameters=(_LOSS,)),
    Meaning(owner=Role.ENGINE, methods=("backward",), parameters=(_LOSS,)),
    Meaning(owner=Role.ENGINE, methods=("step",)),
    Meaning(
        names=("apex.amp.scale_loss",),
        parameters=(_LOSS, Parameter("optimizers", Part.OPTIMIZER)),
        gives=Role.SCALED_LOSS,
    ),
)
"""They scale, unscale and step by themselves: these calls are no events, whoever is their owner."""

ROWS = (*ACCELERATE, *FABRIC, *_OTHERS)

OWNING_THE_STEP = frozenset(
    {
        "accelerate", "apex", "catalyst", "colossalai", "composer", "deepspeed", "fairscale",
        "fairseq", "fastai", "ignite", "lightning", "lightning_fabric", "megatron", "mmcv",
        "mmengine", "pytorch_lightning", "speechbrain", "torch_xla",
    }
)  # fmt: skip
"""Packages that may scale a loss where the file does not say so."""
KEEPING_MASTER_WEIGHTS = (
    r"fp16_?optim|float16optim|half_?precision_?optim|apex|\bamp\.initialize|deepspeed\.initialize"
    r"|fullysharded|\bfsdp|fully_shard|master_?(param|weight)|colossal|megatron"
)
"""In names, whatever their case: what keeps float32 copies of float16 parameters."""
NOT_TORCH = frozenset({"jittor", "mindspore", "oneflow", "paddle", "tensorflow"})
"""Packages whose GradScaler has its own rules."""
