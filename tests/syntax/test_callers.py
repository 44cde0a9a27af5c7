"""What is known of the files that import a file: what they call of it, and with what."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from amp_lint import engine, registry
from amp_lint.selection import Selection
from amp_lint.syntax import project as projects
from amp_lint.syntax.project import Project
from amp_lint.text.source import Source

ALL = Selection(registry.all_rules())
SAVING = """\
    import torch

    def save(path, net, held):
        torch.save({"net": net.state_dict(), "opt": held.state_dict()}, path)

    def load(path, net, optimizer):
        optimizer.load_state_dict(torch.load(path)["opt"])
    """
TRAINING = """\
    import torch
    {import_}

    def run(net, loader, path):
        optimizer = torch.optim.Adam(net.parameters())
        {load}(path, net, optimizer)
        grad_scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            grad_scaler.scale(net(x).sum()).backward()
            grad_scaler.step(optimizer)
            grad_scaler.update()
        {save}(path, net, held=optimizer)
    """
EPOCH = """\
    import torch

    def epoch(net, optimizer, loader):
        grad_scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            grad_scaler.scale(net(x).sum()).backward()
            grad_scaler.step(optimizer)
            grad_scaler.update()
    """
EPOCHS = """\
    from engine import epoch

    def main(net, optimizer, loader):
        for _ in range(9):
            epoch(net, optimizer, loader)
    """


def findings(root: Path, files: Mapping[str, str]) -> list[str]:
    """``file:line code`` of every finding in a project."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text), "utf-8")
    project = Project([root / name for name in files])
    found: list[str] = []
    for name in files:
        data = (root / name).read_bytes()
        source = Source(data, name)
        links = project.links(root / name, data, ALL.sieve)
        for each in engine.check(source, ALL, links=links):
            found += [f"{name}:{source.position(each.start)[0]} {each.code}"]
    return found


@pytest.mark.parametrize(
    ("helper", "import_", "prefix"),
    [
        ("saving.py", "from saving import load, save", ""),
        ("saving.py", "from saving import *", ""),
        ("saving.py", "import saving", "saving."),
        ("saving.py", "import saving as s", "s."),
        ("lib/saving.py", "from lib import saving", "saving."),
        ("lib/saving.py", "from lib.saving import load, save", ""),
    ],
)
def test_a_checkpoint_without_the_scaler_of_who_calls(
    tmp_path: Path, helper: str, import_: str, prefix: str
) -> None:
    caller = TRAINING.format(import_=import_, load=f"{prefix}load", save=f"{prefix}save")
    files = {helper: SAVING.replace("held", "optimizer"), "main.py": caller}
    files["main.py"] = files["main.py"].replace("held=", "")
    assert findings(tmp_path, files) == [f"{helper}:4 AMP111"]


@pytest.mark.parametrize("searches", [0, 9])
@pytest.mark.parametrize("passing", ["from .saving import load, save", "from .saving import *"])
@pytest.mark.parametrize("import_", ["from lib import load, save", "from lib import *"])
def test_a_caller_that_imports_from_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searches: int, passing: str, import_: str
) -> None:
    monkeypatch.setattr(projects, "MAX_SEARCHES", searches)
    caller = TRAINING.format(import_=import_, load="load", save="save")
    files = {
        "lib/saving.py": SAVING.replace("held", "optimizer"),
        "lib/__init__.py": passing,
        "main.py": caller.replace("held=", ""),
    }
    assert findings(tmp_path, files) == ["lib/saving.py:4 AMP111"]
    other = files | {"lib/__init__.py": "from .loading import load, save"}
    assert findings(tmp_path, other) == []


@pytest.mark.parametrize("searches", [0, 1, 9])
def test_importers_are_searched_for_by_name_or_looked_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searches: int
) -> None:
    monkeypatch.setattr(projects, "MAX_SEARCHES", searches)
    imports = ("from a.one import save", "from .two import save", "from . import save")
    texts = {f"a/{n}.py": f"import torch\n{line}\n" for n, line in enumerate(imports)}
    saving = textwrap.dedent(SAVING)
    texts |= {"a/one.py": saving, "a/two.py": saving, "a/__init__.py": saving, "three.py": saving}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    project = Project(tmp_path / name for name in texts)
    found = [
        links.files[: len(links.callers)]
        for name in ("a/one.py", "a/two.py", "a/__init__.py", "three.py")
        if (links := project.links(tmp_path / name, saving.encode(), ALL.sieve))
    ]
    assert found == [(texts[f"a/{n}.py"].encode(),) for n in range(3)]


