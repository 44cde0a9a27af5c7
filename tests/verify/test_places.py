"""What is the same text in another region, and is not the same for it."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify.compare import compare


def reasons(text: str, *, moved: str) -> str:
    """What is said where a statement moves out of the region that it is the last one of."""
    before = textwrap.dedent(text)
    head, found, tail = before.rpartition(textwrap.indent(moved, " " * 8))
    assert found
    after = f"{head}{textwrap.indent(moved, ' ' * 4)}{tail}"
    return " ".join(compare(before, after).reasons)


ASKING = """
    import torch
    from torch import get_autocast_dtype as region_dtype

    def is_low():
        return torch.is_autocast_enabled("cuda")

    def note(report):
        report.append(is_low())

    class Probe:
        def step(self, report):
            report.append(torch.is_autocast_enabled())

    def train_step(model, optimizer, scaler, x, report):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).mean()
            ASKED
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    "asked",
    [
        "report.append(torch.is_autocast_enabled())",
        'report.append(str(region_dtype("cuda")))',
        "report.append(torch._C.is_autocast_enabled())",
        "assert torch.is_autocast_enabled()",
        "note(report)",
    ],
)
def test_what_asks_for_the_state_stays_in_its_region(asked: str) -> None:
    found = reasons(ASKING.replace("ASKED", asked), moved=asked)
    assert "runs in another region" in found


def test_what_asks_for_nothing_may_leave() -> None:
    assert not reasons(ASKING.replace("ASKED", "optimizer.step()"), moved="optimizer.step()")


LOADING = """
    import functools

    import torch
    from torch.utils import data

    class Rows(data.Dataset):
        def __init__(self, rows, basis):
            self.rows, self.basis = rows, basis

        def __getitem__(self, at):
            GIVEN

    def merge(rows, basis):
        return torch.stack(rows) @ basis

    class Merge:
        def __call__(self, rows):
            return torch.stack(rows).mm(torch.eye(3))

    def loaders(rows, basis):
        return data.DataLoader(rows, collate_fn=MERGED)

    def evaluate(model, loader, sums):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(sums).mean()
            WALKED
        return loss, sums
"""
COMPUTING, PLAIN = "return self.rows[at] @ self.basis", "return self.rows[at]"
WALK = "for rows in loader: sums.append(rows)"


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        (COMPUTING, "None"),
        (PLAIN, "functools.partial(merge, basis=basis)"),
        (PLAIN, "Merge()"),
        (PLAIN, "lambda rows: torch.stack(rows) @ basis"),
    ],
)
@pytest.mark.parametrize("walked", [WALK, "sums.append(next(loader))", "sums.append(list(loader))"])
def test_a_loader_computes_in_the_region_that_it_is_walked_in(
    given: str, merged: str, walked: str
) -> None:
    text = LOADING.replace("GIVEN", given).replace("MERGED", merged).replace("WALKED", walked)
    assert "runs in another region" in reasons(text, moved=walked)


@pytest.mark.parametrize("walked", [WALK, "for n in range(3): sums.append(n)"])
def test_a_loader_that_computes_nothing_is_walked_anywhere(walked: str) -> None:
    given = PLAIN if walked == WALK else COMPUTING
    text = LOADING.replace("GIVEN", given).replace("MERGED", "None").replace("WALKED", walked)
    assert not reasons(text, moved=walked)


STEPPING = """
    import torch

    CLASSES

    def train_step(model, optimizer, scaler, x):
        optimizer.zero_grad()
        scaler.scale(model(x).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    def train(model, optimizer, loader):
        scaler = MADE
        for x in loader:
            train_step(model, optimizer, scaler, x)
"""
OVERRIDING = """
    class Scaler(torch.amp.GradScaler):
        def step(self, optimizer):
            self.unscale_(optimizer)
            return super().step(optimizer)

    class Heir(Scaler):
        pass
"""
ALONE = """
    class Scaler:
        def scale(self, loss):
            return 128 * loss

        def step(self, optimizer):
            for group in optimizer.param_groups:
                group["lr"] = 1 / 128
            optimizer.step()
"""
ADDING = """
    class Scaler(torch.amp.GradScaler):
        def describe(self):
            return f"scale {self.get_scale()}"
"""
PATCHING = """
    def step(self, optimizer):
        optimizer.step()

    torch.amp.GradScaler.step = step
"""
WRAPPING = """
    class Steps:
        def __init__(self, scaler):
            self.scaler = scaler

        def step(self, optimizer):
            self.scaler.step(optimizer)
"""
AROUND = """
    class Scaler:
        def __init__(self):
            self.inner = torch.amp.GradScaler("cuda")

        def scale(self, loss):
            return self.inner.scale(loss)

        def step(self, optimizer):
            self.inner.unscale_(optimizer)
            self.inner.step(optimizer)

        def update(self):
            self.inner.update()
"""
TORCHS = 'torch.amp.GradScaler("cuda")'


