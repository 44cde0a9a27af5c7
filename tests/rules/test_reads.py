"""Looks at scaled gradients that only several functions, or several paths, can show."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

from amp_lint.engine import check
from amp_lint.fixing import fix
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.text.source import Source

HEAD = """\
import torch, wandb
from torch.nn.utils import clip_grad_norm_


def norm_of(model):
    return sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5


def train(model, optimizer, loader, log, args):
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(loader):
        scaler.scale(model(x).mean()).backward()
"""
BY_HAND = "for p in model.parameters():\n    p.grad.div_(scaler.get_scale())\n"
STEP = "scaler.step(optimizer)\nscaler.update()\n"


def program(body: str) -> str:
    """The training loop with these lines after its backward pass."""
    lines = body.splitlines(keepends=True)
    return HEAD + "".join(" " * 8 + line for line in lines)


def selection(*codes: str) -> Selection:
    return Selection(tuple(rule for rule in all_rules() if rule.code in codes))


def found(body: str) -> list[str]:
    """The texts that AMP102 reports."""
    source = Source(program(body).encode(), "train.py")
    return [source.text[d.start : d.end] for d in check(source, selection("AMP102"))]


@pytest.mark.parametrize(
    "measure",
    [
        "p.grad.norm()",
        "p.grad.data.norm(2).item()",
        "p.grad.detach().float().abs().max()",
        "(p.grad ** 2).sum()",
        "torch.linalg.vector_norm(p.grad)",
        "torch.norm(p.grad.detach(), 2)",
        "torch.max(p.grad)",
        "p.grad.clamp_(-1, 1)",
        "p.grad.copy_(p.grad.clamp(-1, 1))",
        "log.add_histogram('grad', p.grad, i)",
        "log.add_histogram('grad', values=p.grad.detach().cpu().numpy())",
        "wandb.Histogram(p.grad.data.cpu())",
    ],
)
def test_measures(measure: str) -> None:
    assert found(f"log([{measure} for p in model.parameters()])\n{STEP}")


@pytest.mark.parametrize(
    ("test", "clips", "measures"), [("args.clip", "if", "else"), ("not args.clip", "else", "if")]
)
def test_a_test_whether_to_clip(test: str, clips: str, measures: str) -> None:
    blocks = {
        clips: "    scaler.unscale_(optimizer)\n    n = clip_grad_norm_(model.parameters(), 1)\n",
        measures: "    n = [p.grad.norm() for p in model.parameters()]\n",
    }
    assert found(f"if {test}:\n{blocks['if']}else:\n{blocks['else']}{STEP}")


@pytest.mark.parametrize(
    "harmless",
    [
        "p.grad is None",
        "p.grad.shape",
        "torch.isfinite(p.grad).all()",
        "torch.isnan(p.grad.sum())",
        "p.grad.sign()",
        "p.grad.abs().sum() == 0",
        "(p.grad.norm() > 0)",
        "p.grad.norm() / first.grad.norm()",
        "p.data.norm()",
        "p.grad.clone()",
        "log.add_histogram('weight', p.data, i)",
    ],
)
def test_what_the_scale_does_not_change(harmless: str) -> None:
    assert found(f"log([{harmless} for p in model.parameters()])\n{STEP}") == []


@pytest.mark.parametrize(
    ("scaler", "count"),
    [("GradScaler('cuda')", 1), ("GradScaler('cuda', enabled=False)", 0), ("sgd()", 0)],
)
def test_watched_where_the_scaler_is_made(scaler: str, count: int) -> None:
    text = (
        "import torch\nimport wandb\nfrom engine import fit\n\n"
        f"scaler = torch.amp.{scaler}\nwandb.watch(model, log='all')\nfit(model, scaler)\n"
    )
    assert len(check(Source(text.encode(), "main.py"), selection("AMP102"))) == count


@pytest.mark.parametrize(
    ("watch", "count"),
    [
        ("tracker.watch(model, log='all', log_freq=9)", 1),
        ("tracker.watch(model, log='gradients')", 1),
        ("tracker.watch(model, log='parameters')", 0),
        ("tracker.watch(model)", 0),
        ("run.watch(model)", 1),
        ("run.watch(model, log=None)", 0),
    ],
)
def test_watched_by_a_run_or_a_logger(watch: str, count: int) -> None:
    text = (
        "import torch\nimport wandb\nfrom engine import fit, tracker\n\nrun = wandb.init()\n"
        f"scaler = torch.amp.GradScaler('cuda')\n{watch}\nfit(model, scaler)\n"
    )
    assert len(check(Source(text.encode(), "main.py"), selection("AMP102"))) == count


PREPARED = """\
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")


