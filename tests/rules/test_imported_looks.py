"""Clips and reads in another file of the project: the call in this file is to blame."""

from __future__ import annotations

from pathlib import Path

from amp_lint import engine, fixing
from amp_lint.registry import all_rules
from amp_lint.selection import Selection
from amp_lint.syntax.project import Project
from amp_lint.text.source import Source

HELPERS = """\
import torch


def clip_gradients(model, limit):
    return torch.nn.utils.clip_grad_norm_(model.parameters(), limit)


def norm_of(model):
    return torch.stack([p.grad.norm() for p in model.parameters()]).norm()


class Wrapper:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, model):
        self.scaler.scale(loss).backward()
        clip_gradients(model, 1.0)
        self.scaler.step(optimizer)
        self.scaler.update()
"""
TRAIN = """\
import torch
from helpers import Wrapper, clip_gradients, norm_of


def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x).mean()).backward()
        {}
        scaler.step(optimizer)
        scaler.update()
"""
SELECTION = Selection(tuple(r for r in all_rules() if r.code in ("AMP101", "AMP102")))


def fixed(folder: Path, main: str) -> fixing.FixResult:
    """What becomes of a file beside the helpers."""
    (folder / "helpers.py").write_text(HELPERS)
    path = folder / "main.py"
    path.write_text(main)
    project = Project([path, folder / "helpers.py"])
    source = Source.read(path)
    links = project.links(path, source.data)
    return fixing.fix(source, SELECTION, unsafe=True, links=links)


def test_an_imported_clip(tmp_path: Path) -> None:
    result = fixed(tmp_path, TRAIN.format("clip_gradients(model, 1.0)"))
    wanted = "scaler.unscale_(optimizer)\n        clip_gradients(model, 1.0)"
    assert result.text == TRAIN.format(wanted)
    assert [finding.code for finding in result.fixed] == ["AMP101"]


def test_an_imported_read(tmp_path: Path) -> None:
    result = fixed(tmp_path, TRAIN.format("print(norm_of(model))"))
    assert result.text == TRAIN.format("scaler.unscale_(optimizer)\n        print(norm_of(model))")
    assert [finding.code for finding in result.fixed] == ["AMP102"]


def test_a_mistake_within_the_other_file(tmp_path: Path) -> None:
    """It is found there."""
    main = (
        "from helpers import Wrapper\n\n\ndef train(model, optimizer, loader):\n"
        "    wrapper = Wrapper()\n    for x in loader:\n"
        "        wrapper(model(x).mean(), optimizer, model)\n"
    )
    result = fixed(tmp_path, main)
    assert not result.fixed and not result.remaining
    helpers = Source.read(tmp_path / "helpers.py")
    assert [finding.code for finding in engine.check(helpers, SELECTION)] == ["AMP101"]


def test_backward_in_a_region_of_this_file(tmp_path: Path) -> None:
    main = (
        "import torch\nfrom helpers import Wrapper\n\n\ndef train(model, optimizer, loader):\n"
        '    wrapper = Wrapper()\n    for x in loader:\n        with torch.autocast("cuda"):\n'
        "            loss = model(x).mean()\n            wrapper(loss, optimizer, model)\n"
    )
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "main.py").write_text(main)
    project = Project([tmp_path / "main.py", tmp_path / "helpers.py"])
    source = Source.read(tmp_path / "main.py")
    selection = Selection(tuple(r for r in all_rules() if r.code == "AMP201"))
    links = project.links(tmp_path / "main.py", source.data)
    (finding,) = engine.check(source, selection, links=links)
    assert source.text[finding.start : finding.end] == "wrapper(loss, optimizer, model)"


def test_an_imported_maker_of_scalers_that_hides_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "makers.py").write_text(
        "import torch\n\n\ndef scaler_for(device, **rest):\n"
        "    return torch.amp.GradScaler(device, **rest)\n"
    )
    path = tmp_path / "main.py"
    path.write_text(
        "import torch\nfrom makers import scaler_for\n\n\ndef train(model, loader, rest):\n"
        "    scaler = scaler_for('cuda', **rest)\n    for x in loader:\n"
        "        with torch.autocast('cuda', dtype=torch.bfloat16):\n"
        "            loss = model(x).mean()\n        scaler.scale(loss).backward()\n"
    )
    source = Source.read(path)
    selection = Selection(tuple(rule for rule in all_rules() if rule.code == "AMP109"))
    project = Project([path, tmp_path / "makers.py"])
    links = project.links(path, source.data, selection.sieve)
    assert engine.check(source, selection, links=links) == []  # it may be off
