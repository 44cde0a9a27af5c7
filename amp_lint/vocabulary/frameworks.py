"""Frameworks that scale losses, open regions or take steps themselves."""

from __future__ import annotations

from amp_lint.vocabulary.meaning import Kind, Meaning, Parameter, Part, Role

_ACCELERATOR, _FABRIC = "accelerator", "fabric"

_ENABLED = Parameter("enabled", Part.ENABLED)
_LOSS = Parameter("loss", Part.LOSS)
_PARAMETERS, _NORM_TYPE = Parameter("parameters"), Parameter("norm_type", Part.NORM_TYPE)
_MAX_NORM = Parameter("max_norm", Part.LIMIT)
_ACCELERATOR_OPTIONS = (
    Parameter("device_placement"),
    Parameter("split_batches"),
    Parameter("mixed_precision", Part.PRECISION),
    Parameter("gradient_accumulation_steps", Part.ROUNDS),
    Parameter("gradient_accumulation_plugin", Part.ACCUMULATION, by_keyword=True),
)
_FABRIC_OPTIONS = (
    Parameter("accelerator"),
    Parameter("strategy"),
    Parameter("devices"),
    Parameter("num_nodes"),
    Parameter("precision", Part.PRECISION),
)
_CLIP_VALUE = Parameter("clip_value", Part.LIMIT)