def train(model, optimizer, loader, log):
    optimizer = accelerator.prepare(optimizer)
    for x in loader:
        accelerator.backward(model(x).mean())
        log(model.weight.grad[:3].norm(dim=-1).mean())
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("fp16", "fp16", 1),
        ("fp16", "bf16", 0),
        ("        log(", "        accelerator.unscale_gradients()\n        log(", 0),
        (
            "        log(",
            "        accelerator.clip_grad_norm_(model.parameters(), 1)\n        log(",
            0,
        ),
        (".norm(dim=-1).mean()", ".shape", 0),
        ("accelerator.backward(model(x).mean())", "model(x).mean().backward()", 0),
    ],
)
def test_what_a_framework_scaled(old: str, new: str, count: int) -> None:
    text = PREPARED.replace(old, new)
    source, chosen = Source(text.encode(), "train.py"), selection("AMP102")
    found = check(source, replace(chosen, preview=True))
    assert not check(source, replace(chosen, preview=False))
    assert len(found) == count
    assert all("unscale_gradients" in (each.help or "") for each in found)


def test_the_call_of_a_helper_is_to_blame() -> None:
    assert found(f"log(norm_of(model))\n{STEP}") == ["norm_of(model)"]


@pytest.mark.parametrize(
    "body",
    [
        f"scaler.unscale_(optimizer)\nlog(norm_of(model))\n{STEP}",
        f"{STEP}log(norm_of(model))\n",
        f"log(norm_of(model) / scaler.get_scale())\n{STEP}",
        f"inverse = 1 / scaler.get_scale()\nlog(norm_of(model) * inverse)\n{STEP}",
        f"norm = norm_of(model)\nif not torch.isfinite(norm):\n    log('inf')\n{STEP}",
        f"clip_grad_norm_(model.parameters(), float('inf'))\n{STEP}",
        f"{BY_HAND}log(norm_of(model))\n{STEP}",
        "optimizer.zero_grad()\nlog(norm_of(model))\n",
    ],
    ids=["unscaled", "stepped", "divided", "inverse", "finite", "unused", "by hand", "cleared"],
)
def test_silent(body: str) -> None:
    assert found(body) == []


@pytest.mark.parametrize(
    ("divided", "count"),
    [
        ("norm_of(model) / scaler.get_scale()", 0),
        ("norm_of(model).div(scaler.get_scale())", 0),
        ("norm_of(model).mul_(1.0 / scaler.get_scale())", 0),
        ("norm_of(model) / 2", 1),
        ("norm_of(model).div(2)", 1),
    ],
)
def test_a_read_that_is_divided_outside_of_functions(divided: str, count: int) -> None:
    head, _, loop = program(f"print({divided})\n{STEP}").partition("def train")
    rest = textwrap.dedent(loop.partition("\n")[2])
    made = "model, optimizer = torch.nn.Linear(2, 1), None\nloader = []\n"
    source = Source(f"{head}{made}{rest}".encode(), "train.py")
    assert len(check(source, selection("AMP102"))) == count


def test_a_branch_without_unscale() -> None:
    body = (
        "if args.max_norm:\n    scaler.unscale_(optimizer)\n"
        "    norm = clip_grad_norm_(model.parameters(), args.max_norm)\n"
        f"else:\n    norm = norm_of(model)\nlog(norm)\n{STEP}"
    )
    assert found(body) == ["norm_of(model)"]


def test_a_mode_without_scaler() -> None:
    """What looks like a branch without unscale_ may be the one for full precision."""
    body = (
        "if args.amp:\n    scaler.unscale_(optimizer)\n    norm = norm_of(model)\n"
        f"else:\n    norm = norm_of(model)\nlog(norm)\n{STEP}"
    )
    assert found(body) == ["norm_of(model)"]
    text = program(body).replace('GradScaler("cuda")', 'GradScaler("cuda", enabled=args.fp16)')
    assert check(Source(text.encode(), "train.py"), selection("AMP102")) == []


@pytest.mark.parametrize(
    ("call", "measures"),
    [
        ("get_grad_norm(model.parameters())", True),
        ("utils.get_grad_norm_(model.parameters())", True),
        ("get_grad_norm(3)", False),
        ("get_weight_norm(model.parameters())", False),
        ("engine.get_grad_norm(model.parameters())", False),
    ],
)
def test_a_helper_of_a_file_that_is_not_seen(call: str, measures: bool) -> None:
    name = call.partition("(")[0].rpartition(".")[2]
    text = f"import utils\nfrom utils import {name}\n" + program(f"log({call})\n{STEP}")
    findings = check(Source(text.encode(), "train.py"), selection("AMP102"))
    assert len(findings) == measures


def test_a_clip_and_a_read_share_one_unscale() -> None:
    body = f"log(norm_of(model))\nclip_grad_norm_(model.parameters(), 1.0)\n{STEP}"
    source = Source(program(body).encode(), "train.py")
    result = fix(source, selection("AMP101", "AMP102", "AMP103"), unsafe=True)
    assert result.text == program(f"scaler.unscale_(optimizer)\n{body}")
    assert result.remaining == []


