"""What is known of the files that a file imports: found, silent, and in the right file."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import libcst as cst
import pytest

from amp_lint import engine, fixing, registry
from amp_lint.run import runner
from amp_lint.run.job import Action, Job
from amp_lint.selection import Selection
from amp_lint.syntax import links as linking
from amp_lint.syntax.project import Links, Project, imports
from amp_lint.text.diagnostic import Diagnostic
from amp_lint.text.source import Source
from tests.conftest import Result

Run = Callable[..., Result]
RULES = tuple(rule for rule in registry.all_rules() if not rule.code.startswith("AMP4"))
ALL = Selection(RULES)

WRAPPER = """\
    import torch

    class Wrapper:
        def __init__(self):
            self.inner = torch.amp.GradScaler("cuda")

        def __call__(self, loss, optimizer):
            self.inner.scale(loss).backward()
            self.inner.step(optimizer)
            self.inner.update()

    class Clipping(Wrapper):
        def __call__(self, loss, optimizer, model):
            self.inner.scale(loss).backward()
            self.inner.unscale_(optimizer)
            self.step(optimizer, model)

        def step(self, optimizer, model):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            self.inner.step(optimizer)
            self.inner.update()
    """
SCALE = """\
    def backward(scaler, loss):
        scaler.scale(loss).backward()
    """
AUTOCAST = """\
    import contextlib
    import torch

    @contextlib.contextmanager
    def low_precision(enabled=True):
        with torch.autocast("cuda", torch.float16, enabled=enabled):
            yield
    """
CLIPPED = """\
    import torch
    {import_}

    def train(model, optimizer, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            {call}(scaler, model(x).sum())
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    """
INSIDE = """\
    {import_}

    def train(model, optimizer, loader):
        for x in loader:
            with {call}():
                loss = model(x).sum()
                loss.backward()
            optimizer.step()
    """


def write(root: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """The files below a directory, in the order given."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else textwrap.dedent(text).encode()
        (root / name).write_bytes(data)
    return [root / name for name in files]


def findings(root: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """``file:line code`` of every finding in a project."""
    paths = write(root, files)
    project = Project(paths)
    found: list[str] = []
    for path in paths:
        data = path.read_bytes()
        source = Source(data, str(path))
        for finding in engine.check(source, ALL, links=project.links(path, data, ALL.sieve)):
            row, _ = source.position(finding.start)
            found.append(f"{path.relative_to(root).as_posix()}:{row} {finding.code}")
    return found


# --- imports ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("main", "helper", "import_", "call"),
    [
        ("train.py", "utils.py", "from utils import backward", "backward"),
        ("train.py", "utils.py", "from utils import backward as run", "run"),
        ("train.py", "utils.py", "from utils import (  # what (we) need\n        backward,\n    )",
         "backward"),
        ("train.py", "utils.py", "from utils import *", "backward"),
        ("train.py", "utils.py", "import utils", "utils.backward"),
        ("train.py", "utils.py", "import utils as u", "u.backward"),
        ("train.py", "a/utils.py", "import a.utils", "a.utils.backward"),
        ("train.py", "a/utils.py", "from a import utils", "utils.backward"),
        ("train.py", "a/b/utils.py", "from a.b.utils import backward", "backward"),
        ("train.py", "a/__init__.py", "from a import backward", "backward"),
        ("a/train.py", "a/utils.py", "from .utils import backward", "backward"),
        ("a/train.py", "a/utils.py", "from . import utils", "utils.backward"),
        ("a/train.py", "a/__init__.py", "from . import backward", "backward"),
        ("a/b/train.py", "a/utils.py", "from ..utils import backward", "backward"),
        ("a/b/train.py", "a/utils.py", "from .. import utils as u", "u.backward"),
        ("a/b/train.py", "a/utils.py", "from a.utils import backward", "backward"),
        ("a/b/train.py", "utils.py", "from utils import backward", "backward"),
        ("a/utils.py", "utils/__init__.py", "from utils import backward", "backward"),
    ],
)  # fmt: skip
def test_forms_of_import(tmp_path: Path, main: str, helper: str, import_: str, call: str) -> None:
    program = CLIPPED.format(import_=import_, call=call)
    line = 8 + import_.count("\n")
    assert findings(tmp_path, {main: program, helper: SCALE}) == [f"{main}:{line} AMP101"]


def test_without_the_other_file_nothing_is_known(tmp_path: Path) -> None:
    program = CLIPPED.format(import_="from utils import backward", call="backward")
    assert findings(tmp_path, {"train.py": program}) == []


def test_an_import_in_a_function(tmp_path: Path) -> None:
    program = CLIPPED.format(import_="", call="backward").replace(
        "    scaler = ", "    from utils import backward\n        scaler = "
    )
    assert findings(tmp_path, {"train.py": program, "utils.py": SCALE}) == ["train.py:9 AMP101"]


def test_the_nearest_of_two_modules_of_one_name(tmp_path: Path) -> None:
    files = {
        "a/train.py": CLIPPED.format(import_="from utils import backward", call="backward"),
        "a/utils.py": "def backward(scaler, loss):\n    print(loss)  # no backward()\n",
        "utils.py": SCALE,
    }
    assert findings(tmp_path, files) == []
    assert findings(tmp_path, {"b" + name[1:] if name[0] == "a" else name: text
                               for name, text in files.items() if name != "a/utils.py"}) == [
        "b/train.py:8 AMP101"
    ]  # fmt: skip


def test_the_directories_above_the_linted_ones_do_not_count(tmp_path: Path) -> None:
    program = CLIPPED.format(import_="from utils import backward", call="backward")
    write(tmp_path, {"utils.py": SCALE})
    assert findings(tmp_path / "inner", {"train.py": program}) == []


@pytest.mark.parametrize("name", ["torch", "functools"])
def test_torch_and_the_standard_library_are_no_files_of_a_project(
    tmp_path: Path, name: str
) -> None:
    program = CLIPPED.format(import_=f"from {name} import backward", call="backward")
    assert findings(tmp_path, {"train.py": program, f"{name}.py": SCALE}) == []


def test_through_a_package(tmp_path: Path) -> None:
    files = {
        "train.py": CLIPPED.format(import_="from a import run", call="run"),
        "a/__init__.py": "from .b import backward as run\n",
        "a/b.py": SCALE,
    }
    assert findings(tmp_path, files) == ["train.py:8 AMP101"]


def test_through_stars(tmp_path: Path) -> None:
    files = {
        "train.py": CLIPPED.format(import_="from a import *", call="backward"),
        "a/__init__.py": "from .b import *\nfrom .c import *\n",
        "a/b.py": SCALE,
        "a/c.py": "def other(optimizer):\n    optimizer.step()\n",
    }
    assert findings(tmp_path, files) == ["train.py:8 AMP101"]


def test_stars_of_a_package_that_imports_itself(tmp_path: Path) -> None:
    """Each star is looked into once, however often the package leads back to itself."""
    parts = [f"part{n}" for n in range(20)]
    program = """\
        import torch
        from a import backward, get_device, setup

        def step(model, x, scaler):
            device = get_device()
            with torch.autocast("cuda"):
                loss = setup(model)(x.to(device)).mean()
                backward(scaler, loss)
        """
    region = 'def setup(model):\n    with torch.autocast("cuda"):\n        return model\n'
    files = {f"a/{part}.py": f"def {part}(x):\n    return x\n" for part in parts}
    files |= {
        "train.py": program,
        "a/__init__.py": f"from . import {', '.join(parts)}\n"
        + "".join(f"from .{part} import *\n" for part in parts),
        "a/part7.py": f"import torch\n\n{region}\n{textwrap.dedent(SCALE)}",
    }
    assert findings(tmp_path, files) == ["train.py:8 AMP201"]


def test_a_helper_that_uses_another(tmp_path: Path) -> None:
    files = {
        "train.py": CLIPPED.format(import_="from a import run", call="run"),
        "a.py": "import b\n\ndef run(scaler, loss):\n    b.backward(scaler, loss)\n",
        "b.py": SCALE,
    }
    assert findings(tmp_path, files) == ["train.py:8 AMP101"]


def test_no_endless_chains(tmp_path: Path) -> None:
    chain = {f"m{n}.py": f"from m{n + 1} import backward\n" for n in range(1, 5)}
    program = CLIPPED.format(import_="from m1 import backward", call="backward")
    assert findings(tmp_path, {"train.py": program, **chain, "m5.py": SCALE}) == []
    assert findings(tmp_path, {"train.py": program, **chain, "m3.py": SCALE}) == [
        "train.py:8 AMP101"
    ]


# --- what is silent -----------------------------------------------------------------------------


def test_a_local_definition_shadows_the_import(tmp_path: Path) -> None:
    program = CLIPPED.format(import_="from utils import backward", call="backward")
    shadow = "\n    def backward(scaler, loss):\n        print(loss)\n"
    assert findings(tmp_path, {"train.py": program + shadow, "utils.py": SCALE}) == []


def test_a_parameter_shadows_the_import(tmp_path: Path) -> None:
    program = CLIPPED.format(import_="from utils import backward", call="backward")
    program = program.replace("loader):", "loader, backward):")
    assert findings(tmp_path, {"train.py": program, "utils.py": SCALE}) == []


def test_either_of_two_imports(tmp_path: Path) -> None:
    import_ = textwrap.indent(
        "try:\n    from fast import backward\nexcept ImportError:\n    from utils import backward",
        "    ",
    ).lstrip()
    program = CLIPPED.format(import_=import_, call="backward")
    other = "def backward(scaler, loss):\n    scaler.unscale_(loss)\n"
    assert findings(tmp_path, {"train.py": program, "utils.py": SCALE, "fast.py": other}) == []


def test_a_helper_that_unscales(tmp_path: Path) -> None:
    program = """\
        import torch
        from utils import prepare

        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                scaler.scale(model(x).sum()).backward()
                prepare(optimizer, by=scaler)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        """
    unscales = "def prepare(optimizer, by):\n    by.unscale_(optimizer)\n"
    looks = "def prepare(optimizer, by):\n    return optimizer.weight.grad is None\n"
    assert findings(tmp_path, {"train.py": program}) == []  # nobody knows what it does
    assert findings(tmp_path, {"train.py": program, "utils.py": unscales}) == []
    assert findings(tmp_path, {"train.py": program, "utils.py": looks}) == ["train.py:9 AMP101"]


def test_a_helper_that_steps_by_whatever_name(tmp_path: Path) -> None:
    program = """\
        import torch
        from utils import finish

        def train(model, o, loader):
            s = torch.amp.GradScaler("cuda")
            for x in loader:
                s.scale(model(x).sum()).backward()
                finish(s, o)
                s.unscale_(o)
        """
    helper = "def finish(a, b):\n    a.update()\n    a.step(b)\n"
    found = findings(tmp_path, {"train.py": program, "utils.py": helper})
    assert found == ["train.py:9 AMP103"]
    for line in ("a.update(b)", "b.update()", "a.update"):
        other = helper.replace("a.update()", line)
        assert findings(tmp_path, {"train.py": program, "utils.py": other}) == []


@pytest.mark.parametrize(
    ("returns", "found"),
    [
        ("return torch.device('cuda' if name else 'cpu')", True),
        ("device = torch.device(name)\n    print(device)\n    return device", True),
        ("return torch.device(name) if name else torch.device('cpu')", True),
        ("return torch.device(name).type", False),
        ("return str(torch.device(name))", False),
        ("return name or torch.device('cpu')", False),
        ("return torch.device('cuda') if name else 'cpu'", False),
        ("if name:\n        return torch.device(name)\n    return name", False),
    ],
)
def test_a_helper_that_picks_the_device(tmp_path: Path, returns: str, found: bool) -> None:
    program = """\
        import torch
        from utils import pick

        def evaluate(model, x, name):
            home = pick(name)
            with torch.autocast("cuda", enabled=home == "cuda"):
                return model(x.to(home))
        """
    helper = f"import torch\n\ndef pick(name):\n    {returns}\n"
    told = findings(tmp_path, {"train.py": program, "utils.py": helper})
    assert told == (["train.py:6 AMP213"] if found else [])


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", True),
        ("device=None", "device='cpu'", False),
        ("device=None", "device", False),
        ("device = pick(", "device = str(", False),
        ('device != "cpu"', 'device not in ("cpu", "mps")', True),
        ("model.half()", "model.float()", False),
    ],
)
def test_a_device_that_a_helper_picks_where_none_is_given(
    tmp_path: Path, old: str, new: str, found: bool
) -> None:
    program = """\
        import torch
        from utils import pick

        def load(model, name, device=None):
            if device is None:
                device = pick(name)
            if name and device != "cpu":
                model.half()
            return model
        """
    assert old in program
    helper = "import torch\n\ndef pick(name):\n    return torch.device(name)\n"
    program = program.replace(old, new) if old else program
    told = findings(tmp_path, {"train.py": program, "utils.py": helper})
    assert told == (["train.py:7 AMP213"] if found else [])


