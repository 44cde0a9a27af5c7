"""A training step of torch without AMP: backward, what is done to gradients, steps."""

from __future__ import annotations

from amp_lint.vocabulary.meaning import Kind, Meaning, Parameter, Part, Role

OPTIMIZERS = "torch.optim."
"""Where the constructors of optimizers are, and of learning-rate schedulers too."""
_SCHEDULERS, _AVERAGES = "torch.optim.lr_scheduler.", "torch.optim.swa_utils."
OTHER_OPTIMIZERS = frozenset({"transformers.AdamW", "transformers.optimization.AdamW"})
OPTIMIZER_WORDS = frozenset({"optim", *(name.rpartition(".")[2] for name in OTHER_OPTIMIZERS)})
"""Identifiers of which a file has one that makes an optimizer by its name."""
OPTIMIZER_CLASSES = frozenset(
    {"ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon",
     "NAdam", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam"}
)  # fmt: skip
"""The optimizers of torch."""

OTHER_SCHEDULES = frozenset(
    {
        "beta", "betas", "bn", "bnm", "ema", "exponent", "momentum", "noise", "ratio", "temp",
        "temperature", "wd", "weight", "weight_decay",
    }
)  # fmt: skip
"""What schedulers are called after that change no learning rate."""

_PARAMETERS = Parameter("parameters")
_NORM_TYPE = Parameter("norm_type", Part.NORM_TYPE)
_STRICT = Parameter("error_if_nonfinite", Part.STRICT)
_FOREACH = Parameter("foreach")
_MAX_NORM = Parameter("max_norm", Part.LIMIT)

CLIP_NORM = Meaning(
    names=("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm"),
    parameters=(_PARAMETERS, _MAX_NORM, _NORM_TYPE, _STRICT, _FOREACH),
    does=(Kind.CLIP,),
)
CLIP_VALUE = Meaning(
    names=("torch.nn.utils.clip_grad_value_",),
    parameters=(_PARAMETERS, Parameter("clip_value", Part.LIMIT), _FOREACH),
    does=(Kind.CLIP,),
)
CLIP_WITH_NORM = Meaning(
    names=("torch.nn.utils.clip_grads_with_norm_",),
    parameters=(_PARAMETERS, _MAX_NORM, Parameter("total_norm"), _FOREACH),
    does=(Kind.CLIP,),
)
TOTAL_NORM = Meaning(
    names=("torch.nn.utils.get_total_norm",),
    parameters=(Parameter("tensors"), _NORM_TYPE, _STRICT, _FOREACH),
    does=(Kind.CLIP,),
)
"""It only measures, which goes wrong in the same way."""

AUTOGRAD_BACKWARD = Meaning(
    names=("torch.autograd.backward",),
    parameters=(Parameter("tensors", Part.LOSS), Parameter("grad_tensors", Part.INCOMING)),
    does=(Kind.BACKWARD,),
)

AUTOGRAD_GRAD = Meaning(
    names=("torch.autograd.grad",),
    parameters=(
        Parameter("outputs", Part.LOSS), Parameter("inputs"),
        Parameter("grad_outputs", Part.INCOMING), Parameter("retain_graph"),
        Parameter("create_graph", Part.GRAPH),
    ),
)  # fmt: skip
"""It gives gradients, and writes them nowhere: no row, for it is no event of a step."""

NORMS = frozenset(
    f"{prefix}{what}_norm{end}"
    for prefix in ("", "calc_", "calculate_", "compute_", "get_", "get_total_", "global_", "total_")
    for what in ("grad", "gradient", "grad_l2", "gradient_l2")
    for end in ("", "_")
)
"""What helpers are called that measure the gradients of some parameters."""

SAME_NUMBERS = frozenset(
    {
        "clone", "contiguous", "cpu", "cuda", "detach", "double", "flatten", "float", "numpy",
        "reshape", "to", "view",
    }
)  # fmt: skip
"""Methods of a tensor that give the same numbers."""
READING = frozenset({"item", "tolist"})
"""Methods that make numbers of Python's of a tensor."""
MEASURES = frozenset(
    {
        "abs", "amax", "amin", "aminmax", "clamp", "clip", "histc", "item", "max", "mean",
        "median", "min", "norm", "pow", "quantile", "square", "std", "sum", "tolist", "var",
        "var_mean",
    }
)  # fmt: skip
"""Methods whose result depends on how large the numbers are."""

COPY = "copy_"
"""A method that writes a tensor into another one."""
ADDING = frozenset({"add_", "sub_"})
"""Methods that add something to a tensor in place."""
REPLACING = frozenset({"nan_to_num", "nan_to_num_"})
"""What puts numbers in the place of those that are inf or NaN."""

PLOTS = (
    Meaning(methods=("add_histogram",), parameters=(Parameter("tag"), Parameter("values"))),
    Meaning(names=("wandb.Histogram",), parameters=(Parameter("sequence"),)),
)
"""Their last parameter is what is plotted: how large the numbers are."""

HOOKS = frozenset({"register_hook", "register_post_accumulate_grad_hook"})
"""Methods of a tensor that take what is called with its gradient, or with it, in backward."""
OTHER_HOOKS = frozenset({"register_comm_hook", "register_multi_grad_hook", "register_prehook"})
"""What has gradients handed to a function in backward besides: of several tensors, of a node of the
graph, of a bucket."""
WATCHES = frozenset({"wandb.watch", "wandb.sdk.watch"})
"""What has the gradients of a module logged as soon as backward makes them."""
WATCHED_GRADIENTS = frozenset({"gradients", "all"})
"""What these are told by ``log`` in order to do so, the first of it by default."""
FUNCTIONS_OF_AUTOGRAD = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
"""Classes whose ``backward`` says itself what becomes of a gradient."""
LINEAR = SAME_NUMBERS | {
    "bmm", "chunk", "div", "div_", "einsum", "expand", "expand_as", "flip", "gather", "matmul",
    "mean", "mm", "mul", "mul_", "multiply", "narrow", "neg", "neg_", "permute", "repeat",
    "reshape_as", "select", "split", "squeeze", "sum", "sum_to_size", "swapaxes", "t", "transpose",
    "tril", "triu", "type_as", "unbind", "unflatten", "unsqueeze", "view_as",
}  # fmt: skip
"""Functions and methods that give twice as much of what is twice as large, in one argument."""

SCHEDULER_STEP = Meaning(owner=Role.SCHEDULER, methods=("step",), does=(Kind.SCHEDULE,))
UPDATES_STEP = Meaning(
    owner=Role.SCHEDULER,
    methods=("step_update",),
    parameters=(Parameter("num_updates"), Parameter("metric")),
    does=(Kind.SCHEDULE,),
)
"""The other step of timm's schedulers, which are told how many updates there were."""
BY_EPOCHS = "t_in_epochs"
"""Their argument, True by default, with which ``step_update`` does nothing (timm 1.0)."""

SET_TO_NONE = "set_to_none"
"""The argument of ``zero_grad`` that is True by default."""

ROWS = (
    CLIP_NORM,
    CLIP_VALUE,
    CLIP_WITH_NORM,
    TOTAL_NORM,
    AUTOGRAD_BACKWARD,
    Meaning(
        owner=Role.LOSS,
        methods=("backward",),
        parameters=(Parameter("gradient", Part.INCOMING),),
        does=(Kind.BACKWARD,),
    ),
    Meaning(owner=Role.OPTIMIZER, methods=("step",), does=(Kind.STEP,)),
    Meaning(owner=Role.OPTIMIZER, methods=("zero_grad",), unique=True, does=(Kind.ZERO_GRAD,)),
    SCHEDULER_STEP,
    UPDATES_STEP,
    Meaning(
        owner=Role.GRADIENT,
        methods=("add_", "copy_", "div_", "fill_", "mul_", "sub_"),
        does=(Kind.GRADIENT_WRITE,),
    ),
    Meaning(
        owner=Role.GRADIENT,
        methods=("clamp_", "clip_"),
        does=(Kind.GRADIENT_READ, Kind.GRADIENT_WRITE),
    ),
)
SHARING = frozenset({"all_reduce", "copy_", "fill_"})
"""What makes the tensors of several optimizers or ranks the same."""
SAVES = frozenset(
    {
        "cloudpickle.dump", "cloudpickle.dumps", "dill.dump", "dill.dumps", "joblib.dump",
        "pickle.dump", "pickle.dumps", "torch.distributed.checkpoint.async_save",
        "torch.distributed.checkpoint.save", "torch.save", "torch_xla.core.xla_model.save",
    }
)  # fmt: skip
"""Functions that write what they are given first, whatever it is."""
SAVED_AS = ("obj", "state_dict")
"""What their first parameter is called, where it may be given by name."""
CHECKPOINTERS = frozenset(
    {
        "detectron2.checkpoint.DetectionCheckpointer",
        "detectron2.checkpoint.detection_checkpoint.DetectionCheckpointer",
        "fvcore.common.checkpoint.Checkpointer",
    }
)
"""What saves and loads the state of each object that it is given by keyword, and of no other
(fvcore 0.1.5)."""
CHECKPOINTER_CALLS = frozenset(name.rpartition(".")[2] for name in CHECKPOINTERS)
GIVEN_TO_SAVE, GIVEN_TO_LOAD = "to_save", "to_load"
"""Arguments of ignite: a dict of objects, each of which has a state (ignite 0.5)."""
LOADS_GIVEN = "load_objects"
"""The method of its ``Checkpoint`` that loads the state of each."""
RESUME, GIVEN_LATER = "resume_or_load", "checkpointables"
"""Their method that loads the state of each of these objects, and the attribute that has them."""


def makes_optimizer(name: str) -> bool:
    """Whether a function, by its qualified name, makes an optimizer of torch or transformers."""
    others = (_SCHEDULERS, _AVERAGES)
    of_torch = name.startswith(OPTIMIZERS) and not name.startswith(others)
    return name in OTHER_OPTIMIZERS or (of_torch and name.rpartition(".")[2][:1].isupper())


def makes_scheduler(name: str) -> bool:
    """Whether a function, by its qualified name, makes a learning-rate scheduler of torch."""
    return name.startswith(_SCHEDULERS) or name == f"{_AVERAGES}SWALR"
