"""What gives a module back that it is given, or makes one of a class that it is called on."""

from __future__ import annotations

import re

WIDENING = frozenset({"bfloat16", "double", "float"})
"""Methods that make the parameters of a module wider than float16."""
CASTING = WIDENING | {"half"}
"""Methods that give its parameters another dtype."""
TO_DTYPE = frozenset({"to", "type"})
"""Methods that are told which."""
PARAMETER = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
PARTS = frozenset({"children", "modules", "named_children", "named_modules", "named_parameters",
                   "parameters"})  # fmt: skip
"""Methods that give what a module is made of, each by itself or with its name."""
PARAMETERS = frozenset({"named_parameters", "parameters"})
"""Those of them that give parameters."""
MODES = frozenset({"eval", "train"})
"""Methods that say whether it trains."""
APPLY = "apply"
"""The method that calls a function with each module within another."""
HALVING = frozenset({"clip.model.convert_weights"})
"""Functions of libraries that cast the parameters of the module that they are given to float16."""
KEEPING = frozenset(
    {
        "apply", "compile", "cpu", "cuda", "eval", "requires_grad_", "share_memory", "to", "train",
        "type", "xpu",
    }
)  # fmt: skip
"""Other methods that return the module they are called on."""
WITHOUT_PARAMETERS = re.compile(
    r"^(?!Adaptive).*Loss$|Sigmoid$|Softmax$|Softmax2d$|^Softplus$|^(Re|LeakyRe|GE|Si|E)LU$|^Tanh$"
)
"""Classes of torch.nn that have no parameters, and no tensors but those that they are given."""
AVERAGES = frozenset(
    {
        "diffusers.EMAModel",
        "diffusers.training_utils.EMAModel",
        "torch.optim.swa_utils.AveragedModel",
        "torch_ema.ExponentialMovingAverage",
        "torch_ema.ema.ExponentialMovingAverage",
    }
)
"""Classes that keep moving averages of a model's parameters, and can be cast."""
FOLLOWING = frozenset({"step", "update", "update_parameters"})
"""Methods by which they follow the model."""
COPYING = frozenset({"copy.deepcopy"})
WRAPPERS = frozenset(
    {
        "torch.compile",
        "torch.nn.DataParallel",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
    }
)
"""Functions and classes that run the module that they are given first."""
UNWRAPPING = frozenset({"unwrap_model"})
"""Methods of frameworks that give what they wrapped back, be it a module or an optimizer."""
WRAPPED = "module"
"""The attribute in which the classes among them keep it."""
CONTAINERS = frozenset({"torch.nn.ModuleDict", "torch.nn.ModuleList", "torch.nn.Sequential"})
"""Modules that are made of those that they are given."""
FACTORIES = frozenset({"from_config", "from_pretrained", "load_from_checkpoint"})
"""Methods of a class, inherited from a framework, that make an instance of it."""
ENDING_IN = {
    "torchaudio.transforms.LFCC": "matmul",
    "torchaudio.transforms.MFCC": "matmul",
    "torchaudio.transforms.MelScale": "matmul",
    "torchaudio.transforms.MelSpectrogram": "matmul",
}
"""Modules of other libraries, and the operation that gives their result (torchaudio 2.9.1)."""
LOSSES = {
    "info_nce.InfoNCE": "cross_entropy",
    "timm.loss.LabelSmoothingCrossEntropy": "log_softmax",
    "timm.loss.SoftTargetCrossEntropy": "log_softmax",
    "timm.loss.cross_entropy.LabelSmoothingCrossEntropy": "log_softmax",
    "timm.loss.cross_entropy.SoftTargetCrossEntropy": "log_softmax",
}
"""Losses of other libraries, and the operation that they compute of their first input, or of its
products with the others, in the dtype of that (info-nce-pytorch 0.1.4, timm 1.0)."""
LOGITS = "logits"
"""The attribute of a model's output that holds what its last layer gives, as in transformers."""
PREPARE = "prepare"
"""The method of Accelerate that wraps a model, so that its outputs are float32."""
HOOKING = frozenset(
    {
        "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks",
        "register_backward_hook", "register_forward_hook", "register_forward_pre_hook",
        "register_full_backward_hook", "register_full_backward_pre_hook",
    }
)  # fmt: skip
"""What has something run whenever a module is called, or its backward."""
HOOKING_ALL = frozenset(
    {
        "_global_backward_hooks", "_global_backward_pre_hooks", "_global_forward_hooks",
        "_global_forward_pre_hooks", "register_module_backward_hook",
        "register_module_forward_hook", "register_module_forward_pre_hook",
        "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    }
)  # fmt: skip
"""What has something run whenever any module is called."""
HOOKING_BACKWARD = frozenset(name for name in HOOKING | HOOKING_ALL if "backward" in name)
"""What of that is run in backward, with gradients."""
STORING = frozenset(
    {
        "__delattr__",
        "__setattr__",
        "add_module",
        "delattr",
        "register_module",
        "set_submodule",
        "setattr",
    }
)
"""Functions and methods that put another value into an attribute, which they are told by name."""
MEMBERS = frozenset({"__dict__", "_modules", "vars"})
"""What gives the attributes of an object, or the modules in it, by their names."""
OVERRIDING = ("__getattribute__", "__setattr__")
"""Methods by which a class says itself what its attributes are."""
SETTINGS = frozenset(
    {
        "__call__", "__class__", "_forward", "dim", "eps", "forward", "ignore_index",
        "label_smoothing", "log_target", "pos_weight", "reduction", "weight",
    }
)  # fmt: skip
"""Attributes that decide what a module without parameters computes."""
COMMON = frozenset(
    {
        "add_module", "add_param_group", "extra_repr", "get_backoff_factor", "get_buffer",
        "get_extra_state", "get_growth_factor", "get_growth_interval", "get_last_lr", "get_lr",
        "get_parameter", "get_scale", "get_submodule", "is_enabled", "load_state_dict",
        "named_buffers", "named_children", "named_modules", "named_parameters", "no_sync",
        "profile_hook_step", "register_backward_hook", "register_buffer", "register_comm_hook",
        "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
        "register_full_backward_pre_hook", "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook", "register_module", "register_parameter",
        "register_state_dict_post_hook", "register_state_dict_pre_hook",
        "register_step_post_hook", "register_step_pre_hook", "requires_grad_",
        "set_backoff_factor", "set_epoch", "set_extra_state", "set_growth_factor",
        "set_growth_interval", "set_submodule", "share_memory", "state_dict", "to_empty",
        "update_parameters", "zero_grad",
    }
)  # fmt: skip
"""Methods with names of several words that modules, optimizers, schedulers, scalers, samplers and
averages of torch have: who is asked for these may be any of them."""