def test_no_fix_for_micro_batches() -> None:
    body = (
        "log(norm_of(model))\n"
        "if (i + 1) % 4 == 0:\n    scaler.step(optimizer)\n    scaler.update()\n"
    )
    source = Source(program(body).encode(), "train.py")
    (finding,) = check(source, selection("AMP102"))
    assert finding.fix is None


CHOICE = """
    import torch
    def train(model, optimizer, loader, log, amp):
        dtype = {dtype} if amp else None
        scaler = torch.amp.GradScaler("cuda") if dtype is torch.float16 else None
        for x in loader:
            with torch.autocast("cuda", enabled=dtype is not None, dtype=dtype):
                loss = model(x).mean()
            if scaler is None:
                loss.backward()
            else:
                scaler.scale(loss).backward()
            log(sum(p.grad.norm() for p in model.parameters()))
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
    """


@pytest.mark.parametrize(("dtype", "count"), [("torch.float16", 1), ("torch.bfloat16", 0)])
def test_a_scaler_that_no_choice_of_a_dtype_makes(dtype: str, count: int) -> None:
    source = Source(textwrap.dedent(CHOICE.format(dtype=dtype)).encode(), "train.py")
    assert len(check(source, selection("AMP102"))) == count


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("p.grad.nan_to_num_()", 1),
        ("p.grad.data.nan_to_num_(nan=0.0, posinf=1e5, neginf=-1e5)", 1),
        ("torch.nan_to_num(p.grad, out=p.grad)", 1),
        ("torch.nan_to_num_(p.grad)", 1),
        ("p.grad = torch.nan_to_num(p.grad)", 1),
        ("p.grad.copy_(p.grad.nan_to_num())", 1),
        ("p.grad[torch.isnan(p.grad)] = 0", 1),
        ("p.grad.data[~p.grad.isfinite()] = 0.0", 1),
        ("g = p.grad; g[g.isinf() | g.isnan()] = 0", 1),
        ("p.grad.masked_fill_(torch.isnan(p.grad), 0.0)", 1),
        ("bad = ~torch.isfinite(p.grad); p.grad.masked_fill_(bad, 0.0)", 1),
        ("p.grad = torch.where(torch.isfinite(p.grad), p.grad, 0.0)", 1),
        ("p.grad[p.grad > 0] = 0", 0),
        ("p.grad[torch.isnan(x)] = 0", 0),
        ("p.data[torch.isnan(p.grad)] = 0", 0),
        ("seen = p.grad[torch.isfinite(p.grad)]", 0),
        ("seen[torch.isnan(p.grad)] = 1", 0),
        ("seen = torch.where(torch.isfinite(p.grad), p.grad, 0.0)", 0),
        ("p.grad.masked_fill_(mask, 0.0)", 0),
        ("seen = torch.nan_to_num(p.grad)", 0),
        ("p.data.nan_to_num_()", 0),
        ("x.nan_to_num_()", 0),
    ],
)
def test_what_hides_an_overflow(line: str, count: int) -> None:
    loop = f"for p in model.parameters():\n    {line}\n"
    assert len(found(loop + STEP)) == count
    assert not found("scaler.unscale_(optimizer)\n" + loop + STEP)
    assert not found(STEP + loop)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("p.grad.add_(p, alpha=0.1)", 1),
        ("p.grad.data.add_(p.data.mul(0.1))", 1),
        ("p.grad.sub_(0.1 * p.detach())", 1),
        ("p.grad += 0.1 * p.data", 1),
        ("p.grad = p.grad + 0.1 * p", 1),
        ("p.grad += torch.randn_like(p.grad) * 0.1", 1),
        ("noise = torch.randn(p.shape); p.grad.add_(noise)", 1),
        ("p.grad.mul_(0.5)", 0),
        ("p.grad.add_(p.other_grad)", 0),
        ("p.grad += saved[p]", 0),
        ("p.grad.add_(args.decay)", 0),
        ("p.grad += torch.zeros(p.shape)", 0),
        ("p.grad.add_(p * scaler.get_scale(), alpha=0.1)", 0),
        ("p.grad = 2 * p.grad - p.grad", 0),
    ],
)
def test_what_is_added_to_gradients(line: str, count: int) -> None:
    body = f"for p in model.parameters():\n    {line}\n"
    assert len(found(body + STEP)) == count
    assert not found("scaler.unscale_(optimizer)\n" + body + STEP)