ACCELERATE = (
    Meaning(
        names=("accelerate.Accelerator", "accelerate.accelerator.Accelerator"),
        parameters=_ACCELERATOR_OPTIONS,
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
    Meaning(owner=Role.ACCELERATOR, called=_ACCELERATOR, methods=("accumulate",), gives=Role.ROUND),
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
KEEPING: dict[Role, frozenset[str]] = {
    Role.ACCELERATOR: frozenset({"load_state", "register_for_checkpointing", "save_state"}),
    Role.APEX: frozenset(),
}
"""Methods of frameworks, where one of which is used all that a framework has is saved and loaded,
its scaler included (accelerate 1.15)."""
SAVING = (
    Meaning(owner=Role.ACCELERATOR, called=_ACCELERATOR, methods=("save",)),
    Meaning(owner=Role.FABRIC, called=_FABRIC, methods=("save",)),
)
"""Methods of frameworks that write what they are given, whatever it is. Their name is too common
for a row: it says nothing of a file."""
STEPPING = frozenset({"deepspeed_plugin", "deepspeed_plugins"})
"""Arguments of Accelerator with which its ``backward`` also steps: a prepared optimizer's ``step``
does nothing (accelerate 1.15)."""
ENGINES = STEPPING | {"megatron_lm_plugin"}
"""Arguments of Accelerator with which it has no scaler, as the engine scales."""
STEPS_WITH_OPTIMIZER = "step_scheduler_with_optimizer"
"""Its argument with which, where it is False, a prepared scheduler counts each of its steps, also
where the prepared optimizer left one out (accelerate 1.15)."""
SYNC_GRADIENTS = "sync_gradients"
"""Its attribute that is true in the round that steps."""
FABRIC = (
    Meaning(
        names=(
            "lightning.Fabric",
            "lightning.fabric.Fabric",
            "lightning_fabric.Fabric",
        ),
        parameters=_FABRIC_OPTIONS,
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
LIGHTNING = (
    Meaning(
        names=(
            "lightning.LightningModule",
            "lightning.pytorch.LightningModule",
            "pytorch_lightning.LightningModule",
            "pytorch_lightning.core.LightningModule",
            "pytorch_lightning.core.lightning.LightningModule",
        ),
        gives=Role.LIGHTNING,
    ),
    Meaning(
        owner=Role.LIGHTNING,
        methods=("manual_backward",),
        parameters=(_LOSS,),
        does=(Kind.BACKWARD,),
    ),
    Meaning(owner=Role.LIGHTNING, methods=("optimizers",), gives=Role.PREPARED),
    Meaning(
        owner=Role.LIGHTNING,
        methods=("clip_gradients",),
        parameters=(
            Parameter("optimizer"),
            Parameter("gradient_clip_val", Part.LIMIT),
            Parameter("gradient_clip_algorithm"),
        ),
        does=(Kind.CLIP,),
    ),
    Meaning(
        names=("lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer"),
        parameters=(Parameter("precision", Part.PRECISION, by_keyword=True),),
        gives=Role.TRAINER_OF_LIGHTNING,
    ),
)
"""The optimizers of manual optimization unscale in their ``step``, right before the hook
``on_before_optimizer_step``; its clip does not."""
TRAINER = (
    Meaning(
        names=(
            "transformers.Seq2SeqTrainer",
            "transformers.Trainer",
            "transformers.trainer.Trainer",
            "transformers.trainer_seq2seq.Seq2SeqTrainer",
            "trl.DPOTrainer",
            "trl.SFTTrainer",
        ),
        parameters=(Parameter("model", Part.MODEL),),
        gives=Role.TRAINER,
    ),
    Meaning(owner=Role.TRAINER, methods=("training_step",)),
    Meaning(
        names=(
            "transformers.Seq2SeqTrainingArguments",
            "transformers.TrainingArguments",
            "transformers.training_args.TrainingArguments",
            "trl.DPOConfig",
            "trl.SFTConfig",
        ),
        parameters=(
            Parameter("fp16", Part.PRECISION, by_keyword=True),
            Parameter("bf16", Part.OTHER_PRECISION, by_keyword=True),
        ),
        gives=Role.TRAINER_OPTIONS,
    ),
)
"""It steps, through accelerate, what this method went backward for, which subclasses may write."""
_OTHERS = (
    Meaning(owner=Role.ENGINE, methods=("backward",), parameters=(_LOSS,)),
    Meaning(owner=Role.ENGINE, methods=("step",)),
    Meaning(
        names=("apex.amp.initialize",),
        parameters=(
            Parameter("models", Part.MODEL),
            Parameter("optimizers", Part.OPTIMIZER),
            Parameter("enabled", Part.ENABLED),
            Parameter("opt_level", Part.PRECISION),
        ),
        gives=Role.APEX,
    ),
    Meaning(
        names=("apex.amp.scale_loss",),
        parameters=(_LOSS, Parameter("optimizers", Part.OPTIMIZER)),
        gives=Role.SCALED_LOSS,
    ),
)
"""They scale, unscale and step by themselves: these calls are no events, whoever is their owner."""

ROWS = (*ACCELERATE, *FABRIC, *LIGHTNING, *TRAINER, *_OTHERS)
OWNERS = frozenset({Role.ACCELERATOR, Role.FABRIC, Role.LIGHTNING})
"""What scales a loss in its own backward, and divides by the scale in its optimizers' steps."""
FSDP_WORD = "MixedPrecision"
FSDP_PRECISION = Meaning(
    names=(
        f"torch.distributed.fsdp.{FSDP_WORD}",
        f"torch.distributed.fsdp.api.{FSDP_WORD}",
        f"torch.distributed.fsdp.fully_sharded_data_parallel.{FSDP_WORD}",
    ),
    parameters=(
        Parameter("param_dtype"), Parameter("reduce_dtype"), Parameter("buffer_dtype", Part.DTYPE),
    ),
)  # fmt: skip
"""What FSDP casts parameters, gradients and buffers to; a buffer stays so from the first forward on
(measured with torch 2.13)."""
ROTARY_MODELS = frozenset(
    {
        "Arcee", "Bamba", "BitNet", "Cohere", "Cohere2", "DeepseekV2", "DeepseekV3",
        "DiffLlama", "Ernie4_5", "Exaone4", "Falcon", "FalconH1", "GPTNeoX", "Gemma",
        "Gemma2", "Gemma3", "Glm", "Glm4", "GptOss", "Granite", "GraniteMoe", "Helium", "JetMoe",
        "Lfm2", "Llama", "MiniCPM3", "MiniMax", "Ministral", "Mistral", "Mixtral", "Mllama",
        "ModernBert", "Nemotron", "Olmo", "Olmo2", "Olmo3", "Olmoe", "Persimmon", "Phi", "Phi3",
        "Phimoe", "Qwen2", "Qwen2Moe", "Qwen2VL", "Qwen2_5_VL", "Qwen3", "Qwen3Moe", "Qwen3Next",
        "RecurrentGemma", "SeedOss", "SmolLM3", "StableLm", "Starcoder2", "Zamba2",
    }
)  # fmt: skip
"""What the classes of models of transformers begin with that keep the frequencies of rotary
embeddings in a buffer: of a class called so and RotaryEmbedding (read in transformers 5.24)."""
APEX = frozenset({"apex"})
"""An identifier of every file that has apex patch something."""
SKIPPING = frozenset({Role.ACCELERATOR, Role.APEX})
"""What has the optimizers that it prepares leave out a step whose gradients overflowed, silently.

A scheduler that accelerate prepares, too, leaves out the same."""

CONFIGURED_BY = {
    Role.LIGHTNING: Role.TRAINER_OF_LIGHTNING,
    Role.TRAINER: Role.TRAINER_OPTIONS,
}
"""What says in which precision something is trained, where it does not itself."""
_SCALED = frozenset({16, "16", "16-mixed"})
SCALING: dict[Role, frozenset[object]] = {
    Role.ACCELERATOR: frozenset({"fp16", None}),
    Role.FABRIC: _SCALED,
    Role.TRAINER_OF_LIGHTNING: _SCALED,
    Role.TRAINER_OPTIONS: frozenset({True}),
    Role.APEX: frozenset({"O1", "O2", None}),
}
"""In which precisions losses are scaled; None is where none is named, and accelerate's launcher
chooses."""

ACCEPTED: dict[Role, frozenset[object]] = {
    Role.ACCELERATOR: frozenset({"no", "fp16", "bf16", "fp8", None})
}
"""The precisions that a framework's constructor takes: it raises ValueError for any other
(accelerate 1.15)."""
LOWERING: dict[Role | None, dict[object, str]] = {
    Role.ACCELERATOR: {"fp16": "float16", "bf16": "bfloat16"},
    Role.TRAINER_OF_LIGHTNING: {
        16: "float16", "16": "float16", "16-mixed": "float16", "bf16": "bfloat16",
        "bf16-mixed": "bfloat16",
    },
    Role.APEX: {"O1": "float16", "O2": "float16", "O3": "float16", None: "float16"},
}  # fmt: skip
"""In which precisions, in their own words, frameworks run models in half: products in what dtype.

Accelerate enters a region in the forward of what it prepared, Lightning around the steps of its
module; apex casts what torch's functions get, or the model."""
OWNING_THE_STEP = frozenset(
    {
        "accelerate", "apex", "catalyst", "colossalai", "composer", "deepspeed", "fairscale",
        "fairseq", "fastai", "ignite", "lightning", "lightning_fabric", "megatron", "mmcv",
        "mmengine", "pytorch_lightning", "speechbrain", "torch_xla",
    }
)  # fmt: skip
"""Packages that may scale a loss where the file does not say so."""
ASIDE = frozenset(
    {"set_seed", "seed_everything", "isolate_rng", "fix_random_seed", "Config", "mkdir_or_exist"}
)
"""What people take from such packages that has nothing to do with a step."""
ASIDE_MODULES = (
    "accelerate.logging.", "apex.contrib.", "apex.normalization.", "apex.optimizers.",
    "deepspeed.ops.", "deepspeed.profiling.", "fairscale.nn.checkpoint.", "fairscale.nn.misc.",
    "fairscale.nn.model_parallel.", "fairseq.data.", "ignite.metrics.", "mmcv.cnn.", "mmcv.ops.",
    "speechbrain.dataio.", "speechbrain.lobes.", "speechbrain.nnet.", "speechbrain.processing.",
)  # fmt: skip
"""Parts of such packages that have nothing to do with one either: layers, optimizers, data."""
KEEPING_MASTER_WEIGHTS = (
    r"fp16_?optim|float16optim|half_?precision_?optim|apex|\bamp\.initialize|deepspeed\.initialize"
    r"|fullysharded|\bfsdp|fully_shard|master_?(param|weight)|colossal|megatron"
)
"""In names, whatever their case: what keeps float32 copies of float16 parameters."""
ADD_ADAPTER = ("add_adapter",)
"""Methods of diffusers and transformers that give a model trainable parts, in its own dtype."""
CAST_TRAINED = frozenset({"cast_training_params"})
"""Functions that cast the parameters that are trained, and no others."""
NOT_TORCH = frozenset({"jittor", "mindspore", "oneflow", "paddle", "tensorflow"})
"""Packages whose GradScaler has its own rules."""