def test_a_helper_that_picks_the_dtype(tmp_path: Path) -> None:
    program = """\
        import torch
        from utils import pick

        def train(model, optimizer, loader, args):
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                with torch.autocast("cuda", dtype=pick(args.dtype)):
                    loss = model(x).sum()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    helper = """\
        import torch

        def pick(name):
            if name == "bf16":
                return torch.bfloat16
            return torch.float16
        """
    files = {"train.py": program, "utils.py": helper}
    assert findings(tmp_path, files) == ["train.py:5 AMP109"]
    files["train.py"] = program.replace('("cuda")', '("cuda", enabled=args.dtype == "fp16")')
    assert findings(tmp_path, files) == []


def test_same_names_in_two_files(tmp_path: Path) -> None:
    program = """\
        import torch
        from utils import prepare_others

        scaler = torch.amp.GradScaler("cuda")
        optimizer = torch.optim.SGD(model.parameters())
        for x in loader:
            scaler.scale(model(x).sum()).backward()
            prepare_others()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        """
    helper = """\
        import torch

        scaler = torch.amp.GradScaler("cuda")
        optimizer = torch.optim.SGD(others)

        def prepare_others():
            scaler.unscale_(optimizer)
        """
    assert findings(tmp_path, {"train.py": program, "utils.py": helper}) == []
    shared = program.replace("prepare_others\n", "optimizer, prepare_others, scaler\n", 1)
    lines = textwrap.dedent(shared).splitlines(keepends=True)
    files = {"train.py": "".join(lines[:2] + lines[5:]), "utils.py": helper}
    assert findings(tmp_path / "shared", files) == ["train.py:6 AMP103"]


# --- wrappers and scalers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("import_", "name"),
    [
        ("from utils import Wrapper", "Wrapper"),
        ("from utils import Wrapper as W", "W"),
        ("import utils", "utils.Wrapper"),
        ("from again import Wrapper", "Wrapper"),
    ],
)
def test_a_clip_beside_an_imported_wrapper(tmp_path: Path, import_: str, name: str) -> None:
    program = f"""\
        import torch
        {import_}

        def train(model, optimizer, loader):
            loss_scaler = {name}()
            for x in loader:
                loss_scaler(model(x).sum(), optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

        def other(model, optimizer, loader):
            loss_scaler = {name}()
            for x in loader:
                loss_scaler.inner.scale(model(x).sum()).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                loss_scaler.inner.step(optimizer)
                loss_scaler.inner.update()
        """
    again = "from utils import Wrapper\n"
    found = findings(tmp_path, {"train.py": program, "utils.py": WRAPPER, "again.py": again})
    assert found == ["train.py:14 AMP101"]


def test_an_inherited_method(tmp_path: Path) -> None:
    program = """\
        import torch
        from utils import Clipping

        class Mine(Clipping):
            def fit(self, model, optimizer, x):
                self.inner.scale(model(x).sum()).backward()
                self.step(optimizer, model)

        class Right(Clipping):
            def fit(self, model, optimizer, x):
                self.inner.scale(model(x).sum()).backward()
                self.inner.unscale_(optimizer)
                self.inner.unscale_(optimizer)
                self.step(optimizer, model)
        """
    files = {"train.py": program, "utils.py": WRAPPER}
    assert findings(tmp_path, files) == ["train.py:7 AMP101", "train.py:13 AMP103"]


MADE = """\
    import torch
    {import_}

    def train(model, optimizer, loader):
        {make}
        for x in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(x).sum()
            {scaler}.scale(loss).backward()
            {scaler}.step(optimizer)
            {scaler}.update()
    """


@pytest.mark.parametrize(
    ("arguments", "inner", "found"),
    [
        ("", '"cuda"', True),
        ("", '"cuda", enabled=enabled', True),
        ("False", '"cuda", enabled=enabled', False),
        ("enabled=False", '"cuda", **more', False),
        ("init_scale=1.0", '"cuda", **more', True),
        ("fp16", '"cuda", enabled=enabled', False),
    ],
)
def test_a_scaler_from_a_helper(tmp_path: Path, arguments: str, inner: str, found: bool) -> None:
    helper = f"""\
        import torch

        def make(enabled=True, **more):
            return torch.amp.GradScaler({inner})
        """
    if "more" in inner:
        helper = helper.replace("enabled=True, ", "")
    make = f"scaler = make({arguments})"
    program = MADE.format(import_="from utils import make", make=make, scaler="scaler")
    expected = ["train.py:5 AMP109"] if found else []
    assert findings(tmp_path, {"train.py": program, "utils.py": helper}) == expected


def test_a_helper_that_may_give_something_else(tmp_path: Path) -> None:
    helper = """\
        import torch

        def make(fp16):
            if fp16:
                return torch.amp.GradScaler("cuda")
            return None
        """
    make = "scaler = make(model.fp16)"
    program = MADE.format(import_="from utils import make", make=make, scaler="scaler")
    assert findings(tmp_path, {"train.py": program, "utils.py": helper}) == []


@pytest.mark.parametrize(
    ("import_", "scaler"),
    [("from utils import shared", "shared"), ("import utils", "utils.shared")],
)
def test_a_shared_scaler(tmp_path: Path, import_: str, scaler: str) -> None:
    program = f"""\
        import torch
        {import_}

        def train(model, optimizer, loader):
            for x in loader:
                model(x).sum().backward()
                {scaler}.step(optimizer)
                {scaler}.update()
        """
    helper = 'import torch\nshared = torch.amp.GradScaler("cuda")\n'
    assert findings(tmp_path, {"train.py": program}) == []
    found = findings(tmp_path, {"train.py": program, "utils.py": helper})
    assert found == ["train.py:6 AMP107"]


def test_a_scaler_that_may_be_off_is_not_certain(tmp_path: Path) -> None:
    program = """\
        from utils import make

        def train(model, optimizer, loader, amp):
            scaler = make(enabled=amp)
            for x in loader:
                model(x).sum().backward()
                scaler.step(optimizer)
                scaler.update()
        """
    helper = "import torch\n\ndef make(**more):\n    return torch.amp.GradScaler(**more)\n"
    assert findings(tmp_path, {"train.py": program, "utils.py": helper}) == []
    hidden = program.replace("enabled=amp", "**amp")
    assert findings(tmp_path, {"train.py": hidden, "utils.py": helper}) == []
    on = program.replace("enabled=amp", "init_scale=8.0")
    assert findings(tmp_path, {"train.py": on, "utils.py": helper}) == ["train.py:6 AMP107"]


def test_the_step_of_an_imported_optimizer_is_one(tmp_path: Path) -> None:
    program = """\
        import torch
        from optim import Mine

        def train(model, loader):
            scaler = torch.amp.GradScaler("cuda")
            optimizer = Mine(model.parameters())
            for x in loader:
                scaler.scale(model(x).sum()).backward()
                optimizer.step()
                scaler.update()

        class Last:
            pass
        """
    helper = """\
        import torch

        class Mine(torch.optim.Optimizer):
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.grad.mul_(0.5)
        """
    assert findings(tmp_path, {"train.py": program, "optim.py": helper}) == ["train.py:9 AMP104"]


# --- regions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("import_", "call", "helper"),
    [
        ("from utils import low_precision", "low_precision", AUTOCAST),
        ("import utils", "utils.low_precision", AUTOCAST),
        (
            "from utils import autocast",
            "autocast",
            "from torch.cuda.amp import autocast\n",
        ),
        (
            "from utils import half",
            "half",
            "import functools, torch\nhalf = functools.partial(torch.autocast, 'cuda')\n",
        ),
        (
            "from utils import half",
            "half",
            "import torch\n\ndef half():\n    return torch.autocast('cuda')\n",
        ),
    ],
)
def test_backward_in_an_imported_context(
    tmp_path: Path, import_: str, call: str, helper: str
) -> None:
    program = INSIDE.format(import_=import_, call=call)
    files = {"train.py": program, "utils.py": helper}
    assert [f for f in findings(tmp_path, files) if "AMP201" in f] == ["train.py:7 AMP201"]


GET = """\
    import contextlib
    import functools
    import torch

    def get_autocast(precision):
        if precision == "amp":
            return torch.cuda.amp.autocast
        if precision == "bf16":
            return lambda: torch.cuda.amp.autocast(dtype=torch.bfloat16)
        if precision == "partial":
            return functools.partial(torch.autocast, "cuda")
        return contextlib.nullcontext
    """


def test_a_function_that_returns_autocast(tmp_path: Path) -> None:
    program = INSIDE.format(import_="from utils import get_autocast", call="autocast")
    program = program.replace("loader):", "loader, args):").replace(
        "    for x", "    autocast = get_autocast(args.precision)\n        for x", 1
    )
    files = {"train.py": program, "utils.py": GET}
    assert findings(tmp_path, files) == ["train.py:6 AMP110", "train.py:8 AMP201"]
    both = textwrap.dedent(GET) + textwrap.dedent(program.replace("from utils", "# from utils"))
    assert findings(tmp_path / "one", {"train.py": both}) == [
        "train.py:18 AMP110",
        "train.py:20 AMP201",
    ]


def test_the_switch_is_the_argument(tmp_path: Path) -> None:
    program = """\
        from utils import low_precision

        def train(model, optimizer, loader, amp):
            for x in loader:
                with low_precision(enabled=amp):
                    loss = model(x).sum()
                    if not amp:
                        loss.backward()
                if amp:
                    loss.backward()
                optimizer.step()
        """
    found = findings(tmp_path, {"train.py": program, "utils.py": AUTOCAST})
    assert found == ["train.py:5 AMP110"]
    off = program.replace("enabled=amp", "False")
    assert findings(tmp_path, {"train.py": off, "utils.py": AUTOCAST}) == []


def test_the_region_of_a_module_is_seen_where_it_is_trained(tmp_path: Path) -> None:
    module = """\
        import torch
        from torch import nn

        class Net(nn.Module):
            def forward(self, x):
                with torch.autocast("cuda", dtype={}):
                    return self.body(x)
        """
    program = """\
        from net import Net

        def train(optimizer, loader):
            model = Net().cuda()
            for x in loader:
                loss = model(x).float().sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        """
    files = {"train.py": program, "net.py": module.format("torch.float16")}
    assert findings(tmp_path, files) == ["train.py:7 AMP110"]
    files["net.py"] = module.format("torch.bfloat16")
    assert findings(tmp_path / "wide", files) == []


# --- which file, and what it costs --------------------------------------------------------------


def test_nothing_is_reported_for_another_file(tmp_path: Path) -> None:
    helper = """\
        import torch

        def step(scaler, model, optimizer):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """
    program = """\
        import torch
        from utils import step

        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                scaler.scale(model(x).sum()).backward()
                step(scaler, model, optimizer)
        """
    assert findings(tmp_path, {"train.py": program, "utils.py": helper}) == ["train.py:8 AMP101"]
    both = textwrap.dedent(helper) + textwrap.dedent(program).replace("from utils", "# from utils")
    assert findings(tmp_path / "one", {"train.py": both}) == ["train.py:4 AMP101"]


def test_places_in_another_file_are_not_named(tmp_path: Path) -> None:
    program = CLIPPED.format(import_="from utils import backward", call="backward")
    paths = write(tmp_path, {"train.py": program, "utils.py": SCALE})
    data = paths[0].read_bytes()
    source = Source(data, "train.py")
    (found,) = engine.check(source, ALL, links=Project(paths).links(paths[0], data, ALL.sieve))
    assert all(place.end <= len(source.text) for place in found.related)
    assert source.text[found.start : found.end].startswith("torch.nn.utils.clip_grad_norm_")


def test_fixes_stay_in_the_file(tmp_path: Path) -> None:
    program = CLIPPED.format(import_="from utils import backward", call="backward")
    paths = write(tmp_path, {"train.py": program, "utils.py": SCALE})
    data = paths[0].read_bytes()
    links = Project(paths).links(paths[0], data, ALL.sieve)
    result = fixing.fix(Source(data, "train.py"), ALL, unsafe=True, links=links)
    assert "        scaler.unscale_(optimizer)\n        torch.nn" in result.text
    assert result.remaining == []


def test_import_cycles(tmp_path: Path) -> None:
    files = {
        "train.py": CLIPPED.format(import_="from utils import backward", call="backward"),
        "utils.py": "import train\nimport utils\n" + textwrap.dedent(SCALE),
    }
    assert findings(tmp_path, files) == ["train.py:8 AMP101"]


def test_a_helper_that_calls_back(tmp_path: Path) -> None:
    program = CLIPPED.format(import_="from utils import run", call="run")
    program += "\n    def scaled(scaler, loss):\n        scaler.scale(loss).backward()\n"
    helper = """\
        import torch

        def run(scaler, loss):
            from train import scaled
            with torch.autocast("cuda", enabled=False):
                scaled(scaler, loss)
        """
    files = {"train.py": program, "utils.py": helper}
    assert findings(tmp_path, files) == ["train.py:8 AMP101"]


@pytest.mark.parametrize(
    "helper",
    [b"def backward(scaler, loss:\n", b"# -*- coding: nonsense -*-\nbackward = 1\n",
     b"backward = '\xff'\n", b"x = 1\0 # backward(", b"x = " + b"(" * 500 + b")" * 500],
)  # fmt: skip
def test_files_that_cannot_be_read_are_not_linked(tmp_path: Path, helper: bytes) -> None:
    program = CLIPPED.format(import_="from utils import backward", call="backward")
    paths = write(tmp_path, {"train.py": program, "utils.py": helper})
    data = paths[0].read_bytes()
    links = Project(paths).links(paths[0], data, ALL.sieve)
    assert engine.check(Source(data, "train.py"), ALL, links=links) == []


def test_copies_are_two_files(tmp_path: Path) -> None:
    files = {
        "train.py": CLIPPED.format(
            import_="from a.utils import backward\n    import b.utils", call="b.utils.backward"
        ),
        "a/utils.py": SCALE,
        "b/utils.py": SCALE,
    }
    assert findings(tmp_path, files) == ["train.py:9 AMP101"]


class _Parses:
    """Counts what libcst parses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        parse = cst.parse_module

        def counted(text: str) -> cst.Module:
            self.texts.append(text)
            return parse(text)

        monkeypatch.setattr(cst, "parse_module", counted)


def test_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = textwrap.dedent(CLIPPED.format(import_="from utils import back", call="back"))
    cut = "def back(scaler, loss):\n    scaler.scale(loss).backward()  # once for all\n"
    parses = _Parses(monkeypatch)
    programs = [f"{program}\n{'x' * n} = 1\n" for n in range(1, 4)]
    trainers = {f"train{n}.py": text for n, text in enumerate(programs)}
    assert len(findings(tmp_path, trainers | {"utils.py": f"{cut}\n\nx = 1\n"})) == 3
    assert parses.texts[:3] == [*programs[:1], cut, *programs[1:2]]
    assert (len(parses.texts), len({*parses.texts})) == (8, 7)  # the helper alone, too


@pytest.mark.parametrize(
    "import_", ["", "import numpy as np", "from utils import plot", "import utils"]
)
def test_no_parse_more_without_such_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, import_: str
) -> None:
    program = CLIPPED.format(import_=import_, call="print")
    parses = _Parses(monkeypatch)
    findings(tmp_path, {"train.py": program, "utils.py": "def plot(x):\n    return x\n"})
    assert parses.texts == [textwrap.dedent(program)]