def test_a_helper_that_adds_to_gradients() -> None:
    body = (
        "def decay(rate):\n    for p in model.parameters():\n        p.grad.add_(p, alpha=rate)\n"
        "decay(0.1)\n"
    )
    assert found(body + STEP) == ["decay(0.1)"]
    source = Source(program(body + STEP).encode(), "train.py")
    fixed = fix(source, selection("AMP102"), unsafe=True).text
    assert "        scaler.unscale_(optimizer)\n        decay(0.1)\n" in fixed


ROUNDS = """\
import torch
from tqdm.auto import tqdm

def run(model, optimizer, loader, every, device):
    scaler = torch.amp.GradScaler("cuda")
    bar = tqdm(loader, desc="epoch")
    rounds = len(loader)
    for i, x in LOOP:
        done = i + 1
        loss = model(x).mean() / every
        scaler.scale(loss).backward()
        if TEST:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return sum(p.grad.norm() for p in model.parameters() if p.grad is not None)
"""


@pytest.mark.parametrize(
    ("loop", "test", "count"),
    [
        ("enumerate(loader)", "(i + 1) % every == 0", 1),
        ("enumerate(loader)", "(i + 1) % every == 0 or i == len(loader) - 1", 0),
        ("enumerate(loader)", "i % every == 0 or (i + 1) == len(loader)", 0),
        ("enumerate(loader, 1)", "i % every == 0 or i == len(loader)", 0),
        ("enumerate(loader, start=1)", "not (i % every and i != len(loader))", 0),
        ("enumerate(bar)", "(i + 1) % every == 0 or i >= len(loader) - 1", 0),
        ("enumerate(bar)", "(i + 1) % every == 0 or len(bar) == i + 1", 0),
        ("tqdm(enumerate(loader))", "(i + 1) % every == 0 or i + 1 == rounds", 0),
        ("enumerate(loader)", "done % every == 0 or done == len(loader)", 0),
        ("enumerate(loader, 1)", "done % every == 0 or done == len(loader)", 1),
        ("enumerate(loader)", "(i + 1) % every == 0 or i == len(loader)", 1),
        ("enumerate(loader, 1)", "i % every == 0 or i == len(loader) - 1", 1),
        ("enumerate(loader)", "(i + 1) % every == 0 or i == len(device) - 1", 1),
        ("enumerate(device(loader))", "(i + 1) % every == 0 or i == len(loader) - 1", 1),
        ("enumerate(loader)", "(i + 1) % every == 0 and i == len(loader) - 1", 1),
    ],
)
def test_the_last_round_of_a_loop_steps(loop: str, test: str, count: int) -> None:
    program = ROUNDS.replace("LOOP", loop).replace("TEST", test)
    source = Source(program.encode(), "train.py")
    assert len(check(source, selection("AMP102"))) == count


@pytest.mark.parametrize(("end", "count"), [("i == len(loader) - 1", 0), ("i == len(loader)", 1)])
def test_the_test_of_the_last_round_may_have_a_name(end: str, count: int) -> None:
    program = ROUNDS.replace("LOOP", "enumerate(loader)").replace("TEST", "last")
    program = program.replace("done = i + 1", f"last = (i + 1) % every == 0 or {end}")
    assert len(check(Source(program.encode(), "train.py"), selection("AMP102"))) == count


def test_a_break_may_come_before_the_last_round() -> None:
    test = "(i + 1) % every == 0 or i == len(loader) - 1"
    program = ROUNDS.replace("LOOP", "enumerate(loader)").replace("TEST", test)
    early = program.replace(
        "    return sum", "        if i > 99:\n            break\n    return sum"
    )
    assert not check(Source(program.encode(), "train.py"), selection("AMP102"))
    assert len(check(Source(early.encode(), "train.py"), selection("AMP102"))) == 1


ATTACK = """\
class Attack:
    def __init__(self, model):
        self.model, self.kept = model, {}

    def perturb(self, radius):
        for name, p in self.model.named_parameters():
            self.kept[name] = p.data.clone()
            norm = torch.norm(p.grad)
            if norm != 0 and not torch.isnan(norm):
                LINE


"""


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("p.data.add_(radius * p.grad / norm)", 0),
        ("p.data.add_(radius * p.grad / (norm + 1e-6))", 0),
        ("p.data.add_(p.grad / norm * (torch.norm(p.data) + 1e-6))", 0),
        ("p.data.add_(radius * p.grad * norm)", 1),
        ("p.data.add_(radius / norm)", 1),
        ("p.grad = p.grad / norm", 1),  # which the step divides by the scale
        ("self.kept[name] = norm, p.grad / norm", 1),
    ],
)
def test_a_direction_has_no_scale(line: str, count: int) -> None:
    body = program("Attack(model).perturb(0.5)\n" + STEP)
    text = body.replace("def train(", ATTACK.replace("LINE", line) + "def train(")
    assert len(check(Source(text.encode(), "train.py"), selection("AMP102"))) == count
