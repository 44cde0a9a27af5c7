"""Uses of torch's AMP interface: equal objects are proven, others refuted; and dtype policies."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch

from amp_lint.verify.experiments import objects, policy
from amp_lint.verify.obligations import Autocast, Object, Place, Policy, Use
from amp_lint.verify.proof import Judgement, ProofSettings, Verdict
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Term

PROVEN, REFUTED = Verdict.PROVEN, Verdict.REFUTED
HERE = Place(1, 1)
CUDA, CPU, ON, OFF = Const("cuda"), Const("cpu"), Const(True), Const(False)
HALF, BFLOAT, FLOAT = (Global(f"torch.{n}") for n in ("float16", "bfloat16", "float32"))
AMP = Input("use_amp")


def call(name: str, *args: Term, **keywords: Term) -> Use:
    return Use("call", f"torch.{name}", args, tuple(sorted(keywords.items())))


def decorator(name: str) -> Use:
    return Use("decorator", f"torch.{name}")


def asked(*names: str, kind: str = "type") -> Use:
    classes = [Global(f"torch.{name}") for name in names]
    return Use(kind, classes[0].name, tuple(classes))


def handed_on(name: str) -> Use:
    return Use("value", f"torch.{name}")


def annotation(name: str) -> Use:
    return Use("annotation", f"torch.{name}")


def partial(name: str, *args: Term, **keywords: Term) -> Use:
    return replace(call(name, *args, **keywords), kind="partial")


def judged(before: Use, after: Use, *disabled: str, nested: bool = False) -> Judgement:
    obligation = Object(HERE, before, after, nested)
    return objects.judge(obligation, ProofSettings(disabled=frozenset(disabled)))


OLD, NEW = "cuda.amp.", "amp."
RIGHT = {
    "nothing": (call(OLD + "autocast"), call(NEW + "autocast", CUDA)),
    "torch.autocast": (call(OLD + "autocast", AMP), call("autocast", CUDA, enabled=AMP)),
    "off": (call(OLD + "autocast", OFF), call(NEW + "autocast", CUDA, enabled=OFF)),
    "all": (
        call(OLD + "autocast", ON, BFLOAT, OFF),
        call(NEW + "autocast", CUDA, enabled=ON, dtype=BFLOAT, cache_enabled=OFF),
    ),
    "unknown": (
        call(OLD + "autocast", AMP, Input("dtype"), Input("cache")),
        call(NEW + "autocast", CUDA, Input("dtype"), AMP, Input("cache")),
    ),
    "cpu": (call("cpu.amp.autocast"), call(NEW + "autocast", CPU)),
    "scale": (call(OLD + "GradScaler", Const(8.0)), call(NEW + "GradScaler", CUDA, Const(8.0))),
    "scaler": (
        call(OLD + "GradScaler", enabled=AMP, growth_interval=Input("n")),
        call(NEW + "GradScaler", CUDA, enabled=AMP, growth_interval=Input("n")),
    ),
    "cpu scaler": (call("cpu.amp.GradScaler"), call(NEW + "GradScaler", CPU)),
    "bare forward": (decorator(OLD + "custom_fwd"), call(NEW + "custom_fwd", device_type=CUDA)),
    "forward": (
        call(OLD + "custom_fwd", cast_inputs=FLOAT),
        call(NEW + "custom_fwd", device_type=CUDA, cast_inputs=FLOAT),
    ),
    "backward": (decorator(OLD + "custom_bwd"), call(NEW + "custom_bwd", device_type=CUDA)),
    "partial": (partial(OLD + "autocast", OFF), partial(NEW + "autocast", CUDA, enabled=OFF)),
    "gpu dtype": (call("get_autocast_gpu_dtype"), call("get_autocast_dtype", CUDA)),
    "cpu enabled": (call("is_autocast_cpu_enabled"), call("is_autocast_enabled", CPU)),
    "set cpu enabled": (
        call("set_autocast_cpu_enabled", AMP),
        call("set_autocast_enabled", CPU, AMP),
    ),
}


@pytest.mark.parametrize(("before", "after"), RIGHT.values(), ids=RIGHT)
def test_equal_objects_are_proven(before: Use, after: Use) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = judged(before, after)
    assert found.verdict is PROVEN
    assert found.before is not None and found.before.check == "warns"
    assert "deprecated" in found.before.text


def test_other_arguments_of_a_deprecated_call_are_no_matter() -> None:
    found = judged(call(OLD + "autocast", OFF), call(OLD + "autocast", enabled=OFF))
    assert found.verdict is PROVEN and found.before is None
    assert found.statement.startswith("no numeric effect")


MEANT = {
    "with": (asked("autocast"), call("autocast", CUDA)),
    "with the old one": (asked(OLD + "autocast"), call(OLD + "autocast")),
    "decorator": (decorator("amp.autocast"), call("amp.autocast", CUDA)),
    "old decorator": (decorator("cpu.amp.autocast"), call("cpu.amp.autocast")),
}


@pytest.mark.parametrize(("before", "after"), MEANT.values(), ids=MEANT)
def test_a_class_in_the_place_of_a_context(before: Use, after: Use) -> None:
    found = judged(before, after)
    assert found.verdict is PROVEN
    assert found.before is not None and found.before.check == "raises"
    assert judged(before, replace(after, args=())).verdict is (
        PROVEN if not after.args else REFUTED
    )
    for wrong in (
        replace(after, keywords=(("enabled", OFF),)),
        replace(after, args=(CPU,)),
        replace(after, args=(CUDA, ON)),
        replace(after, keywords=(("dtype", Const("float16")),)),
    ):
        assert judged(before, wrong).verdict is REFUTED


WRONG = {
    "device forgotten": (call(OLD + "autocast", OFF), call(NEW + "autocast", OFF)),
    "bool as dtype": (call(OLD + "autocast", OFF), call(NEW + "autocast", CUDA, OFF)),
    "positional": (
        call(OLD + "autocast", ON, HALF),
        call(NEW + "autocast", CUDA, ON, HALF),
    ),
    "partial": (partial(OLD + "autocast", OFF), partial(NEW + "autocast", CUDA, OFF)),
    "always on": (call(OLD + "autocast", AMP), call(NEW + "autocast", CUDA)),
    "other dtype": (call(OLD + "autocast"), call(NEW + "autocast", CUDA, dtype=BFLOAT)),
    "no cache": (call(OLD + "autocast"), call(NEW + "autocast", CUDA, cache_enabled=OFF)),
    "other device": (call(OLD + "autocast"), call(NEW + "autocast", CPU)),
    "scale as device": (
        call(OLD + "GradScaler", Const(1024.0)),
        call(NEW + "GradScaler", Const(1024.0)),
    ),
    "scale forgotten": (call(OLD + "GradScaler", Const(1024.0)), call(NEW + "GradScaler", CUDA)),
    "backoff": (
        call(NEW + "GradScaler", CUDA),
        call(NEW + "GradScaler", CUDA, backoff_factor=Const(0.75)),
    ),
    "bool as scale": (call(NEW + "GradScaler", CUDA), call(NEW + "GradScaler", CUDA, OFF)),
    "enabled inverted": (
        call(OLD + "GradScaler", enabled=AMP),
        call(NEW + "GradScaler", CUDA, enabled=Input("not use_amp")),
    ),
    "bare forward": (decorator(OLD + "custom_fwd"), decorator(NEW + "custom_fwd")),
    "bare backward": (decorator(OLD + "custom_bwd"), decorator(NEW + "custom_bwd")),
    "no device": (
        call(OLD + "custom_fwd", cast_inputs=FLOAT),
        call(NEW + "custom_fwd", cast_inputs=FLOAT),
    ),
    "other cast": (
        call(OLD + "custom_fwd", cast_inputs=FLOAT),
        call(NEW + "custom_fwd", device_type=CUDA),
    ),
    "forward of another device": (
        decorator(OLD + "custom_fwd"),
        call(NEW + "custom_fwd", device_type=CPU),
    ),
    "backward of another device": (
        decorator(OLD + "custom_bwd"),
        call(NEW + "custom_bwd", device_type=CPU),
    ),
    "no such name": (call(OLD + "autocast"), call(OLD + "amp.autocast", CUDA)),
    "still deprecated": (call("cpu.amp.autocast"), call(OLD + "autocast")),
    "whether it is on for another device": (
        call("is_autocast_enabled", CPU),
        call("is_autocast_enabled"),
    ),
    "dtype of another device": (
        call("get_autocast_gpu_dtype"),
        call("get_autocast_dtype", CPU),
    ),
}


@pytest.mark.parametrize(("before", "after"), WRONG.values(), ids=WRONG)
def test_other_objects_are_refuted(before: Use, after: Use) -> None:
    found = judged(before, after)
    assert found.verdict is REFUTED
    assert found.after is not None and found.after.text == found.statement


def test_a_counterexample_names_the_argument() -> None:
    found = judged(*WRONG["always on"])
    assert found.after is not None and found.after.input == "use_amp=False"
    assert found.after.text == "enabled is True instead of False"


def test_a_nested_region_must_keep_its_dtype() -> None:
    old, new = call(OLD + "autocast"), call(NEW + "autocast", CUDA)
    assert judged(old, new).verdict is PROVEN
    found = judged(old, new, nested=True)
    assert found.verdict is REFUTED
    assert found.after is not None and found.after.input == "autocast=bfloat16"
    written = call(NEW + "autocast", CUDA, dtype=HALF)
    assert judged(old, written, nested=True).verdict is PROVEN


def test_a_nested_region_that_is_off_casts_nothing() -> None:
    old = call(OLD + "autocast", enabled=OFF)
    new = call(NEW + "autocast", CUDA, enabled=OFF)
    assert judged(old, new, nested=True).verdict is PROVEN


@pytest.mark.parametrize("kind", ["type", "exact type"])
@pytest.mark.parametrize("name", ["cuda.amp.GradScaler", "amp.GradScaler"])
def test_a_test_of_what_is_made_must_say_what_it_said(name: str, kind: str) -> None:
    made = call(OLD + "GradScaler"), call(NEW + "GradScaler", CUDA)
    before, after = asked(OLD + "GradScaler", kind=kind), asked(name, kind=kind)
    found = objects.judge(Object(HERE, before, after, made=(made,)), ProofSettings())
    assert found.verdict is (PROVEN if name.startswith("amp") else REFUTED)


def test_a_test_for_one_of_several_classes() -> None:
    made = call(OLD + "autocast"), call(NEW + "autocast", CUDA)
    either = asked(OLD + "autocast", NEW + "autocast")
    found = objects.judge(Object(HERE, either, either, made=(made,)), ProofSettings())
    assert found.verdict is PROVEN


def test_an_exact_test_of_what_is_made_elsewhere() -> None:
    old, new = (asked(name + "GradScaler", kind="exact type") for name in (OLD, NEW))
    assert judged(old, new).verdict is REFUTED
    assert judged(replace(old, kind="type"), replace(new, kind="type")).verdict is PROVEN
    assert judged(old, replace(new, kind="type")).verdict is Verdict.NOT_COMPARABLE


def test_who_calls_a_class_that_is_handed_on_is_not_known() -> None:
    found = judged(handed_on(OLD + "GradScaler"), handed_on(NEW + "GradScaler"))
    assert found.verdict is Verdict.NOT_COMPARABLE
    home = handed_on(NEW + "grad_scaler.GradScaler"), handed_on(NEW + "GradScaler")
    assert judged(*home).verdict is PROVEN


def test_a_name_that_does_not_exist() -> None:
    found = judged(asked(OLD + "GradScaler"), asked(OLD + "amp.GradScaler"))
    assert found.verdict is REFUTED
    assert found.after is not None and "AttributeError" in found.after.text


def test_what_is_not_known_is_not_compared() -> None:
    old, new = call(OLD + "autocast"), call(NEW + "autocast", CUDA)
    starred = judged(replace(old, starred=True), replace(new, starred=True))
    assert starred.verdict is Verdict.NOT_COMPARABLE
    assert judged(old, call("nn.Linear", Const(1))).verdict is Verdict.NOT_COMPARABLE


def test_nothing_of_torch_is_left_changed() -> None:
    before = torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")
    judged(call("set_autocast_cpu_dtype", HALF), call("set_autocast_dtype", CPU, HALF))
    judged(*RIGHT["set cpu enabled"])
    assert (torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")) == before
    unavailable = torch.cuda.amp.common.amp_definitely_not_available
    assert unavailable() is not torch.cuda.is_available()  # type: ignore[no-untyped-call]


NEEDED = {
    "raises": WRONG["device forgotten"],
    "warns": (call("autocast", CUDA), call(OLD + "autocast")),
    "attributes": WRONG["always on"],
    "isinstance": (asked(OLD + "GradScaler"), asked("amp.autocast")),
}


def test_an_annotation_asks_nothing_but_that_it_exists() -> None:
    old = annotation(OLD + "GradScaler")
    assert judged(old, annotation(NEW + "GradScaler")).verdict is PROVEN
    assert judged(annotation(NEW + "GradScaler"), old).verdict is PROVEN
    assert judged(old, annotation(OLD + "Missing")).verdict is REFUTED
    assert judged(asked(NEW + "GradScaler"), asked(OLD + "GradScaler")).verdict is REFUTED


@pytest.mark.parametrize("check", NEEDED)
def test_without_a_check_a_wrong_use_passes(check: str) -> None:
    before, after = NEEDED[check]
    assert judged(before, after).verdict is REFUTED
    assert judged(before, after, check).verdict is PROVEN


# --- the dtype of operations --------------------------------------------------------------------

FP16, BF16 = Autocast("cuda", "float16"), Autocast("cuda", "bfloat16")
X = Input("x")


def moved(term: Term, before: Autocast | None, after: Autocast | None) -> Judgement:
    return policy.judge(Policy(HERE, term, before, after), ProofSettings())


def function(name: str, *args: Term, **keywords: Term) -> Op:
    return Op(Form.FUNCTION, f"torch.{name}", args, tuple(sorted(keywords.items())))


INDIFFERENT = {
    "relu": function("relu", X),
    "x + y": Op(Form.OPERATOR, "add", (X, Input("y"))),
    "mean": Op(Form.METHOD, "mean", (X,)),
    "detach": Op(Form.METHOD, "detach", (X,)),
}
CAST = {
    "x @ w": Op(Form.OPERATOR, "matmul", (X, Input("w"))),
    "linear": function("nn.functional.linear", X, Input("w")),
    "model(x)": Op(Form.APPLY, "", (Input("model"), X)),
    "mse_loss": function("nn.functional.mse_loss", X, Input("y")),
    "of a call": function("matmul", Op(Form.APPLY, "", (Input("model"), X)), Input("w")),
}


@pytest.mark.parametrize("term", INDIFFERENT.values(), ids=INDIFFERENT)
def test_what_autocast_leaves_alone_may_move(term: Term) -> None:
    assert moved(term, FP16, None).verdict is PROVEN
    assert moved(term, None, BF16).verdict is PROVEN


@pytest.mark.parametrize("term", CAST.values(), ids=CAST)
def test_what_autocast_casts_may_not_move(term: Term) -> None:
    found = moved(term, FP16, None)
    assert found.verdict is REFUTED
    assert found.after is not None and found.after.check == "dtype"
    other = PROVEN if term is CAST["mse_loss"] else REFUTED  # float32 in either
    assert moved(term, FP16, BF16).verdict is other
    assert moved(term, Autocast("cuda", ""), FP16).verdict is PROVEN
    assert moved(term, None, replace(FP16, enabled=False)).verdict is PROVEN


def test_settings_that_are_not_literals_may_be_anything() -> None:
    product = CAST["x @ w"]
    assert moved(product, None, replace(FP16, enabled=None)).verdict is REFUTED
    assert moved(product, FP16, replace(FP16, dtype=None)).verdict is REFUTED
    assert moved(product, replace(FP16, dtype=None), replace(FP16, dtype=None)).verdict is PROVEN


def wide(term: Term) -> Op:
    return Op(Form.METHOD, "float", (term,))


ISLAND = replace(FP16, enabled=False)
TRANSPOSED = Op(Form.METHOD, "transpose", (wide(Input("k")), Const(-2), Const(-1)))


@pytest.mark.parametrize("key", [wide(Input("k")), TRANSPOSED], ids=["plain", "transposed"])
def test_casts_to_float32_may_come_to_count(key: Term) -> None:
    product = function("matmul", wide(X), key)
    found = moved(product, FP16, ISLAND)
    assert (found.verdict, found.after) == (PROVEN, None)
    assert "casts" in found.statement
    assert moved(product, ISLAND, FP16).verdict is REFUTED
    assert moved(product, FP16, BF16).verdict is REFUTED
    assert moved(function("matmul", wide(X), Input("k")), FP16, ISLAND).verdict is REFUTED
