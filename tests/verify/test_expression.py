"""Right fixes of an expression are proven, tempting wrong ones refuted, for every seed."""

from __future__ import annotations

import ast

import pytest

from amp_lint.verify.experiments.expression import judge
from amp_lint.verify.obligations import Expression, Place
from amp_lint.verify.proof import Judgement, Settings, Verdict
from amp_lint.verify.terms import Const, Form, Global, Input, Op, Seq, Term, Value

EAGER = Settings(modes=("eager",), examples=30)

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


def judged(before: str, after: str, settings: Settings = EAGER) -> Judgement:
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
NORM = "nn.LayerNorm(64, eps=1e-12)"
CALLED = "nn.LayerNorm(64, eps=1e-12)(x)"

RIGHT = [
    (KD, "F.log_softmax(x / T, dim=1)"),
    (DTYPE, "F.log_softmax(x, dim=-1, dtype=torch.float32)"),
    (METHOD, "x.log_softmax(-1)"),
    (MODULE, "nn.LogSoftmax(dim=-1)(x)"),
    (LOSS, "F.nll_loss(torch.log_softmax(x, 1), y)"),
    (LOSS, "F.cross_entropy(x, y)"),
    (PICKED, "x.log_softmax(-1).gather(-1, y)"),
    ("-(x.softmax(-1) * x.softmax(-1).log()).sum(-1)", "-(x.softmax(-1) * x.log_softmax(-1)).sum(-1)"),
    ("F.softmax(x, dim=d).log()", "F.log_softmax(x, dim=d)"),
    ("torch.log(F.softmax(x))", "F.log_softmax(x)"),
    ("torch.log(torch.softmax(head(x), -1)[0])", "torch.log_softmax(head(x), -1)[0]"),
    ("torch.log(torch.softmax(x, -1)[i])", "torch.log_softmax(x, -1)[i]"),
    (FLOORED, "F.log_softmax(x, dim=1)"),
    (CLAMPED, "x.log_softmax(dim=1)"),
    (HELPED, "x.log_softmax(dim=1)"),
    ("F.kl_div(torch.log(F.softmax(s / T, dim=1)), F.softmax(t / T, dim=1), reduction='batchmean') * T ** 2",
     "F.kl_div(F.log_softmax(s / T, dim=1), F.softmax(t / T, dim=1), reduction='batchmean') * T ** 2"),
    (NORM, "nn.LayerNorm(64, eps=1e-5)"),
    (NORM, "nn.LayerNorm(64, eps=1e-7)"),
    (CALLED, "nn.LayerNorm(64, eps=1e-5)(x)"),
    ("nn.LayerNorm(width, 1e-12)", "nn.LayerNorm(width, 1e-5)"),
    ("nn.GroupNorm(8, width, 1e-8)", "nn.GroupNorm(8, width, 1e-5)"),
    ("F.rms_norm(x, (x.shape[-1],), eps=1e-10)", "F.rms_norm(x, (x.shape[-1],), eps=1e-5)"),
    ("F.layer_norm(x, x.shape[-1:], None, None, 1e-12)", "F.layer_norm(x, x.shape[-1:], None, None, 1e-5)"),
    ("F.group_norm(x, 4, w, b, 1e-12)", "F.group_norm(x, 4, w, b, 1e-5)"),
]  # fmt: skip

WRONG = [
    (KD, "F.log_softmax(x, dim=1)"),
    (KD, "F.log_softmax(x / T, dim=0)"),
    (KD, "F.log_softmax(x / T, dim=-1)"),
    (KD, "-F.log_softmax(x / T, dim=1)"),
    (KD, "torch.log(F.softmax(x / T, dim=1) + 1e-8)"),
    (DTYPE, "F.log_softmax(x, dim=-1)"),
    (DTYPE, "torch.log(F.softmax(x, dim=-1, dtype=torch.float32).clamp(min=1e-7))"),
    (METHOD, "x.log_softmax(0)"),
    (METHOD, "(x - x.amax(-1, keepdim=True)).softmax(-1).log()"),
    (METHOD, "x.detach().log_softmax(-1)"),
    (MODULE, "torch.log(nn.LogSoftmax(dim=-1)(x))"),
    (MODULE, "torch.log1p(nn.Softmax(dim=-1)(x))"),
    (LOSS, "F.cross_entropy(torch.softmax(x, 1), y)"),
    (LOSS, "F.cross_entropy(torch.log(torch.softmax(x, 1)), y)"),
    (PICKED, "x.gather(-1, y).log_softmax(-1)"),
    (PICKED, "x.log_softmax(-1)"),
    ("nn.Softmax(dim=-1)", "nn.LogSoftmax(dim=-1)"),
    ("-(x.softmax(-1) * x.softmax(-1).log()).sum(-1)", "-(x.softmax(-1) * x.softmax(-1)).sum(-1)"),
    (FLOORED, "F.log_softmax(x + 1e-8, dim=0)"),
    (CLAMPED, "x.clamp(min=1e-7, max=1.0).log_softmax(dim=1)"),
    (HELPED, "x.log_softmax(dim=1).clamp(min=1e-20).log()"),
    ("torch.linalg.inv(x.float())", "torch.linalg.inv(x)"),
    ("1024 * F.cross_entropy(x, y)", "F.cross_entropy(x, y)"),
    (NORM, "nn.LayerNorm(64, eps=0.0)"),
    (NORM, "nn.LayerNorm(64, eps=1e-10)"),
    (NORM, "nn.LayerNorm(64, eps=1e-12).half()"),
    (NORM, "nn.LayerNorm(64, eps=1.0)"),
    (NORM, "nn.RMSNorm(64, eps=1e-5)"),
    (NORM, NORM),
    (CALLED, "nn.LayerNorm(64, eps=1e-12)(x.float())"),
    (CALLED, "nn.LayerNorm(64, eps=1e-12).half()(x)"),
    (CALLED, "nn.RMSNorm(64, eps=1e-5)(x)"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), RIGHT)
def test_a_right_fix_is_proven(before: str, after: str) -> None:
    found = judged(before, after)
    assert found.verdict is Verdict.PROVEN, found
    assert found.before is not None
    assert all((m.value_error or 0) <= 1 and (m.gradient_error or 0) <= 1 for m in found.measured)


@pytest.mark.parametrize(("before", "after"), WRONG)
def test_a_wrong_fix_is_refuted(before: str, after: str) -> None:
    found = judged(before, after)
    assert found.verdict is Verdict.REFUTED, found
    assert found.after is not None