@pytest.mark.parametrize(
    ("classes", "made", "known"),
    [
        (OVERRIDING, "Heir()", False),
        (OVERRIDING, "Scaler(init_scale=8.0)", False),
        (ALONE, "Scaler()", False),
        (AROUND, "Scaler()", False),
        (PATCHING, TORCHS, False),
        (ADDING, "Scaler()", True),
        (WRAPPING, TORCHS, True),
        (ALONE, TORCHS, True),
    ],
)
def test_a_scaler_that_is_not_torchs_may_do_anything(classes: str, made: str, known: bool) -> None:
    before = textwrap.dedent(STEPPING.replace("CLASSES", classes.strip()).replace("MADE", made))
    clip = "    torch.nn.utils"
    after = before.replace(clip, f"    scaler.unscale_(optimizer)\n{clip}")
    found = compare(before, after)
    assert not found.reasons if known else {*found.codes} == {"patched"}
    assert found.obligations


COMPILED = """
    import torch
    import torch.nn.functional as F
    from torch.jit import script

    def share(x, mask):
        y = F.softmax(x.masked_fill(mask, -1e9), dim=-1)
        return torch.log(y + 1e-9)

    DECORATOR
    def weights(x, mask):
        return share(x * 2, mask)

    class Net(torch.nn.Module):
        def forward(self, x, mask):
            return weights(x, mask)

    USE
"""


@pytest.mark.parametrize(
    ("decorator", "use", "compiled"),
    [
        ("@script", "", True),
        ("@torch.jit.script_if_tracing", "", True),
        ("", "fast = script(share)", True),
        ("", "net = torch.jit.script(Net())", True),
        ("", "fast = torch.compile(share)", False),
        ("", "", False),
    ],
)
def test_what_torchscript_does_not_know(decorator: str, use: str, compiled: bool) -> None:
    before = textwrap.dedent(COMPILED.replace("DECORATOR", decorator).replace("USE", use))
    limits = compare(before, before.replace("-1e9", "torch.finfo(x.dtype).min"))
    assert bool(limits.reasons) is compiled
    assert not compiled or "TorchScript may not know" in limits.reasons[0]
    logarithm = before.replace("torch.log(y + 1e-9)", "torch.log(y.clamp(min=1e-9))")
    assert not compare(before, logarithm).reasons


RESUMING = """
    import torch

    def save(model, scaler, path):
        torch.save({"model": model.state_dict()}, path)

    def resume(model, scaler, path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
"""
SAVED = ("model.state_dict()}", 'model.state_dict(), "scaler": scaler.state_dict()}')
LOAD = 'scaler.load_state_dict(saved["scaler"])'


@pytest.mark.parametrize(
    ("lines", "known", "right"),
    [
        ([LOAD], False, False),
        (["if scaler is not None:", f"    {LOAD}"], False, False),
        (['if "scaler" in saved:', f"    {LOAD}"], False, True),
        (['if saved.get("scaler"):', f"    {LOAD}"], False, True),
        ([LOAD], True, True),
    ],
)
def test_a_checkpoint_of_the_old_text_is_loaded_by_the_new(
    lines: list[str], known: bool, right: bool
) -> None:
    before = textwrap.dedent(RESUMING)
    after = before.replace(*SAVED) + "".join(f"    {line}\n" for line in lines)
    found = compare(before.replace(*SAVED) if known else before, after)
    assert found.codes == (() if right else ("state",))


HANDED_ON = """
    import torch

    def make_step(model, optimizer):
        scaler = torch.amp.GradScaler("cuda")

        def step(x):
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

        MORE
        return step
"""
CLIP = "            torch.nn.utils"


@pytest.mark.parametrize(
    ("more", "is_known"),
    [
        ("print(model)", True),
        ("back = lambda loss: loss.backward()", False),
        ("def other(x): optimizer.step()", False),
        ("def other(x): scaler.unscale_(optimizer)", False),
    ],
)
def test_a_whole_step_may_be_called_by_anyone_where_nothing_else_trains(
    more: str, is_known: bool
) -> None:
    before = textwrap.dedent(HANDED_ON.replace("MORE", more))
    clip = CLIP[4:]
    after = before.replace(clip, f"        scaler.unscale_(optimizer)\n{clip}")
    assert (
        "who calls `step` is not known" in " ".join(compare(before, after).reasons)
    ) is not is_known