def test_a_switch_that_is_called_after_the_scaler_saves_nothing(tmp_path: Path) -> None:
    caller = TRAINING.format(import_="from saving import load, save", load="load", save="save")
    caller = caller.replace("held=", "").replace('("cuda")', "(enabled=use_scaler)")
    caller = caller.replace("(net, loader, path)", "(net, loader, path, use_scaler)")
    files = {"saving.py": SAVING.replace("held", "optimizer"), "main.py": caller}
    assert findings(tmp_path, files) == ["saving.py:4 AMP111"]


@pytest.mark.parametrize(
    ("used", "lines"),
    [
        pytest.param("", [4], id="not saved"),
        pytest.param("\nSAVING = [save_all]", [7], id="saved, not loaded"),
        pytest.param("    getattr(saving, path)(optimizer, grad_scaler)", [], id="looked up"),
    ],
)
def test_a_helper_beside_that_nobody_names_saves_no_scaler(
    tmp_path: Path, used: str, lines: list[int]
) -> None:
    other = """
        def save_all(path, optimizer, scaler):
            torch.save({"o": optimizer.state_dict(), "scaler": scaler.state_dict()}, path)
    """
    caller = TRAINING.format(import_="from saving import *", load="load", save="save")
    caller = textwrap.dedent(caller.replace("held=", "")) + f"{used}\n"
    caller = caller.replace("import torch\n", "import saving\nimport torch\n")
    saving = textwrap.dedent(SAVING.replace("held", "optimizer")) + textwrap.dedent(other)
    found = findings(tmp_path, {"saving.py": saving, "main.py": caller})
    assert found == [f"saving.py:{line} AMP111" for line in lines]


def test_no_finding_where_the_caller_saves_its_scaler(tmp_path: Path) -> None:
    caller = TRAINING.format(import_="from saving import load, save", load="load", save="save")
    caller = caller.replace("held=", "").replace("{save}", "save")
    more = "\n    def more(s, path):\n        torch.save({'s': s.state_dict()}, path)\n"
    saved = caller.replace(".update()", ".update()\n        more(grad_scaler, path)") + more
    saving = SAVING.replace("held", "optimizer")
    assert findings(tmp_path, {"saving.py": saving, "main.py": saved}) == []
    plain = caller.replace("grad_scaler.step(optimizer)", "grad_scaler.step(other)")
    assert findings(tmp_path, {"saving.py": saving, "main.py": plain}) == []


def test_a_base_class_that_saves(tmp_path: Path) -> None:
    base = """\
    import torch

    class Base:
        def save(self, path):
            torch.save({"opt": self.optimizer.state_dict()}, path)

        def load(self, path):
            self.optimizer.load_state_dict(torch.load(path)["opt"])
    """
    heir = """\
    import torch
    from base import Base

    class Heir(Base):
        def __init__(self, net):
            self.optimizer = torch.optim.Adam(net.parameters())
            self.loss_scale = torch.amp.GradScaler("cuda")

        def step(self, loss):
            self.loss_scale.scale(loss).backward()
            self.loss_scale.step(self.optimizer)
            self.loss_scale.update()
    """
    assert findings(tmp_path, {"base.py": base, "heir.py": heir}) == ["base.py:5 AMP111"]


def test_an_epoch_that_another_file_repeats(tmp_path: Path) -> None:
    assert findings(tmp_path, {"engine.py": EPOCH, "main.py": EPOCHS}) == ["engine.py:4 AMP108"]
    once = EPOCHS.replace("for _ in range(9)", "if loader")
    assert findings(tmp_path, {"engine.py": EPOCH, "main.py": once}) == []
    new = EPOCHS.replace("epoch(net,", "optimizer = make(net); epoch(net,")
    assert findings(tmp_path, {"engine.py": EPOCH, "main.py": new}) == []


def test_a_caller_of_the_caller_in_its_file(tmp_path: Path) -> None:
    saving = SAVING.replace("held", "optimizer")
    inner = TRAINING.format(import_="from saving import load, save", load="load", save="write")
    inner = inner.replace("held=", "")
    write = "\n    def write(path, net, optimizer):\n        save(path, net, optimizer)\n"
    found = findings(tmp_path, {"saving.py": saving, "main.py": inner + write})
    assert found == ["saving.py:4 AMP111"]