def test_only_what_is_used_is_attached(tmp_path: Path) -> None:
    helper = textwrap.dedent(SCALE) + "\n\ndef plot(x):\n    x.backward()\n"
    program = textwrap.dedent(
        CLIPPED.format(import_="from utils import backward, other", call="backward")
    )
    paths = write(tmp_path, {"train.py": program, "utils.py": helper})
    links = Project(paths).links(paths[0], program.encode(), ALL.sieve)
    assert links is not None
    attached = linking.attachments(program.encode(), links)
    assert attached.texts == (textwrap.dedent(SCALE),)


def test_a_file_without_the_words_of_a_rule(tmp_path: Path) -> None:
    program = INSIDE.format(import_="from utils import low_precision as fast", call="fast")
    files = {"train.py": program, "utils.py": AUTOCAST}
    assert findings(tmp_path, files) == ["train.py:5 AMP110", "train.py:7 AMP201"]


# --- runs ---------------------------------------------------------------------------------------


def _jobs(root: Path, paths: list[Path]) -> list[Job]:
    project = Project(paths)
    data = {path: path.read_bytes() for path in paths}
    return [
        Job(
            path.name,
            data[path],
            False,
            ALL,
            Action.REPORT,
            links=project.links(path, data[path], ALL.sieve),
        )
        for path in paths
    ]


