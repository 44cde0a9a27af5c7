"""Methods and functions by what they do, as far as their names tell."""

from __future__ import annotations

PURE_METHODS = frozenset(
    {
        "abs", "add", "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "bfloat16",
        "bmm", "bool", "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone", "contiguous",
        "cos", "cpu", "cuda", "cumsum", "detach", "diag", "diagonal", "dim", "div", "double", "eq",
        "exp", "expand", "expand_as", "expm1", "flatten", "flip", "float", "gather", "ge", "gt",
        "half", "index_select", "int", "item", "le", "log", "log10", "log1p", "log2", "log_softmax",
        "logsumexp", "long", "lt", "masked_fill", "matmul", "max", "mean", "min", "mm", "movedim",
        "mul", "multiply", "narrow", "ne", "neg", "new_ones", "new_zeros", "norm", "numel",
        "permute", "pow", "prod", "reciprocal", "relu", "repeat", "repeat_interleave", "reshape",
        "roll", "round", "rsqrt", "scatter", "select", "sigmoid", "sin", "size", "softmax", "split",
        "sqrt", "square", "squeeze", "std", "sub", "sum", "swapaxes", "t", "take_along_dim", "tanh",
        "to", "tolist", "topk", "transpose", "tril", "triu", "type", "type_as", "unbind",
        "unflatten", "unsqueeze", "var", "view", "view_as", "where",
    }
)  # fmt: skip
"""Methods of tensors that compute a result and change nothing."""
WRITING_METHODS = frozenset(
    {
        "add_", "addcdiv_", "addcmul_", "clamp_", "clamp_max_", "clamp_min_", "copy_", "div_",
        "fill_", "lerp_", "masked_fill_", "mul_", "multiply_", "neg_", "pow_", "reciprocal_",
        "rsqrt_", "sqrt_", "square_", "sub_", "zero_",
    }
)  # fmt: skip
"""Methods that write a result into their tensor: autocast leaves it, and them, as they are."""
MODULE_CASTS = frozenset(
    {"bfloat16", "cpu", "cuda", "double", "float", "half", "to", "type"}
)  # fmt: skip
"""Those that give another tensor, but change a module where it stands."""

_ASKING = frozenset(
    {
        "bool", "callable", "dir", "getattr", "hasattr", "id", "isinstance", "print", "repr", "str",
        "type", "vars",
    }
)  # fmt: skip
ASKING = frozenset(f"builtins.{name}" for name in _ASKING)
"""Builtins that only look at what they are given, whatever it is."""
_PURE_BUILTINS = _ASKING | {"enumerate", "float", "int", "len", "max", "min", "range", "sum", "zip"}
_PURE_MODULES = ("torch.nn.functional.", "torch.special.", "math.")


def is_pure_function(name: str) -> bool:
    """Whether a function, by its qualified name, computes a result and changes nothing."""
    module, _, last = name.rpartition(".")
    if last.endswith("_"):
        return False
    if module == "builtins":
        return last in _PURE_BUILTINS
    return name.startswith(_PURE_MODULES) or (module == "torch" and last in PURE_METHODS)


PROGRESS_BARS = ("tqdm.", "rich.progress.track", "fastprogress.", "alive_progress.alive_it")
"""What gives what it is given first, item by item, and shows how far that is: names begin so."""
QUERIES = frozenset(
    {
        "format", "get", "get_backoff_factor", "get_growth_factor", "get_growth_interval",
        "get_last_lr", "get_lr", "get_scale", "is_enabled", "items", "join", "keys", "lower",
        "named_parameters", "parameters", "replace", "startswith", "state_dict", "strip", "upper",
        "values",
    }
)  # fmt: skip
"""Methods of other objects that only ask for something."""
NOTING = frozenset(
    {
        "add_scalar", "append", "debug", "error", "extend", "info", "log", "now", "set_description",
        "set_postfix", "time", "warning", "write",
    }
)  # fmt: skip
"""Methods of other objects that note or show something, or tell the time."""
KEEPING = NOTING | {
    "add", "add_figure", "add_histogram", "add_image", "add_images", "add_scalars", "add_text",
    "insert", "log_dict", "log_metrics", "observe", "print", "push", "put", "record", "save",
    "setdefault", "store", "update",
}  # fmt: skip
"""Methods of other objects that keep, or show, what they are given, and leave it as it is."""
CHANGING_ARGUMENTS = frozenset({"dropout_p", "inplace", "max_norm", "out"})
"""By which a function or a layer draws random numbers, or changes what it is given."""
MULTIPLIED, DIVIDED = "mul_", "div_"
"""Methods that change a tensor by a factor."""
DICT_CHANGES = frozenset({"setdefault", "update"})
"""Methods of a dict that put other items into it."""
READING_ALL = frozenset(
    {
        "builtins.dir", "builtins.vars", "copy.copy", "copy.deepcopy", "dataclasses.asdict",
        "dataclasses.astuple", "inspect.getmembers", "json.dump", "json.dumps",
        "jsonpickle.encode", "marshal.dump", "marshal.dumps", "pprint.pprint", "yaml.dump",
        "yaml.safe_dump",
    }
)  # fmt: skip
"""Functions that read all attributes of the object that they are given."""
READING_ALL_OF = frozenset(
    {
        "__getstate__", "_asdict", "as_dict", "asdict", "copy", "dict", "dump", "dumps", "items",
        "json", "keys", "model_dump", "model_dump_json", "save", "to_container", "to_dict",
        "to_json", "to_yaml", "values",
    }
)  # fmt: skip
"""Methods of records and of settings that do so."""
DICT_COPIES = frozenset(
    {"builtins.dict", "collections.OrderedDict", "copy.copy", "copy.deepcopy"}
)  # fmt: skip
"""Functions that give a dict with the items of the one that they are given."""
SETTINGS = frozenset({"get", "getattr", "hasattr", "is_available", "is_enabled"})
"""Functions and methods that say the same all through a run."""


_HANDING_ON = frozenset(
    {"abc", "builtins", "contextlib", "functools", "torch", "typing", "typing_extensions"}
)


def hands_on(decorator: str) -> bool:
    """Whether a decorator, by its qualified name, gives a function only what its caller gives.

    Those of gin, click, sacred and their like fill in what the caller leaves out.
    """
    return decorator.partition(".")[0] in _HANDING_ON
