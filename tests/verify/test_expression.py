"""Right fixes of an expression are proven, tempting wrong ones refuted, for every seed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from amp_lint.verify import terms
from amp_lint.verify.experiments import trial
from amp_lint.verify.experiments.expressions import levels
from amp_lint.verify.experiments.expressions.examination import judge
from amp_lint.verify.experiments.inputs import InputCase, InputKind, Scenario
from amp_lint.verify.experiments.modes import Compiled, Precision
from amp_lint.verify.obligations import Expression, Place
from amp_lint.verify.proof import Judgement, ProofSettings, Verdict
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, Value

EAGER = ProofSettings(modes=("eager",), dtypes=("float16", "float32"), examples=5)

_SPACES = {"F": "torch.nn.functional", "nn": "torch.nn", "torch": "torch", "math": "math"}
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Pow: "pow",
    ast.MatMult: "matmul", ast.USub: "neg",
}  # fmt: skip


def term(source: str) -> Term:
    """A Python expression as a term; names that are no modules are inputs."""
    return _term(ast.parse(source, mode="eval").body)


def _qualified(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return _SPACES.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _qualified(node.value)
        return f"{owner}.{node.attr}" if owner else None
    return None


def _term(node: ast.expr) -> Term:
    name = _qualified(node)
    if name:
        return Global(name)
    match node:
        case ast.Constant(value):
            assert isinstance(value, Value)
            return Const(value)
        case ast.Name(key):
            return Input(key)
        case ast.Attribute(value, attr):
            return Op(Form.ATTRIBUTE, attr, (_term(value),))
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return Const(-value)
        case ast.UnaryOp(op, operand):
            return Op(Form.OPERATOR, _OPERATORS[type(op)], (_term(operand),))
        case ast.BinOp(left, op, right):
            return Op(Form.OPERATOR, _OPERATORS[type(op)], (_term(left), _term(right)))
        case ast.Compare(left, [ast.Gt()], [right]):
            return Op(Form.OPERATOR, "gt", (_term(left), _term(right)))
        case ast.Tuple(items):
            return Seq("tuple", tuple(map(_term, items)))
        case ast.Slice(lower, upper, step):
            parts = (lower, upper, step)
            return Seq("slice", tuple(_term(p) if p else Const(None) for p in parts))
        case ast.Subscript(value, index):
            return Op(Form.OPERATOR, "getitem", (_term(value), _term(index)))
        case ast.Call():
            return _call(node)
    raise AssertionError(ast.dump(node))


def _call(node: ast.Call) -> Op:
    args = tuple(map(_term, node.args))
    named = tuple(sorted((str(k.arg), _term(k.value)) for k in node.keywords))
    name = _qualified(node.func)
    if name:
        is_class = name.rpartition(".")[2][0].isupper()
        return Op(Form.MODULE if is_class else Form.FUNCTION, name, args, named)
    if isinstance(node.func, ast.Attribute):
        return Op(Form.METHOD, node.func.attr, (_term(node.func.value), *args), named)
    if isinstance(node.func, ast.Name):
        return Op(Form.OTHER, f"call of {node.func.id}", args, named)
    return Op(Form.APPLY, "", (_term(node.func), *args), named)


def judged(before: str, after: str, settings: ProofSettings = EAGER) -> Judgement:
    return judge(Expression(Place(1, 1), term(before), term(after)), settings)


KD = "torch.log(F.softmax(x / T, dim=1))"
DTYPE = "torch.log(F.softmax(x, dim=-1, dtype=torch.float32))"
METHOD = "x.softmax(-1).log()"
MODULE = "torch.log(nn.Softmax(dim=-1)(x))"
LOSS = "F.nll_loss(torch.log(torch.softmax(x, 1)), y)"
PICKED = "x.softmax(-1).gather(-1, y).log()"
FLOORED = "torch.log(F.softmax(x, dim=1) + 1e-8)"
CLAMPED = "x.softmax(dim=1).clamp(min=1e-7, max=1.0).log()"
HELPED = "x.softmax(dim=1).clamp(min=1e-20).log()"
ENTROPY = "-(x.softmax(-1) * x.softmax(-1).log()).sum(-1)"
DISTILLED = "F.kl_div({}, F.softmax(t / T, dim=1), reduction='batchmean') * T ** 2"
NORM = "nn.LayerNorm(64, eps=1e-12)"
CALLED = "nn.LayerNorm(64, eps=1e-12)(x)"
VIEWED = "F.layer_norm(x, x.shape[-1:], None, None, {})"

RIGHT = [
    (KD, "F.log_softmax(x / T, dim=1)"),
    (DTYPE, "F.log_softmax(x, dim=-1, dtype=torch.float32)"),
    (METHOD, "x.log_softmax(-1)"),
    (MODULE, "nn.LogSoftmax(dim=-1)(x)"),
    (LOSS, "F.nll_loss(torch.log_softmax(x, 1), y)"),
    (PICKED, "x.log_softmax(-1).gather(-1, y)"),
    (ENTROPY, "-(x.softmax(-1) * x.log_softmax(-1)).sum(-1)"),
    (DISTILLED.format(KD), DISTILLED.format("F.log_softmax(x / T, dim=1)")),
    ("F.softmax(x, dim=d).log()", "F.log_softmax(x, dim=d)"),
    ("torch.log(torch.softmax(head(x), -1)[i])", "torch.log_softmax(head(x), -1)[i]"),
    (FLOORED, "F.log_softmax(x, dim=1)"),
    (CLAMPED, "x.log_softmax(dim=1)"),
    (NORM, "nn.LayerNorm(64, eps=1e-5)"),
    (CALLED, "nn.LayerNorm(64, eps=1e-7)(x)"),
    ("nn.GroupNorm(8, width, 1e-8)", "nn.GroupNorm(8, width, 1e-5)"),
    ("F.rms_norm(x, (x.shape[-1],), eps=1e-10)", "F.rms_norm(x, (x.shape[-1],), eps=1e-5)"),
    (VIEWED.format("1e-12"), VIEWED.format("1e-5")),
    ("F.group_norm(x, 4, w, b, 1e-12)", "F.group_norm(x, 4, w, b, 1e-5)"),
    (
        "nn.BCELoss(weight=w)(torch.sigmoid(x), y)",
        "nn.BCEWithLogitsLoss(weight=w)(x, y)",
    ),
    (
        "nn.NLLLoss(w, reduction='sum')(torch.log(F.softmax(x, 1)), y)",
        "nn.CrossEntropyLoss(w, reduction='sum')(x, y)",
    ),
]
NEAR = "F.relu(0.01 - (x.double() - y).pow(2).mean())"
"""What only tensors show that are all near to each other."""

WRONG = [
    (KD, "F.log_softmax(x, dim=1)", "value"),
    (KD, "F.log_softmax(x / T, dim=0)", "value"),
    (KD, "F.log_softmax(x / T, dim=-1)", "value"),
    (KD, "-F.log_softmax(x / T, dim=1)", "value"),
    (KD, "torch.log(F.softmax(x / T, dim=1) + 1e-8)", "finite"),
    (DTYPE, "F.log_softmax(x, dim=-1)", "dtype"),
    (DTYPE, "torch.log(F.softmax(x, dim=-1, dtype=torch.float32).clamp(min=1e-7))", "value"),
    (METHOD, "x.log_softmax(0)", "value"),
    (METHOD, "(x - x.amax(-1, keepdim=True)).softmax(-1).log()", "finite"),
    (METHOD, "x.detach().log_softmax(-1)", "value"),
    (MODULE, "torch.log(nn.LogSoftmax(dim=-1)(x))", "finite"),
    (MODULE, "torch.log1p(nn.Softmax(dim=-1)(x))", "value"),
    (LOSS, "F.cross_entropy(torch.softmax(x, 1), y)", "value"),
    (LOSS, "F.cross_entropy(torch.log(torch.softmax(x, 1)), y)", "finite"),
    (PICKED, "x.gather(-1, y).log_softmax(-1)", "value"),
    (PICKED, "x.log_softmax(-1)", "shape"),
    ("nn.Softmax(dim=-1)", "nn.LogSoftmax(dim=-1)", "value"),
    (ENTROPY, "-(x.softmax(-1) * x.softmax(-1)).sum(-1)", "value"),
    (FLOORED, "F.log_softmax(x + 1e-8, dim=0)", "value"),
    (CLAMPED, "x.clamp(min=1e-7, max=1.0).log_softmax(dim=1)", "value"),
    (HELPED, "x.log_softmax(dim=1).clamp(min=1e-20).log()", "finite"),
    ("torch.linalg.inv(x.float())", "torch.linalg.inv(x)", "raises"),
    ("1024 * F.cross_entropy(x, y)", "F.cross_entropy(x, y)", "value"),
    (NORM, "nn.LayerNorm(64, eps=0.0)", "finite"),
    (NORM, "nn.LayerNorm(64, eps=1e-10)", "finite"),
    (NORM, "nn.LayerNorm(64, eps=1e-12).half()", "raises"),
    (NORM, "nn.LayerNorm(64, eps=1.0)", "guard"),
    (NORM, "nn.RMSNorm(64, eps=1e-5)", "value"),
    (NORM, NORM, "finite"),
    (CALLED, "nn.LayerNorm(64, eps=1e-12)(x.float())", "raises"),
    (NORM, "nn.LayerNorm(64, eps=1e-5, elementwise_affine=False)", "value"),
    (NORM, "nn.LayerNorm(64, eps=1e-5, bias=False)", "value"),
    (
        "(q @ k.transpose(-1, -2)).softmax(-1).log().sum(-1).mean()",
        "(q @ k.transpose(-1, -2)).log_softmax(-1).sum(-2).mean()",
        "value",
    ),
    ("idx.long()", "idx.half().long()", "value"),
    (NEAR, NEAR.replace("0.01", "0.02"), "value"),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors are tiny, and other tests run beside these."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("before", "after"), RIGHT)
def test_a_right_fix_is_proven(before: str, after: str) -> None:
    found = judged(before, after)
    assert found.verdict is Verdict.PROVEN, found
    assert found.before is not None
    assert all((m.value_error or 0) <= 1 and (m.gradient_error or 0) <= 1 for m in found.measured)


@pytest.mark.parametrize(("before", "after", "check"), WRONG)
def test_a_wrong_fix_is_refuted(before: str, after: str, check: str) -> None:
    found = judged(before, after)
    assert found.verdict is Verdict.REFUTED, found
    assert found.after is not None
    assert found.after.check == check, found.after


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (KD, "F.log_softmax(x / T, dim=1)", Verdict.PROVEN),
        (KD, "F.log_softmax(x / T, dim=-1)", Verdict.REFUTED),
        (NORM, "nn.LayerNorm(64, eps=1e-7)", Verdict.PROVEN),
        (NORM, "nn.LayerNorm(64, eps=1e-10)", Verdict.REFUTED),
    ],
)
def test_seeds_agree(before: str, after: str, verdict: Verdict) -> None:
    for seed, dtype in ((1, "float16"), (2, "bfloat16"), (3, "float32")):
        settings = replace(EAGER, seed=seed, dtypes=tuple({"float16": 1, dtype: 1}))
        assert judged(before, after, settings).verdict is verdict


def test_a_mean_may_overflow_on_its_way() -> None:
    """With this seed there is an input whose numbers add up to more than bfloat16 holds."""
    settings = replace(EAGER, seed=39, dtypes=("bfloat16",))
    before = "F.binary_cross_entropy(torch.sigmoid(model(x)), y)"
    after = "F.binary_cross_entropy_with_logits(model(x), y)"
    assert judged(before, after, settings).verdict is Verdict.PROVEN


@pytest.mark.parametrize(
    ("before", "after", "check"),
    [
        (KD.replace("/", "*"), "F.log_softmax(x, dim=1)", "value"),
        ("torch.log(x.clamp(min=1e-6))", "torch.log(x)", "finite"),
        (DTYPE, "F.log_softmax(x, dim=-1)", "dtype"),
        (PICKED, "x.log_softmax(-1)", "shape"),
        ("torch.linalg.inv(x.float())", "torch.linalg.inv(x)", "raises"),
        (NORM, "nn.LayerNorm(64, eps=1.0)", "guard"),
    ],
)
def test_every_check_is_needed(before: str, after: str, check: str) -> None:
    found = judged(before, after, replace(EAGER, disabled=frozenset({check})))
    assert found.verdict is Verdict.PROVEN, found


def test_the_failure_is_told_with_its_smallest_input() -> None:
    found = judged(METHOD, "x.log_softmax(-1)")
    assert found.before is not None
    assert found.before.check == "finite"
    assert found.before.text == "-inf instead of -18 at [0, 18] (float16)"
    assert found.before.input == "x = torch.tensor([[0.0, 18.0]], dtype=torch.float16)"


def test_an_eps_says_what_it_changes() -> None:
    notes = judged(NORM, "nn.LayerNorm(64, eps=1e-5)").notes
    assert notes == (
        "changing eps from 1e-12 to 1e-05 changes rows of standard deviation "
        "1 by 2.6e-05, 0.1 by 0.0026, 0.01 by 0.25",
    )


def test_a_guard_that_half_holds_with_one_digit() -> None:
    """float16 takes 1e-6 for 1.01e-6, and a gradient that was divided by it is off by as much."""
    unit = "(x / (x.norm(dim=1, keepdim=True) + {eps}))"
    similar = f"({unit} * {unit.replace('x', 'y')}).sum(dim=1, keepdim=True)"
    old, new = similar.format(eps="1e-12"), similar.format(eps="1e-6")
    assert (
        judged(old, new, replace(EAGER, disabled=frozenset({"size"}), examples=100)).verdict
        is Verdict.PROVEN
    )


def test_a_lost_guard_is_noted() -> None:
    assert any("guard" in note for note in judged(FLOORED, "F.log_softmax(x, dim=1)").notes)


def test_what_fails_in_both_is_no_repair() -> None:
    """Where all numbers are equal, `std` has a gradient of NaN; the quotient had none before."""
    inner, quotient = "x.std()", "(x - x.mean()) / {}"
    obligation = Expression(
        Place(1, 1, ""),
        term(f"{inner} + 1e-8"),
        term(inner),
        contexts=((term(quotient.format(f"({inner} + 1e-8)")), term(quotient.format(inner))),),
    )
    assert levels.judge(obligation, EAGER).verdict is Verdict.REFUTED


def test_no_numeric_effect() -> None:
    found = judged("x.log_softmax(-1)", "F.log_softmax(x, -1)")
    assert found.verdict is Verdict.PROVEN
    assert found.before is None
    assert "no numeric effect" in found.statement


def test_the_picture_shows_where_the_old_code_breaks() -> None:
    found = judged(METHOD, "x.log_softmax(-1)")
    assert found.axis == "gap between two logits (float16)"
    broken = [point.magnitude for point in found.points if point.before == float("inf")]
    assert 11 < min(broken) < 18
    assert max(broken) == found.points[-1].magnitude == pytest.approx(1e4), "no reference there"
    assert all(point.after < 1e-2 for point in found.points)


def test_compiled_modes_are_measured() -> None:
    settings = ProofSettings(
        modes=("eager", "compiled", "emulated"), dtypes=("float16",), examples=10
    )
    found = judged(METHOD, "x.log_softmax(-1)", settings)
    assert found.verdict is Verdict.PROVEN
    assert {measured.mode for measured in found.measured} == {"eager", "compiled", "emulated"}


def test_modes_that_cannot_be_run_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Compiled, case: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Compiled, "run", full)
    settings = ProofSettings(
        modes=("eager", "compiled", "emulated"), dtypes=("float32",), examples=5
    )
    found = judged(METHOD, "x.log_softmax(-1)", settings)
    assert (found.verdict, found.not_run) == (Verdict.PROVEN, ("compiled", "emulated"))
    assert any("compiled: not run" in note and "No space left" in note for note in found.notes)
    refuted = judged(METHOD, "x.log_softmax(-2)", settings)
    assert (refuted.verdict, refuted.not_run) == (Verdict.REFUTED, ())


def test_a_cast_to_the_dtype_of_another_tensor_is_run() -> None:
    found = judged("x.softmax(-1).type_as(y).log()", "x.log_softmax(-1).type_as(y)")
    assert found.verdict is Verdict.PROVEN


BEYOND = {
    "a floor": (METHOD, "x.log_softmax(-1).clamp(min=-740)"),
    "a ceiling": (METHOD, "x.clamp(-360, 360).log_softmax(-1)"),
    "of a sigmoid": ("torch.log(torch.sigmoid(x))", "F.logsigmoid(x.clamp(min=-743))"),
    "of what is left": ("torch.log(1 - torch.sigmoid(x))", "F.logsigmoid(-x.clamp(max=740))"),
    "of a sum": ("torch.log(torch.exp(x).sum(1))", "torch.logsumexp(x.clamp(max=705), 1)"),
}
"""Wrong only where even float64 gives the old code no finite number."""


@pytest.mark.parametrize("name", BEYOND)
def test_new_code_is_not_its_own_reference(name: str) -> None:
    settings = ProofSettings(modes=("eager",), dtypes=("float32",), examples=5)
    found = judged(*BEYOND[name], settings)
    assert found.verdict is Verdict.REFUTED
    assert not any("held against itself" in note for note in found.notes)


def test_where_nothing_else_is_known_it_is_said() -> None:
    found = judged(
        "torch.log(torch.erfc(x))", "torch.special.log_ndtr(-x * 2 ** 0.5) + math.log(2)"
    )
    assert any("held against itself" in note for note in found.notes)


@pytest.mark.parametrize(
    "hostile",
    [
        "torch.load(x)",
        "torch.save(x, 'stolen')",
        "x.numpy().tofile('stolen')",
        "x.add_(1).log_softmax(-1)",
        "F.dropout(x, 0.5).log_softmax(-1)",
        "torch.rand_like(x)",
        "torch.log_softmax(x, -1, out=x)",
        "F.relu(x, inplace=True).log_softmax(-1)",
        "torch.zeros(10 ** 12) + x",
        "x.log_softmax(-1).repeat(1000000, 1000000)",
        "F.one_hot(x.argmax(-1) * 10 ** 9 + 10**9)",
        "F.pad(x.log_softmax(-1), (10 ** 10, 0))",
        "10 ** (10 ** 10) + x",
        "'a' * 10 ** 10 + x",
        "nn.LayerNorm(10 ** 10)(x)",
        "nn.Linear(8, 8)(x)",
        "math.factorial(x)",
        "x.__class__",
        "torch.ops.aten.add(x, x)",
        "head(x).log_softmax(-1)",
        "x.cpu().log_softmax(-1)",
        "x.log_softmax(-1).to('cuda:1')",
        "x.log_softmax(-1) + torch.zeros(1, device='cuda')",
    ],
)
def test_what_is_not_listed_is_not_run(hostile: str) -> None:
    found = judged(METHOD, hostile)
    assert found.verdict is Verdict.NOT_COMPARABLE, found


def test_what_both_hold_need_not_be_known() -> None:
    dropped = "F.dropout(head(x), 0.5)"
    found = judged(f"{dropped}.softmax(-1).log()", f"{dropped}.log_softmax(-1)")
    assert found.verdict is Verdict.PROVEN


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (NORM, "nn.LayerNorm(64, eps=1e-5, dtype=torch.float16)"),
        (NORM, "nn.LayerNorm(64, eps=1e-5, device='meta')"),
        ("table[idx]", "table[idx.half()]"),
        ("x.softmax(-1).log()[idx.long()]", "x.log_softmax(-1)[idx.half().long()]"),
    ],
)
def test_what_no_experiment_shows_is_not_proven(before: str, after: str) -> None:
    assert judged(before, after).verdict is not Verdict.PROVEN


FILLED = "x.masked_fill(y{}, {}).softmax(-1)"
LEAST = "torch.finfo(x.dtype).min"
PICKED_LOSS = "F.nll_loss({}, y{})"
OLD_LOG, NEW_LOG = "torch.log(torch.softmax(x, 1))", "torch.log_softmax(x, 1)"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("x * 3", "x + x + x", "of integers, as of bool"),
        ("torch.abs(x - y) * 2", "torch.abs(y - x) * 2", "of integers, as of uint8"),
        ("(x - 1) / 2 + y / 2", "(x + y - 1) / 2", "of integers, as of uint8"),
        (FILLED.format(".ne(0)", "-1e9"), FILLED.format("", LEAST), "`y` is not cast any more"),
        (
            "F.binary_cross_entropy(torch.sigmoid(x), y.view(-1).float().view_as(x))",
            "F.binary_cross_entropy_with_logits(x, y.view(-1).view_as(x))",
            "`y` is not cast any more",
        ),
        (
            FILLED.format(".eq(3000)", "-1e9"),
            FILLED.format(".eq(3001)", LEAST),
            "of numbers about 3000",
        ),
        (FILLED.format(".le(99)", "-1e9"), FILLED.format(".lt(99)", LEAST), "of numbers about 99"),
        ("table[y.remainder(777)]", "table[y]", "not kept in its bounds"),
        (
            f"F.nll_loss({OLD_LOG}, y, ignore_index=250)",
            f"F.nll_loss({NEW_LOG}, y, ignore_index=251)",
            "of numbers about 250",
        ),
        (
            f"F.nll_loss({OLD_LOG}, y, ignore_index=250)",
            f"F.nll_loss({NEW_LOG}, y, ignore_index=250)",
            "",
        ),
        ("table[y.clamp(max=table.shape[0] - 1)]", "table[y]", "not kept in its bounds"),
        ("torch.nanmean(x)", "torch.mean(x)", "the result is none any more"),
        ("F.relu6(x)", "F.relu6(x) * x.gt(0)", ""),
        ("F.relu(x + 1)", "(x + 1) * x.gt(-1)", "the result is none any more"),
        ("x.exp().sum()", "x.exp()[: 8 * 8].sum()", "not the function"),
        ("x.exp().sum()", "x.exp()[:5000].sum()", "longer than 5000"),
        (
            "F.l1_loss(x.reshape(-1), y.reshape(-1))",
            "F.l1_loss(x, y)",
            "of which one has an axis more",
        ),
        (
            PICKED_LOSS.format(OLD_LOG, ".flatten()"),
            PICKED_LOSS.format(NEW_LOG, ""),
            "of which one has an axis more",
        ),
        ("x.flatten(1)", "x.view(x.shape[0], -1)", "`view` takes no tensor whose memory"),
        ("first + second + third", "second + third + first", "lists are not the same"),
        (f"({OLD_LOG} * k).sum(1)", f"{NEW_LOG}.sum(1) * k", "if `k` is a number for each class"),
        (f"({OLD_LOG} * k).sum(1)", f"(k * {NEW_LOG}).sum(1)", ""),
        (
            f"F.kl_div({OLD_LOG}, y, reduction='sum')",
            f"F.kl_div({NEW_LOG}, y, reduction='sum') + 0 * y.log().sum()",
            "where `y` is 0 or 1",
        ),
        (
            f"F.cross_entropy({OLD_LOG}, y, label_smoothing=s)",
            f"F.cross_entropy({NEW_LOG}, y, label_smoothing=s / 2)",
            "not the function",
        ),
    ],
)
def test_inputs_may_be_of_another_sort(before: str, after: str, reason: str) -> None:
    found = judged(before, after)
    assert (found.verdict is not Verdict.PROVEN) is bool(reason), found
    assert reason in found.statement


def test_sizes_are_not_all_the_same() -> None:
    swapped = "nn.GroupNorm({}, {}, eps={}, affine=False)(x)"
    before, after = swapped.format("k", "c", "1e-12"), swapped.format("c", "k", "1e-5")
    assert judged(before, after).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("around", "verdict"),
    [("{}.float() * 2", Verdict.PROVEN), ("x + ({}.float() - x).detach()", Verdict.NOT_COMPARABLE)],
)
def test_rounding_may_be_what_is_meant(around: str, verdict: Verdict) -> None:
    inner = "x.half()", "x"
    (before, after), context = ([*map(term, inner)], [term(around.format(i)) for i in inner])
    obligation = Expression(Place(1, 1), before, after, contexts=((context[0], context[1]),))
    assert levels.judge(obligation, EAGER).verdict is verdict


def test_what_is_cut_off_counts_however_little_it_is_in_float16() -> None:
    settings = replace(EAGER, dtypes=("float16",))
    found = judged("x[:512].mean()", "x[:1024].mean()", settings)
    assert found.statement == "what is cut off is something else"


NORMALIZED = "torch.einsum('nc,kc->nk', F.normalize(q, dim=1), F.normalize(k, dim=1))"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("{}.softmax(1)[:, 0].log()", "{}.log_softmax(1)[:, 0]", Verdict.PROVEN),
        ("{}.softmax(1)[:, 0].log()", "{}.log_softmax(1)[:, 1]", Verdict.REFUTED),
        ("{}.softmax(1)[:, 0].log()", "{}.softmax(1)[:, 0].log()", Verdict.REFUTED),
    ],
)
def test_what_both_compute_may_fail_by_itself(before: str, after: str, verdict: Verdict) -> None:
    """In float16, `F.normalize` divides rows of zeros by zero."""
    logits = f"({NORMALIZED} / 0.07)"
    one, other = (term(code.format(logits)) for code in (before, after))
    assert levels.judge(Expression(Place(1, 1), one, other), EAGER).verdict is verdict


def test_an_input_that_is_read_at_another_time_is_another_one() -> None:
    one, other = (
        Op(Form.METHOD, name, (Input("state", at), Const(-1)))
        for name, at in (("softmax", 0), ("log_softmax", 1))
    )
    before = Op(Form.METHOD, "log", (one,))
    found = levels.judge(Expression(Place(1, 1), before, other), EAGER)
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "another time" in found.statement


def test_what_is_read_twice_has_two_values() -> None:
    old, new = Input("state", 0), Input("state", 1)
    moved = Op(Form.OPERATOR, "sub", (new, old))
    nothing = Op(Form.OPERATOR, "sub", (old, Op(Form.OPERATOR, "add", (old, old))))
    both = Op(Form.OPERATOR, "add", (nothing, new))
    found = levels.judge(Expression(Place(1, 1), moved, both), EAGER)
    assert found.verdict is not Verdict.REFUTED
    swapped = Op(Form.OPERATOR, "sub", (old, new))
    assert levels.judge(Expression(Place(1, 1), moved, swapped), EAGER).verdict is Verdict.REFUTED


def test_what_is_asked_of_the_expressions_alone_is_asked_once_a_scenario(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked: list[Term] = []

    def walk(whole: Term) -> Iterator[Term]:
        walked.append(whole)
        return terms.walk(whole)

    monkeypatch.setattr(trial, "walk", walk)
    scenario = Scenario({}, {"x": (2,)}, {"x": InputKind.TENSOR})
    tried = trial.Trial(trial.pair(term("x * 2"), term("x + x")), scenario, "cpu")
    half = Precision("float16")
    for number in (1.0, 2.0, 3.0):
        case = InputCase((number,))
        held = tried.hold(case, half, tried.outcome("after", case, half))
        assert held is not None and not held.misses
    assert len(walked) == 2  # what is fused in one, and whether both have a product


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "F.binary_cross_entropy(input=torch.sigmoid(x), target=y)",
            "F.binary_cross_entropy_with_logits(input=x, target=y)",
        ),
        (
            "F.nll_loss(input=torch.log(F.softmax(input=x, dim=1)), target=y)",
            "F.cross_entropy(input=x, target=y)",
        ),
        ("torch.log(input=torch.sigmoid(input=x))", "F.logsigmoid(x)"),
    ],
)
def test_a_first_argument_by_its_name_is_the_first(before: str, after: str) -> None:
    assert judged(before, after).verdict is Verdict.PROVEN


@pytest.mark.parametrize(
    "given",
    [
        ("{}.squeeze()", "y"),
        ("{}.float()", "y.float()"),
        ("torch.flatten({})", "y.to(torch.float32).view(-1)"),
        ("{}.view(-1)", "y.reshape(-1)"),
    ],
)
def test_a_sigmoid_in_another_shape_or_dtype_saturates_as_well(given: tuple[str, str]) -> None:
    of, labels = given
    loss = "F.binary_cross_entropy{}(" + of + f", {labels})"
    before, after = loss.format("", "torch.sigmoid(x)"), loss.format("_with_logits", "x")
    assert judged(before, after).verdict is Verdict.PROVEN


def test_picked_classes_that_became_their_loss() -> None:
    picked = "-torch.log(torch.softmax(x, 1)).gather(1, y.unsqueeze(1)).mean()"
    found = judged(picked, "F.cross_entropy(x, y)")
    assert found.changes is not None and "few axes" in found.changes.after


def test_an_average_of_a_batch_is_one_of_rows_as_well_only_then() -> None:
    by_hand = "(x.softmax(1) * (x.softmax(1).log() - torch.softmax(y, 1).log())).sum(1).mean()"
    logs = "torch.log_softmax(y, 1), torch.log_softmax(x, 1)"
    found = judged(by_hand, f"F.kl_div({logs}, reduction='batchmean', log_target=True)")
    assert found.changes is not None and "few axes" in found.changes.after


FILLED = "torch.where(x > 1, x, -1e9)"


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("torch.where(x > 1, x, torch.finfo(x.dtype).min)", True),
        ("torch.where(x > 1, x, -3e38)", True),
        ("torch.where(x > 1, x * 1.01, torch.finfo(x.dtype).min)", False),
        ("torch.where(x > 0, x, torch.finfo(x.dtype).min)", False),
        ("torch.where(x > 1, x, torch.finfo(x.dtype).max)", False),
    ],
)
@pytest.mark.parametrize("given", ["{}", "{}.amax(-1)", "torch.amax({}, dim=-1).unsqueeze(-1)"])
def test_another_fill_of_a_mask_is_another_behaviour(after: str, found: bool, given: str) -> None:
    judgement = judged(given.format(FILLED), given.format(after))
    assert judgement.verdict is Verdict.REFUTED
    assert (judgement.changes is not None) is found


def test_a_loss_of_labels_in_float32_is_rounded_as_its_logits() -> None:
    labels = "(y > 0).float()"
    before = f"nn.BCELoss()(torch.sigmoid(x), {labels})"
    assert judged(before, f"nn.BCEWithLogitsLoss()(x, {labels})").verdict is Verdict.PROVEN


@pytest.mark.parametrize(
    ("before", "after", "absent", "reason"),
    [
        ("x.norm(2, dim=d)", "torch.linalg.norm(x, 2, dim=d)", (), "`d` is two axes"),
        ("x.norm(2, dim=d)", "torch.linalg.vector_norm(x, 2, dim=d)", (), ""),
        ("torch.log(F.softmax(x, dim=d))", "torch.log_softmax(x, dim=d)", ("d",), "`d` is None"),
        ("torch.log(F.softmax(x, dim=d))", "torch.log_softmax(x, dim=d)", (), ""),
        ("torch.log(F.softmax(x, dim=d))", "F.log_softmax(x, dim=d)", ("d",), ""),
    ],
)
def test_an_axis_may_be_several_or_none(
    before: str, after: str, absent: tuple[str, ...], reason: str
) -> None:
    asked = Expression(Place(1, 1), term(before), term(after), absent=absent)
    found = levels.judge(asked, EAGER)
    assert found.verdict is (Verdict.NOT_COMPARABLE if reason else Verdict.PROVEN)
    assert reason in found.statement


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("x.half().argsort(dim=0, stable=True)", "x.float().argsort(dim=0)", "keep their order"),
        (
            "x.half().argsort(dim=0, stable=True)",
            "x.float().argsort(dim=0, stable=True)",
            "",
        ),
        ("(x - y).half().float()", "x.float() - y.float()", "may have too many digits"),
        ("(x - y).half().float()", "(x - y).float()", ""),
        ("(x - y).half().double()", "x.double() - y.double()", ""),
    ],
)
def test_what_numbers_of_another_sort_would_show(before: str, after: str, reason: str) -> None:
    found = judged(before, after)
    assert found.verdict is (Verdict.NOT_COMPARABLE if reason else Verdict.PROVEN)
    assert reason in found.statement


def test_new_code_may_not_overflow_where_the_old_one_does_at_other_inputs() -> None:
    before = "(0.5 * ((t - m) ** 2 / torch.exp(v) + torch.log(torch.exp(v)))).mean()"
    after = "(0.5 * ((t - m) ** 2 * torch.exp(-v) + v)).mean()"
    assert judged(before, after).verdict is Verdict.REFUTED


def test_new_code_may_have_a_number_where_the_old_one_has_none() -> None:
    tiny = "torch.log(-torch.expm1({}.sum(-1)))"
    before, after = (tiny.format(each) for each in ("torch.log(1 - p)", "torch.log1p(-p)"))
    assert judged(before, after).verdict is Verdict.PROVEN


def test_gradients_of_a_product_are_rounded_as_products() -> None:
    before = "torch.softmax((q @ k.transpose(-2, -1) / c).half(), dim=-1).to(v.dtype) @ v"
    after = "torch.softmax(q @ k.transpose(-2, -1) / c, -1, dtype=torch.float32).to(v.dtype) @ v"
    assert judged(before, after).verdict is Verdict.PROVEN
    other = after.replace("-1, dtype", "0, dtype")
    assert judged(before, other).verdict is Verdict.REFUTED


OVERLAP = "(2 * (torch.softmax(x, 1) * y).sum(dim=(2, 3)) + k) / ({} + k)"
APART = "torch.softmax(x, 1).sum(dim=(2, 3)) + y.sum(dim=(2, 3))"
AT_ONCE = "(torch.log_softmax(x, 1).exp() + y).sum(dim=(2, 3))"


@pytest.mark.parametrize(
    ("at_once", "verdict"),
    [
        (AT_ONCE, Verdict.PROVEN),
        (AT_ONCE.replace("+ y", "- y"), Verdict.REFUTED),
        (AT_ONCE.replace("+ y", "+ y * y"), Verdict.REFUTED),
        (AT_ONCE.replace("(x, 1)", "(x, 2)"), Verdict.REFUTED),
    ],
)
def test_a_sum_that_roundings_take_past_zero_is_no_divisor(at_once: str, verdict: Verdict) -> None:
    """Of normal numbers in float16, a sum of each sign is next to 0, and its inverse anything."""
    settings = replace(EAGER, dtypes=("float16", "bfloat16", "float32"))
    before, after = OVERLAP.format(APART), OVERLAP.format(at_once)
    assert judged(f"({before}).mean()", f"({after}).mean()", settings).verdict is verdict


SURPRISE = "(w{} * -(y * torch.log(torch.sigmoid(x)) + (1 - y) * torch.log(1 - torch.sigmoid(x))))"
WITH_LOGITS = "F.binary_cross_entropy_with_logits(x, y, weight={}, reduction='sum')"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (SURPRISE.format(""), WITH_LOGITS.format("w"), Verdict.NOT_COMPARABLE),
        (SURPRISE.format(".detach()"), WITH_LOGITS.format("w.detach()"), Verdict.PROVEN),
        (SURPRISE.format(""), WITH_LOGITS.format("w * w"), Verdict.REFUTED),
        (SURPRISE.format(""), WITH_LOGITS.format("torch.sigmoid(x)"), Verdict.REFUTED),
    ],
)
def test_of_weights_of_a_loss_torch_takes_no_gradient(
    before: str, after: str, verdict: Verdict
) -> None:
    over = "{} / w.detach().abs().sum().clamp(min=1)".format
    plain = replace(EAGER, dtypes=("bfloat16", "float32"))
    found = judged(over(f"{before}.sum()"), over(after), plain)
    assert found.verdict is verdict, found
    assert verdict is not Verdict.NOT_COMPARABLE or "gradient is taken of `w`" in found.statement


def test_weights_that_no_gradient_was_taken_of_are_none_now() -> None:
    before = "F.binary_cross_entropy(torch.sigmoid(x), y, weight=w, reduction='sum') / w.sum()"
    after = f"{WITH_LOGITS.format('w')} / w.sum()"
    assert judged(before, after).verdict is Verdict.PROVEN
    assert judged(before, after.replace("/ w.sum()", "/ w.mean()")).verdict is Verdict.REFUTED