def test_optimizers_that_are_handed_on_in_a_list(tmp_path: Path) -> None:
    files = {
        "saving.py": SAVING.replace("held", "optimizer"),
        "main.py": """\
    import torch
    from saving import load, save

    def run(net, loader, path):
        optimizer = torch.optim.Adam(net.parameters())
        load(path, net, optimizer)
        grad_scaler = torch.amp.GradScaler("cuda")
        epoch([net, net], [optimizer, None], grad_scaler, loader)
        save(path, net, optimizer)

    def epoch(nets, optimizers, grad_scaler, loader):
        net, _ = nets
        one, other = optimizers
        for x in loader:
            grad_scaler.scale(net(x).sum()).backward()
            grad_scaler.step(one)
            grad_scaler.update()
    """,
    }
    assert findings(tmp_path, files) == ["saving.py:4 AMP111"]
    other = files["main.py"].replace("[optimizer, None]", "[None, optimizer]")
    assert findings(tmp_path, {**files, "main.py": other}) == []


RESUMED = {
    "main.py": """\
    import torch
    from model import Model

    def run(loader, path):
        net = Model()
        optimizer = torch.optim.Adam(net.parameters())
        grad_scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            grad_scaler.scale(net(x).sum()).backward()
            grad_scaler.step(optimizer)
            grad_scaler.update()
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, path)
    """,
    "model.py": """\
    import torch
    from torch import autocast

    class Model(torch.nn.Module):
        def resume(self, path, optimizer):
            saved = torch.load(path)
            self.load_state_dict(saved["net"])
            optimizer.load_state_dict(saved["optimizer"])

        def forward(self, x):
            with autocast("cuda"):
                return self.net(x)
    """,
}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", []),  # nobody names what would load
        ("net = Model()", "net = Model(); net.resume(path, optimizer)", ["main.py:12 AMP111"]),
        ("net = Model()", "net = Model(); optimizer.load_state_dict(x)", ["main.py:12 AMP111"]),
    ],
)
def test_a_load_that_somebody_asks_for(
    tmp_path: Path, old: str, new: str, found: list[str]
) -> None:
    main = RESUMED["main.py"].replace(old, new)
    assert findings(tmp_path, {**RESUMED, "main.py": main}) == found


def test_a_wrapper_loads_what_it_is_given(tmp_path: Path) -> None:
    files = {**RESUMED, "model.py": f"{textwrap.dedent(RESUMED['model.py'])}\n{WRAPPING}"}
    assert findings(tmp_path, files) == []
    main = RESUMED["main.py"].replace("import Model", "import Model, Wrapper")
    main = main.replace("= torch.optim.Adam(net.parameters())", "= Wrapper(torch.optim.Adam(net))")
    assert findings(tmp_path, {**files, "main.py": main}) == []
    asked = main.replace("for x in", "optimizer.load_state_dict(old)\n        for x in")
    assert findings(tmp_path, {**files, "main.py": asked}) == ["main.py:13 AMP111"]


WRAPPING = """\
class Wrapper:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.step()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)
"""
STEP = """\
    def step(net, optimizer, scaler, x):
        optimizer.zero_grad()
        scaler.scale(net(x).mean()).backward()
        scaler.step(optimizer)
    """
STEPS = """\
    import torch
    from engine import step

    def main(net, optimizer, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            step(net, optimizer, scaler, x)
    """


def test_a_step_that_another_file_repeats(tmp_path: Path) -> None:
    assert findings(tmp_path, {"engine.py": STEP, "main.py": STEPS}) == ["engine.py:4 AMP105"]
    updated = STEPS.replace("scaler, x)", "scaler, x); scaler.update()")
    assert findings(tmp_path, {"engine.py": STEP, "main.py": updated}) == []
    once = STEPS.replace("for x in", "if x :=")
    assert findings(tmp_path, {"engine.py": STEP, "main.py": once}) == []


FAR = {
    "state.py": """\
    import torch

    def save_state(path, optimizer):
        torch.save(optimizer.state_dict(), path)

    def load_state(path, optimizer):
        optimizer.load_state_dict(torch.load(path))
    """,
    "saving.py": """\
    from state import load_state, save_state

    def save(path, net, optimizer):
        save_state(path, optimizer)

    def load(path, net, optimizer):
        load_state(path, optimizer)
    """,
}