def _program(tmp_path: Path) -> list[Path]:
    program = INSIDE.format(import_="from utils import low_precision as fast", call="fast")
    clipped = CLIPPED.format(import_="import again", call="again.backward")
    files = {f"train{n}.py": program for n in range(4)} | {
        "clip.py": clipped,
        "utils.py": AUTOCAST,
        "again.py": SCALE,
    }
    return write(tmp_path, files)


def test_order_and_workers_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = _program(tmp_path)

    def by_name(jobs: list[Job]) -> dict[str, list[Diagnostic]]:
        return {outcome.name: outcome.findings for outcome in runner.run(jobs)}

    expected = by_name(_jobs(tmp_path, paths))
    assert sum(map(len, expected.values())) == 9
    random.Random(0).shuffle(paths)
    assert by_name(_jobs(tmp_path, paths)) == expected
    monkeypatch.setattr(runner, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(runner, "WORTHWHILE_BYTES", 0)
    assert by_name(_jobs(tmp_path, paths)) == expected


def test_links_are_read_before_anything_is_written(tmp_path: Path, main: Run) -> None:
    program = CLIPPED.format(import_="from aa import backward", call="backward")
    helper = textwrap.dedent(SCALE) + textwrap.dedent(CLIPPED.format(import_="", call="backward"))
    write(tmp_path, {"aa.py": helper, "train.py": program})
    done = main("--isolated", "--select=AMP101", "--fix", "--unsafe-fixes", ".")
    assert "Found 2 errors (2 fixed, 0 remaining)." in done.out, done
    assert "scaler.unscale_(optimizer)" in (tmp_path / "train.py").read_text()


def test_the_command_line_links(tmp_path: Path, main: Run) -> None:
    _program(tmp_path)
    options = ("--isolated", "--preview", "--output-format=concise", "--select=AMP201")
    lines = main(*options, ".").out.splitlines()
    assert [line.partition(": ")[0] for line in lines[:4]] == [
        f"train{n}.py:7:13" for n in range(4)
    ]
    alone = main("--config=follow-imports=false", *options, "train0.py").out
    assert "AMP201" not in alone
    assert main(*options, "train0.py").out.splitlines()[0] == lines[0]


def test_a_file_that_is_not_python_is_no_news_because_of_its_imports(
    tmp_path: Path, main: Run
) -> None:
    program = INSIDE.format(import_="from utils import low_precision as fast", call="fast")
    write(tmp_path, {"train.py": program + "\n    def (:\n", "utils.py": AUTOCAST})
    assert main("--isolated", "--select=AMP201", ".").code == 0


def test_links_of_nothing(tmp_path: Path) -> None:
    assert Project([]).links(tmp_path / "a.py", b"loss.backward()") is None
    assert Links((), {}) == Links((), {})


# --- checkpoints --------------------------------------------------------------------------------


def test_an_imported_function_may_save_the_scaler(tmp_path: Path) -> None:
    program = """\
        import torch
        from utils import save

        class Trainer:
            def __init__(self, model):
                self.scaler = torch.amp.GradScaler("cuda")
                self.optimizer = torch.optim.SGD(model.parameters())

            def step(self, loss):
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()

            def save(self):
                state = {"optimizer": self.optimizer.state_dict()}
                save(state, scaler=self.scaler)
                torch.save(state, "last.pt")

            def load(self):
                self.optimizer.load_state_dict(torch.load("last.pt")["optimizer"])
        """
    helper = """\
        def save(state, scaler):
            state["s"] = scaler.state_dict()
            scaler.update()
        """
    assert findings(tmp_path, {"train.py": program, "utils.py": helper}) == []
    without = program.replace("save(state, scaler=self.scaler)", "pass")
    found = findings(tmp_path, {"train.py": without, "utils.py": helper})
    assert found == ["train.py:15 AMP111"]


def test_a_scaler_of_the_same_file_is_reported_where_it_is_made(tmp_path: Path) -> None:
    program = MADE.format(import_="", make="scaler = make()", scaler="scaler")
    program += '\n    def make():\n        return torch.amp.GradScaler("cuda")\n'
    assert findings(tmp_path, {"train.py": program}) == ["train.py:14 AMP109"]


OLD_IMPORT = """\
    import torch
    from torch.cuda.amp import autocast


    def run(model, x):
        with autocast(enabled=True):
            return model(x)
    """


@pytest.mark.parametrize(
    "importer",
    [
        "from common import autocast\n\nwith autocast(enabled=False):\n    pass\n",
        "from common import *\n\nwith autocast(enabled=False):\n    pass\n",
    ],
)
def test_names_that_others_import_stay(tmp_path: Path, main: Run, importer: str) -> None:
    (tmp_path / "common.py").write_text(textwrap.dedent(OLD_IMPORT))
    (tmp_path / "other.py").write_text(importer)
    main("--fix", "--select", "AMP401", "-q", tmp_path)
    text = (tmp_path / "common.py").read_text()
    assert "from torch.cuda.amp import autocast" in text
    assert 'torch.amp.autocast("cuda", enabled=True)' in text


def test_what_a_function_imports_is_its_own(tmp_path: Path, main: Run) -> None:
    text = """\
        import torch

        def run(model, x):
            from torch.cuda.amp import autocast

            with autocast(enabled=True):
                return model(x)
        """
    (tmp_path / "common.py").write_text(textwrap.dedent(text))
    (tmp_path / "other.py").write_text("from common import *\n")
    main("--fix", "--select", "AMP401", "-q", tmp_path)
    assert "    from torch.amp import autocast\n" in (tmp_path / "common.py").read_text()


def test_names_that_nobody_imports_move(tmp_path: Path, main: Run) -> None:
    (tmp_path / "common.py").write_text(textwrap.dedent(OLD_IMPORT))
    (tmp_path / "other.py").write_text("from common import run\n")
    main("--fix", "--select", "AMP401", "-q", tmp_path)
    assert "from torch.amp import autocast" in (tmp_path / "common.py").read_text()


@pytest.mark.parametrize(
    "line",
    [
        "from torch.cuda.amp import autocast  # noqa: F401",
        "from torch.cuda.amp import autocast  # noqa",
        "from torch.cuda.amp import autocast as autocast",
    ],
)
def test_names_that_are_imported_for_others_stay(tmp_path: Path, main: Run, line: str) -> None:
    text = textwrap.dedent(OLD_IMPORT).replace("from torch.cuda.amp import autocast", line)
    (tmp_path / "common.py").write_text(text)
    main("--fix", "--select", "AMP401", "-q", tmp_path)
    assert line in (tmp_path / "common.py").read_text()


@pytest.mark.parametrize(
    "text, found",
    [
        ("import a, b.c as d", [("a", ""), ("b.c", "")]),
        ("x = 1\nfrom .a import b; import c", [("..a", "b")]),
        ("from a \\\n    import b, \\\n    c", [("a", "b"), ("a", "c")]),
        ("from a \\\r\n import b", [("a", "b")]),
        (
            "from a import (  # of import\n    b,\n    important,\n)",
            [("a", "b"), ("a", "important")],
        ),
        ("important = reimport = 1", []),
        ("if x:\n\timport a", [("a", "")]),
        ("if x: import a", []),
        ("from a import (b", []),
    ],
)
def test_what_is_imported(text: str, found: list[tuple[str, str]]) -> None:
    assert [*imports(text.encode())] == found
