"""Which expressions are scalers and optimizers, by origin, methods and name."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_lint.flow.values import literal
from tests.programs import model_of


def is_scaler(text: str) -> bool:
    model = model_of(text)
    return model.roles.is_scaler(_argument(model.tree.nodes(cst.Call)))


def is_optimizer(text: str) -> bool:
    model = model_of(text)
    return model.roles.is_optimizer(_argument(model.tree.nodes(cst.Call)))


def _argument(calls: list[cst.Call]) -> cst.BaseExpression:
    (use,) = (c for c in calls if isinstance(c.func, cst.Name) and c.func.value == "use")
    return use.args[0].value


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nx = torch.amp.GradScaler('cuda')\nuse(x)",
        "import torch\nx = torch.cuda.amp.GradScaler()\nuse(x)",
        "import torch as t\nx = t.GradScaler()\nuse(x)",
        "from torch.cuda.amp import GradScaler\nx = GradScaler()\nuse(x)",
        "from torch.cuda.amp import GradScaler as G\nx = G()\nuse(x)",
        "from torch.cuda import amp\nx = amp.GradScaler()\nuse(x)",
        "import torch.cuda.amp as amp\nx = amp.GradScaler() if y else None\nuse(x)",
        "from torch.amp import GradScaler\nx = y and GradScaler()\nuse(x)",
        "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n"
        "    from torch.cuda.amp import GradScaler\nx = GradScaler()\nuse(x)",
        "import torch\nif y:\n    x = None\nelse:\n    x = torch.amp.GradScaler()\nuse(x)",
        "import torch\nx: object = torch.amp.GradScaler()\nuse(x)",
        "import torch\nx = y = torch.amp.GradScaler()\nuse(y)",
        "import torch\nx = torch.amp.GradScaler()\nz = x\nuse(z)",
        "import torch\nclass T:\n    def __init__(self):\n        self.s = torch.amp.GradScaler()\n"
        "    def f(self):\n        use(self.s)",
        "import torch\nclass T:\n    s = torch.amp.GradScaler()\n"
        "    def f(self):\n        use(self.s)",
        "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler\n"
        "x = ShardedGradScaler()\nuse(x)",
        # by what is done with it
        "def f(x, opt):\n    x.unscale_(opt)\n    use(x)",
        "class T:\n    def f(self):\n        self.amp.unscale_(self.o)\n        use(self.amp)",
        "def f(scaler, loss):\n    scaler.scale(loss)\n    use(scaler)",
        "def f(loss_scaler):\n    loss_scaler.state_dict()\n    use(loss_scaler)",
        "def f(self):\n    self.scaler_d.update()\n    use(self.scaler_d)",
        "def f(engine):\n    engine.grad_scaler.update()\n    use(engine.grad_scaler)",
        "def f(scalers, i):\n    scalers[i].unscale_(o)\n    use(scalers[0])",
        "def f(x, l, o):\n    x.scale(l)\n    x.step(o)\n    x.update()\n    use(x)",
        "from functools import partial\nimport torch\nf = partial(torch.amp.GradScaler, 'cuda')\n"
        "x = f(init_scale=8.0)\nuse(x)",
        # by what its function is given
        "def end(x):\n    x.update()\n    use(x)\nend(scaler)\nend(x=scaler)\nscaler.update()",
        "def end(x):\n    x.update()\n    use(x)\ndef f(y):\n    end(y)\nf(scaler)\nscaler.step(o)",
        "class T:\n    def end(self, x):\n        x.update()\n        use(x)\n"
        "    def f(self, scaler):\n        self.end(scaler)\n        scaler.step(o)",
        # beside another thing of that name
        "def g(scaler, y):\n    return scaler.inverse_transform(y)\n"
        "def f(scaler, opt):\n    scaler.unscale_(opt)\n    use(scaler)",
        # by another name
        "def f(x, opt):\n    x.unscale_(opt)\n    y = x\n    use(y)",
        "def f(x, opt):\n    y = x\n    y.unscale_(opt)\n    use(x)",
        "def f(state):\n    state.scaler.step(o)\n    x = state.scaler\n    use(x)",
        "def f(state):\n    x = state.scaler\n    x.update()\n    use(x)",
        "def f(s):\n    x = s\n    x['amp'].unscale_(o)\n    use(s['amp'])",
    ],
)
def test_scalers(text: str) -> None:
    assert is_scaler(text)


@pytest.mark.parametrize(
    "text",
    [
        "from sklearn.preprocessing import StandardScaler\nscaler = StandardScaler()\n"
        "scaler.fit_transform(d)\nuse(scaler)",
        "def f(scaler, d):\n    scaler.fit(d)\n    scaler.update(d)\n    use(scaler)",
        "def f(scaler):\n    use(scaler)",
        "def f(x):\n    x.update()\n    use(x)",
        "def f(x):\n    x.scale(1)\n    x.step()\n    use(x)",
        "def f(upscaler):\n    upscaler.scale(1)\n    use(upscaler)",
        "class GradScaler: pass\nx = GradScaler()\nuse(x)",
        "from mine import GradScaler\nx = GradScaler()\nuse(x)",
        "import torch\nx = torch.amp.GradScaler\nuse(x)",
        "def f(scaler, d):\n    x = scaler\n    x.fit(d)\n    scaler.update(d)\n    use(scaler)",
        "import torch\nclass T:\n    def __init__(self):\n        self.scaler = None\n"
        "        self.scheduler = None\n    def f(self):\n        self.scaler.unscale_(o)\n"
        "        self.scheduler.step(metric)\n        use(self.scheduler)",
        "def g(scaler, y):\n    scaler.unscale_(y)\n"
        "def f(scaler, y):\n    scaler.fit(y)\n    scaler.update(y)\n    use(scaler)",
        "def end(x):\n    x.update()\n    use(x)\nend(scaler)\nend(meter)\nscaler.update()",
        "def end(x):\n    x.update()\n    use(x)\nend(*scaler)\nscaler.update()",
        "def end(x):\n    x.update()\n    use(x)\n    end(x)",
        "use(3)",
    ],
)
def test_no_scalers(text: str) -> None:
    assert not is_scaler(text)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nx = torch.optim.SGD(p, 1)\nuse(x)",
        "from torch.optim import Adam\nx = Adam(p)\nuse(x)",
        "from torch import optim\nx = optim.AdamW(p) if y else optim.SGD(p, 1)\nuse(x)",
        "class T:\n    def f(self):\n        use(self.optimizer)",
        "x = optimizer\nuse(x)",
        "x = y = state.optimizers[0]\nuse(y)",
        # by what is done with it
        "def f(s, x):\n    s.unscale_(x)\n    use(x)",
        "def f(s, x):\n    s.scale(l)\n    s.step(x)\n    s.update()\n    use(x)",
        "def f(s, x):\n    s.unscale_(optimizer=self.x)\n    use(self.x)",
        "def f(x):\n    x.zero_grad()\n    x.step()\n    use(x)",
        "def f(x):\n    x.step()\n    x.zero_grad(set_to_none=True)\n    use(x)",
        "class T:\n    def f(self):\n        self.x.zero_grad()\n        use(self.x)\n"
        "    def g(self):\n        self.x.step()",
        "x, y = a\ny.zero_grad()\ny.step()\nuse(y)",
        *(
            f"use({name})"
            for name in (
                "optimizer", "optim", "opt", "optimizers[0]", "self.optimizer_d", "g_optimizer",
                "optimizer1", "opt_g", "d_opt", "optim_disc", "adam", "self.adamw", "sgd",
                "self.state.optimizer", "optimizerD",
            )
        ),
    ],
)  # fmt: skip
def test_optimizers(text: str) -> None:
    assert is_optimizer(text)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\noptimizer = torch.optim.lr_scheduler.StepLR(o, 1)\nuse(optimizer)",
        "x = lr_scheduler\nuse(x)",
        "x.step()\nuse(x)",
        "x.zero_grad()\nuse(x)",
        "x.zero_grad()\nx.backward(l)\nx.step()\nuse(x)",
        "x.zero_grad()\nx.step(action)\nuse(x)",
        "env.step(x)\nuse(x)",
        *(
            f"use({name})"
            for name in (
                "scheduler", "lr_scheduler", "optimizer_scheduler", "profiler", "prof", "env",
                "model", "adapt", "options", "optimizer_lr", "ema", "warmup_opt",
                "f()",
            )
        ),
    ],
)  # fmt: skip
def test_no_optimizers(text: str) -> None:
    assert not is_optimizer(text)


@pytest.mark.parametrize(
    ("made", "is_one"),
    [
        ("torch.optim.lr_scheduler.StepLR(o, 1)", True),
        ("torch.optim.swa_utils.SWALR(o, 1)", True),
        ("torch.optim.swa_utils.AveragedModel(net)", False),
        ("WarmupPolyLrScheduler(optim, warmup=9)", True),
        ("LRScheduler(optim, 9)", True),
        ("lib.build_scheduler(config, optimizer)", True),
        ("DDPMScheduler(steps=9)", False),
        ("Scheduled(optimizer)", False),
    ],
)
def test_schedulers(made: str, is_one: bool) -> None:
    model = model_of(f"import torch, lib\nx = {made}\nuse(x)")
    (call,) = [c for c in model.tree.nodes(cst.Call) if model.tree.source(c) == "use(x)"]
    assert model.roles.is_scheduler(call.args[0].value) is is_one
    assert not model.roles.is_optimizer(call.args[0].value)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("scheduler", True),
        ("lr_decay_scheduler", True),
        ("lr_weight_scheduler", True),
        ("weight_net_scheduler", True),
        ("torch.optim.lr_scheduler.StepLR(o, 1)", True),
        ("teacher_temp_scheduler", False),
        ("scheduler_wd", False),
        ("weight_decay_scheduler", False),
        ("lib.BNMomentumScheduler(net, optimizer)", False),
        ("wd", False),
    ],
)
def test_schedulers_of_a_learning_rate(name: str, rate: bool) -> None:
    model = model_of(f"import torch, lib\nuse({name})")
    call = next(c for c in model.tree.nodes(cst.Call) if model.tree.source(c).startswith("use("))
    assert model.roles.schedules_rate(call.args[0].value) is rate


def test_every_construction() -> None:
    model = model_of(
        """
        import torch
        from torch.cuda.amp import GradScaler
        a = [torch.amp.GradScaler("cuda"), GradScaler()]
        b = torch.cuda.amp.autocast()
        """
    )
    assert [model.tree.source(call) for call in model.roles.scaler_calls] == [
        'torch.amp.GradScaler("cuda")',
        "GradScaler()",
    ]


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("import paddle\nfrom paddle.amp import GradScaler", True),
        ("import mindspore as ms", True),
        ("import paddle\nimport torch", False),
        ("from torch.amp import GradScaler\nimport tensorflow as tf", False),
        ("import numpy", False),
    ],
)
def test_other_frameworks(text: str, foreign: bool) -> None:
    assert model_of(text).roles.is_foreign is foreign


def test_the_protocol_of_another_framework() -> None:
    text = "import paddle\nscaler.unscale_(optimizer)\nscaler.step(optimizer)\n"
    steps = model_of(text).steps
    assert not [*steps.recognizer.event_nodes()]


@pytest.mark.parametrize(
    ("call", "scale", "enabled"),
    [
        ("torch.amp.GradScaler('cuda', 8.0, 2.0, 0.5, 100, False)", 8.0, False),
        ("torch.cuda.amp.GradScaler(8.0, 2.0, 0.5, 100, False)", 8.0, False),
        ("torch.cuda.amp.GradScaler(enabled=False)", ..., False),
        ("torch.amp.GradScaler('cuda')", ..., ...),
        ("fairscale.optim.grad_scaler.ShardedGradScaler(8.0, 2.0, 0.5)", 8.0, ...),
        ("torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler('cuda', 8.0)", 8.0, ...),
    ],
)
def test_arguments_of_a_scaler_in_any_place(call: str, scale: object, enabled: object) -> None:
    model = model_of(f"import torch, fairscale\nscaler = {call}\n")
    (made,) = model.roles.scaler_calls
    assert literal(model.roles.initial_scale(made)) == scale
    assert literal(model.roles.switch(made)) == enabled
    assert model.roles.is_switchable(made) is (enabled is False)


def test_a_parameter_that_is_handed_on_very_often() -> None:
    """Each function asks the one that calls it; however many there are, that ends."""
    hand = "def f{}(found, loss):\n    f{}(found, loss)\n"
    text = "import torch\n" + "".join(hand.format(i, i + 1) for i in range(400))
    text += "def f400(found, loss):\n    return found\n"
    text += "scaler = torch.amp.GradScaler('cuda')\nf0(scaler, 1)\n"
    model = model_of(text)
    calls = [each for each in model.tree.nodes(cst.Call) if len(each.args) == 2]
    given = {
        model.tree.source(call.func): model.roles.is_scaler(call.args[0].value)
        for call in reversed(calls)
    }
    assert given["f0"] and given["f1"]
    assert not given["f400"]


ITEMS = """\
import torch
made = build()
scaler, other = made["scaler"], made["rate"]
def train(loss, optimizer):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    other.step()
use({})
"""


def test_items_of_a_dict_are_different_things() -> None:
    """What is done with one says nothing of the others, but for those of a list."""
    assert is_scaler(ITEMS.format("made['scaler']"))
    assert not is_scaler(ITEMS.format("made['rate']"))
    assert not is_scaler(ITEMS.format("other"))
    assert is_scaler(ITEMS.replace('"scaler"', "0").replace('"rate"', "1").format("made[1]"))


def test_items_that_are_walked_over_may_be_any() -> None:
    """What is done with each of them is done with this one too."""
    text = ITEMS.replace('scaler, other = made["scaler"], made["rate"]', "scaler = made[name]")
    assert is_scaler(text.replace("    other.step()\n", "").format("made['first']"))