def test_a_helper_of_a_helper_that_saves(tmp_path: Path) -> None:
    main = TRAINING.format(import_="from saving import load, save", load="load", save="save")
    main = main.replace("held=", "")
    assert findings(tmp_path, {**FAR, "main.py": main}) == ["main.py:12 AMP111"]
    other = main.replace("save(path, net, optimizer)", "save(path, net, net.optimizer)")
    assert findings(tmp_path, {**FAR, "main.py": other}) == []
    kept = main.replace(
        "    save(", "    torch.save(grad_scaler.state_dict(), path)\n        save("
    )
    assert findings(tmp_path, {**FAR, "main.py": kept}) == []


TRAINER = {
    "base.py": """\
    import torch

    class Base:
        def __init__(self, net, optimizer):
            self.net, self.optimizer = net, optimizer

        def save(self, path):
            torch.save({"optimizer": self.optimizer.state_dict()}, path)
    """,
    "mixed.py": """\
    import torch

    class Mixed:
        def __init__(self):
            self.scaler = torch.amp.GradScaler("cuda")

        def step(self, loss, optimizer):
            self.scaler.scale(loss).backward()
            self.scaler.step(optimizer)
            self.scaler.update()
    """,
    "trainer.py": """\
    from base import Base
    from mixed import Mixed

    class Trainer(Base):
        def fit(self, loader, path):
            mixed = Mixed()
            for x in loader:
                mixed.step(self.net(x).mean(), self.optimizer)
            self.save(path)
    """,
    "main.py": """\
    import torch
    from trainer import Trainer

    def main(net, loader, path):
        optimizer = torch.optim.Adam(net.parameters())
        optimizer.load_state_dict(torch.load(path)["optimizer"])
        Trainer(net, optimizer).fit(loader, path)
    """,
}


def test_a_trainer_whose_base_saves(tmp_path: Path) -> None:
    assert findings(tmp_path, TRAINER) == ["main.py:7 AMP111"]
    other = TRAINER["main.py"].replace("(net, optimizer)", "(net, net.optimizer)")
    assert findings(tmp_path, {**TRAINER, "main.py": other}) == []


def test_few_callers_are_looked_into(tmp_path: Path) -> None:
    once = EPOCHS.replace("for _ in range(9)", "if loader")
    files = {"engine.py": EPOCH, **{f"a{i}.py": once for i in range(projects.MAX_CALLERS)}}
    assert findings(tmp_path, {**files, "b.py": EPOCHS}) == []


def test_files_that_import_each_other(tmp_path: Path) -> None:
    looped = EPOCH.replace("import torch", "import torch\n    import main")
    assert findings(tmp_path, {"engine.py": looped, "main.py": EPOCHS}) == ["engine.py:5 AMP108"]


KEEPER = """\
    import torch

    class Keeper:
        def __init__(self, folder):
            self.folder = folder

        def keep(self, net, optimizer, loss_scaler=None, extra=None):
            self._write(net, optimizer, loss_scaler, extra)

        def _write(self, net, optimizer, loss_scaler=None, extra=None):
            state = {"net": net.state_dict(), "opt": optimizer.state_dict()}
            if loss_scaler is not None:
                state["loss_scaler"] = loss_scaler.state_dict()
            torch.save(state, self.folder)
    """
KEPT = """\
    import torch
    from keeper import Keeper

    def run(net, loader, path):
        optimizer = torch.optim.Adam(net.parameters())
        optimizer.load_state_dict(torch.load(path)["opt"])
        keeper = Keeper(path)
        loss_scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            loss_scaler.scale(net(x).sum()).backward()
            loss_scaler.step(optimizer)
            loss_scaler.update()
        keeper.keep(net, optimizer)
    """


@pytest.mark.parametrize("more", ["", ", extra=path", ", None", ", loss_scaler=None"])
def test_a_scaler_that_no_call_gives_is_not_saved(tmp_path: Path, more: str) -> None:
    main = KEPT.replace("keeper.keep(net, optimizer)", f"keeper.keep(net, optimizer{more})")
    assert findings(tmp_path, {"keeper.py": KEEPER, "main.py": main}) == ["main.py:13 AMP111"]


@pytest.mark.parametrize(
    "more", [", loss_scaler", ", loss_scaler=loss_scaler", ", *path", ", **path"]
)
def test_a_scaler_that_a_call_may_give_is_saved(tmp_path: Path, more: str) -> None:
    main = KEPT.replace("keeper.keep(net, optimizer)", f"keeper.keep(net, optimizer{more})")
    assert findings(tmp_path, {"keeper.py": KEEPER, "main.py": main}) == []


