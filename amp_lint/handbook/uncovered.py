"""Symptoms that no rule is about: what usually causes them, and what to do, measured like a page.

A rule that comes to find one of them takes the symptom over to its page.
"""

from __future__ import annotations

from dataclasses import dataclass

from amp_lint.handbook.pages import Symptom


@dataclass(frozen=True, slots=True)
class Cause:
    """What mixed precision does that amp-lint does not see in the code."""

    messages: tuple[str, ...]
    """What torch prints, as on a page; ``...`` stands for any text."""
    words: tuple[str, ...]
    """The same in the words of users, the most typical first."""
    cause: str
    fix: str

    @property
    def symptoms(self) -> tuple[Symptom, ...]:
        """What a user meets, as on a page."""
        messages = (Symptom(text, message=True) for text in self.messages)
        return (*messages, *(Symptom(text, message=False) for text in self.words))


CAUSES = (
    Cause(
        (),
        (
            "the loss is nan or inf",
            "activations overflow: they are inf or nan",
            "gradients are nan or inf",
        ),
        "in float16 what is above 65504 is inf, and below 3e-8 is 0: `x * x` overflows from 256 "
        "on, `x / (x.abs().max() + 1e-8)` is 0 / 0 for zeros. Or the data hold NaN, or the "
        "learning rate is too high, which float32 would show as well",
        "compute that part from `x.float()` with autocast off (`enabled=False`), or use bfloat16",
    ),
    Cause(
        (
            "RuntimeError: expected scalar type ... but found ...",
            "RuntimeError: expected m1 and m2 to have the same dtype, but got: ... != ...",
            "RuntimeError: mat1 and mat2 must have the same dtype, but got ... and ...",
            "RuntimeError: Input type (...) and bias type (...) should be the same",
            "RuntimeError: addmv input tensors must have the same dtype, but got ...",
            "RuntimeError: dot : expected both vectors to have same dtype, but found ... and ...",
            "RuntimeError: Expected query, key, and value to have the same dtype, but got ...",
            "RuntimeError: Found dtype ... but expected ...",
            "RuntimeError: mixed dtype (CPU): expect parameter to have scalar type of Float",
            "ValueError: RNN input dtype (...) does not match weight dtype (...). ...",
        ),
        ("an error about two dtypes that are not the same, such as Half and Float",),
        "a float16 or bfloat16 tensor meets a float32 one outside an autocast region, or in one "
        "with `enabled=False`: an output of a region, or a tensor or model that was cast by hand",
        "cast there, `x.float()` or `x.to(weight.dtype)`, or do it inside the region; an "
        "`autograd.Function` with matrix products needs `custom_fwd` and `custom_bwd`",
    ),
    Cause(
        (
            "RuntimeError: Index put requires the source and destination dtypes match, got ...",
            "RuntimeError: index_add_(): self (...) and source (...) must have the same scalar "
            "type",
            "RuntimeError: index_copy_(): self and source expected to have the same dtype, ...",
            "RuntimeError: scatter(): Expected self.dtype to be equal to src.dtype",
            "RuntimeError: masked_scatter: expected self and source to have same dtypes but got...",
        ),
        (),
        "a value that autocast made float16 or bfloat16 is written into a float32 tensor by index",
        "`value.to(buffer.dtype)`; slices, `buffer[:2] = value`, cast by themselves",
    ),
    Cause(
        ("RuntimeError: value cannot be converted to type ... without overflow",),
        ("masked attention is nan: rows of a mask are all -inf",),
        "a constant such as -1e9 does not fit into float16, whose largest number is 65504; "
        "`masked_fill` raises, while `where`, `+` and assignments make -inf of it",
        "`scores.masked_fill(mask, torch.finfo(scores.dtype).min)`, and no second mask added to it",
    ),
    Cause(
        (
            "NotImplementedError: ... not implemented for 'Half'",
            "NotImplementedError: ... not implemented for 'BFloat16'",
            "RuntimeError: linalg.inv: Low precision dtypes not supported. Got ...",
            "RuntimeError: quantile() input tensor must be either float or double dtype",
            "RuntimeError: Unsupported dtype Half",
            "RuntimeError: MKL FFT doesn't support tensors of type: Half",
            "RuntimeError: cuFFT only supports dimensions whose sizes are powers of two when "
            "computing in half precision, but got a signal size of...",
        ),
        (),
        "linalg, fft, quantile and their like have no kernel for low precision, and CUDA autocast "
        "does not cast their inputs up",
        "`torch.linalg.inv(x.float())`; autocast with `enabled=False` alone casts nothing",
    ),
    Cause(
        (
            'NotImplementedError: "_amp_foreach_non_finite_check_and_unscale_cuda" not implemented '
            "for 'BFloat16'",
        ),
        (),
        "the parameters themselves are bfloat16, and a `GradScaler` is enabled",
        "no scaler, as bfloat16 needs none; better, float32 parameters and a bfloat16 region",
    ),
    Cause(
        ("TypeError: Got unsupported ScalarType BFloat16",),
        (),
        "numpy has no bfloat16",
        "`x.float().numpy()`",
    ),
    Cause(
        ("AssertionError: No inf checks were recorded for this optimizer.",),
        (),
        "no parameter of the optimizer has a gradient: it was made from other parameters than "
        "those that were trained, all of them are frozen, or no backward pass came before",
        "make the optimizer after the model has its final parameters, from those that are trained",
    ),
    Cause(
        ("AssertionError: Attempted update but _scale is None. ...",),
        (),
        "`scaler.update()` is called although the scaler never scaled a loss",
        "`scaler.scale(loss).backward()` and `scaler.step(optimizer)`, or no scaler at all",
    ),
    Cause(
        (
            "RuntimeError: The source state dict is empty, possibly because it was saved from a "
            "disabled instance of GradScaler.",
        ),
        (),
        "the checkpoint was saved while AMP was off: a disabled scaler saves `{}`",
        '`if checkpoint["scaler"]: scaler.load_state_dict(checkpoint["scaler"])`',
    ),
    Cause(
        ("TypeError: GradScaler.__init__() got an unexpected keyword argument 'device_type'",),
        (),
        "autocast has a `device_type`, the scaler a `device`",
        '`torch.amp.GradScaler(device="cuda")`',
    ),
    Cause(
        ("TypeError: custom_fwd() missing 1 required keyword-only argument: 'device_type'",),
        (),
        "`torch.amp.custom_fwd` and `custom_bwd` have to be told the device, the old ones had not",
        '`@torch.amp.custom_fwd(device_type="cuda")`',
    ),
    Cause(
        (
            "UserWarning: CUDA is not available or torch_xla is imported. Disabling autocast.",
            "UserWarning: torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  "
            "Disabling.",
        ),
        ("autocast has no effect on a machine without GPU",),
        "the code says CUDA, and this machine has none: it computes in float32",
        "`torch.autocast(device.type)` and `torch.amp.GradScaler(device.type)`",
    ),
    Cause(
        ("RuntimeError: Cannot insert a Tensor that requires grad as a constant. ...",),
        (),
        "`torch.jit.trace` under autocast finds a weight that autocast has cast and kept",
        "`torch.autocast(device, cache_enabled=False)` around the trace",
    ),
    Cause(
        (),
        (
            "the loss scale goes to 0",
            "the loss scale falls, drops or decreases with every step",
            "gradients overflow, and every step is skipped",
        ),
        "a few skipped steps at the start, and one now and then later, are how a scaler works. If "
        "all are, inf or NaN come from the forward pass or the data: no scale is small enough",
        "look for the first inf in the loss and the activations; compute that part in float32",
    ),
    Cause(
        (),
        ("the loss does not go down with bfloat16 parameters: the weights do not change",),
        "an update below 1/512 of a bfloat16 weight is lost: 1000 steps of 1e-4 leave 1.0 at 1.0 "
        "(AMP203 is about float16)",
        "keep the parameters in float32, and let autocast cast them",
    ),
    Cause(
        (),
        (
            "an average of weights (EMA) does not change",
            "a running sum or counter, such as a metric, stops growing",
        ),
        "the sum is kept in low precision: counting stops at 256 in bfloat16 and 2048 in float16, "
        "an average with a decay of 0.999 in bfloat16 does not move",
        "keep sums and averages in float32",
    ),
    Cause(
        (),
        ("positions, timesteps or ids that differ become equal",),
        "whole numbers are exact up to 256 in bfloat16 and 2048 in float16: "
        "`torch.arange(1000, dtype=torch.bfloat16)` has 507 different values",
        "keep them in float32 or int64, and products with them out of the region",
    ),
    Cause(
        (),
        ("the loss in the log jumps to twice, or 0.5 times, what it should be",),
        "a scaled loss is divided by `scaler.get_scale()` after `scaler.update()` has changed it",
        "log the loss that was not scaled",
    ),
    Cause(
        (),
        ("a step is slow: it takes several times as long",),
        "`torch.autograd.set_detect_anomaly(True)` was left on: 3.7 times as long, measured",
        "turn it on for a search only",
    ),
)