HOLDER = """\
    import torch

    class Holder:
        def __init__(self, net, optimizer=None):
            self.net = net
            self.optimizer = optimizer

        def save(self, path, **more):
            state = {"net": self.net.state_dict()}
            if self.optimizer is not None:
                state["opt"] = self.optimizer.state_dict()
            state.update(more)
            torch.save(state, path)

        def load(self, path):
            self.optimizer.load_state_dict(torch.load(path)["opt"])
    """
HELD = """\
    import torch

    def train(net, optimizer, holder, loader, half, known):
        if half:
            loss_scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            known["batch"] = 1
            loss = net(x).sum()

            def step():
                if half:
                    loss_scaler.scale(loss).backward()
                    loss_scaler.step(optimizer)
                    loss_scaler.update()
                else:
                    loss.backward()
                    optimizer.step()

            step()
            holder.save("last", **known)
    """
HOLDING = """\
    import torch
    from holder import Holder
    from steps import train

    def main(net, loader, half):
        optimizer = torch.optim.Adam(net.parameters())
        holder = Holder(net, optimizer)
        holder.load("last")
        train(net, optimizer, holder, loader, half, {})
    """


def test_a_checkpoint_by_an_object_that_never_had_the_scaler(tmp_path: Path) -> None:
    files = {"holder.py": HOLDER, "steps.py": HELD, "main.py": HOLDING}
    assert findings(tmp_path, files) == ["holder.py:11 AMP111"]
    for old, new in (
        ('known["batch"] = 1', 'known["batch"] = loss_scaler'),
        ('holder.save("last", **known)', "holder.save(loss_scaler, **known)"),
        ("            step()", "            keep(loss_scaler)\n            step()"),
    ):
        assert old in HELD
        assert findings(tmp_path, {**files, "steps.py": HELD.replace(old, new)}) == []


def test_of_many_callers_those_that_scale_are_looked_at(tmp_path: Path) -> None:
    files = {"holder.py": HOLDER, "steps.py": HELD, "z.py": HOLDING}
    plain = "import torch\nfrom holder import Holder\n\nwith torch.autocast('cuda'):\n"
    plain += "    Holder(1)\n"
    others = {f"a{number}.py": plain for number in range(projects.MAX_CALLERS)}
    assert findings(tmp_path, {**files, **others}) == ["holder.py:11 AMP111"]


RUNNER = {
    "saving.py": """\
        import torch

        def save(model, path, optimizer=None, loss_scaler=None):
            state = {"model": model.state_dict()}
            if isinstance(optimizer, torch.optim.Optimizer):
                state["optimizer"] = optimizer.state_dict()
            if loss_scaler is not None:
                state["loss_scaler"] = loss_scaler.state_dict()
            torch.save(state, path)
        """,
    "runner.py": """\
        import torch
        from saving import save

        class Runner:
            def __init__(self, model, optimizer, options=None):
                self.model, self.optimizer = model, optimizer
                if options is not None:
                    self.loss_scaler = torch.amp.GradScaler("cuda", **options)

            def train(self, x, **kwargs):
                kwargs.update(dict(loss_scaler=self.loss_scaler))
                self.model.train_step(x, self.optimizer, **kwargs)
                self.loss_scaler.update()

            def resume(self, path):
                state = torch.load(path)
                self.optimizer.load_state_dict(state["optimizer"])
                if "loss_scaler" in state:
                    self.loss_scaler.load_state_dict(state["loss_scaler"])

            def keep(self, path, whole=True):
                optimizer = self.optimizer if whole else None
                save(self.model, path, optimizer=optimizer)
        """,
}


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ("optimizer=optimizer)", "optimizer=optimizer, loss_scaler=self.loss_scaler)", 0),
        ("self.model.train_step(", "self.model.keep_all(", 0),
        ("self.loss_scaler.update()", "self.loss_scaler.update(); self.rest = kwargs", 0),
        ("optimizer=optimizer)", "optimizer=None)", 0),
    ],
)
def test_a_helper_that_saves_a_scaler_is_given_none(
    tmp_path: Path, old: str, new: str, count: int
) -> None:
    assert old in RUNNER["runner.py"]
    files = {**RUNNER, "runner.py": RUNNER["runner.py"].replace(old, new, bool(old))}
    assert findings(tmp_path, files) == ["runner.py:23 AMP111"] * count


CLIPPED_STEP = """\
    import torch

    def step(scaler, net, optimizer, x):
        scaler.scale(net(x).sum()).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    """
CLIPPED_STEPS = """\
    import torch
    from stepping import step

    def main(net, optimizer, loader, options):
        scaler = torch.amp.GradScaler("cuda", enabled={on})
        for x in loader:
            step(scaler, net, optimizer, x)
    """


@pytest.mark.parametrize(
    ("on", "found"),
    [("True", ["stepping.py:5 AMP101"]), ("options.amp", ["stepping.py:5 AMP101"]), ("False", [])],
)
def test_whether_a_scaler_is_on_that_another_file_makes(
    tmp_path: Path, on: str, found: list[str]
) -> None:
    files = {"stepping.py": CLIPPED_STEP, "main.py": CLIPPED_STEPS.format(on=on)}
    assert findings(tmp_path, files) == found
    assert findings(tmp_path, {"stepping.py": CLIPPED_STEP}) == ["stepping.py:5 AMP101"]


def test_a_step_among_others_that_a_loop_of_another_file_counts(tmp_path: Path) -> None:
    step = """\
        import torch

        def step(scaler, net, optimizer, x, every, number):
            scaler.scale(net(x).sum() / every).backward()
            scaler.unscale_(optimizer)
            if (number + 1) % every == 0:
                scaler.step(optimizer)
                scaler.update()
        """
    loop = """\
        import torch
        from stepping import step

        def main(net, optimizer, loader, every):
            scaler = torch.amp.GradScaler("cuda")
            for number, x in enumerate(loader):
                step(scaler, net, optimizer, x, every, number)
        """
    files = {"stepping.py": step, "main.py": loop}
    assert findings(tmp_path, files) == ["stepping.py:5 AMP103"]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_what_a_base_in_another_file_has_prepared(tmp_path: Path, precision: str) -> None:
    base = f"""\
        from accelerate import Accelerator

        class Base:
            def __init__(self, net, optimizer):
                self.engine = Accelerator(mixed_precision="{precision}")
                self.net, self.optimizer = self.engine.prepare(net, optimizer)
        """
    own = """\
        import torch
        from base import Base

        class Own(Base):
            def run(self, loader):
                for x in loader:
                    self.engine.backward(self.net(x).sum())
                    torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                    self.optimizer.step()
        """
    preview = Selection(registry.all_rules(), preview=True)
    for name, text in {"base.py": base, "own.py": own}.items():
        (tmp_path / name).write_text(textwrap.dedent(text), "utf-8")
    project = Project([tmp_path / "base.py", tmp_path / "own.py"])
    data = (tmp_path / "own.py").read_bytes()
    links = project.links(tmp_path / "own.py", data, preview.sieve)
    found = engine.check(Source(data, "own.py"), preview, links=links)
    assert [each.code for each in found] == (["AMP502"] if precision == "fp16" else [])


def test_a_model_that_is_cast_before_another_file_trains_it(tmp_path: Path) -> None:
    train = """\
        import torch

        def train(net, loader):
            optimizer = torch.optim.Adam(net.parameters())
            for x in loader:
                net(x).sum().backward()
                optimizer.step()
        """
    main = """\
        from training import train

        def main(model, loader):
            model.half()
            train(model, loader)
        """
    files = {"training.py": train, "main.py": main}
    assert findings(tmp_path, files) == ["main.py:4 AMP203"]


def test_scalers_that_a_helper_of_another_file_makes_are_two(tmp_path: Path) -> None:
    making = """\
        import torch

        def make():
            first = torch.amp.GradScaler("cuda")
            second = torch.amp.GradScaler("cuda")
            return first, second
        """
    main = """\
        from making import make

        def main(net, optimizer, loader):
            first, second = make()
            for x in loader:
                optimizer.zero_grad()
                first.scale(net(x).sum()).backward()
                second.step(optimizer)
                second.update()
                first.update()
        """
    assert "main.py:8 AMP114" in findings(tmp_path, {"making.py": making, "main.py": main})


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("main.py", True),
        ("testing.py", True),
        ("test_step.py", False),
        ("step_test.py", False),
        ("tests/main.py", False),
    ],
)
def test_what_tests_give_does_not_count(tmp_path: Path, name: str, counts: bool) -> None:
    files = {"stepping.py": CLIPPED_STEP, name: CLIPPED_STEPS.format(on=False)}
    assert findings(tmp_path, files) == ([] if counts else ["stepping.py:5 AMP101"])
