"""What is erased or may differ, each with a text for which its condition does not hold."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify.compare import compare

LOOP = """
    import torch
    from torch.cuda.amp import GradScaler, autocast


    def fit(net, loss_of, rows, optimizer, seen):
        scaler = GradScaler()
        for row in rows:
            optimizer.zero_grad()
            loss = loss_of(net(row))
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
"""
LOSS = "        loss = loss_of(net(row))\n"
BACK = "        loss.backward()\n"
STEP = "        optimizer.step()\n"
SEEN = "        seen.append(loss.item())\n"
MADE = "    scaler = GradScaler()\n"
ENABLED = "        if scaler.is_enabled():\n"
ELSE = "        else:\n    "
CLEAR = "        optimizer.zero_grad()\n"

Edits = tuple[tuple[str, str], ...]


def differing(before: str, edits: Edits) -> list[str]:
    """The owners of the places at which two texts differ, "" for none."""
    before = textwrap.dedent(before)
    after = before
    for old, new in edits:
        assert old in after
        after = after.replace(old, new, 1)
    compile(after, "after", "exec")
    return [place.owner for place in compare(before, after).coverage]


SAME: list[tuple[str, Edits]] = [
    (
        "layout",
        ((LOSS, "        # the loss\n        loss = loss_of(\n            net(row)\n        )\n"),),
    ),
    ("scaled loss", ((BACK, "        scaler.scale(loss).backward()\n"),)),
    (
        "scaled loss with a name",
        ((BACK, "        up = scaler.scale(loss)\n        up.backward()\n"),),
    ),
    ("step of a scaler", ((STEP, "        scaler.step(optimizer)\n"),)),
    (
        "unscale and update",
        ((STEP, f"        scaler.unscale_(optimizer)\n{STEP}        scaler.update()\n"),),
    ),
    ("region", ((LOSS, f"        with autocast():\n    {LOSS}"),)),
    ("region over more", ((LOSS + BACK, f"        with autocast():\n    {LOSS}    {BACK}"),)),
    ("scaler made", ((MADE, ""),)),
    ("import of AMP", (("GradScaler, autocast", "GradScaler"),)),
    (
        "test of a scaler",
        ((STEP, f"{STEP}        if scaler is not None:\n            scaler.update()\n"),),
    ),
    (
        "arms of a test of a scaler",
        (
            (
                STEP,
                f"{ENABLED}            scaler.step(optimizer)\n{ELSE}{STEP}",
            ),
        ),
    ),
    (
        "renamed local",
        (
            ("loss = ", "cost = "),
            (BACK, BACK.replace("loss", "cost")),
            ("(loss.item", "(cost.item"),
        ),
    ),
    (
        "temporary",
        (
            ("loss_of(net(row))", "loss_of(made)"),
            (
                LOSS.replace("net(row)", "made"),
                f"        made = net(row)\n{LOSS.replace('net(row)', 'made')}",
            ),
        ),
    ),
    ("value without a name", ((STEP, f"        norm = loss.detach()\n{STEP}"),)),
    ("what is so by default", (("zero_grad()", "zero_grad(set_to_none=True)"),)),
    ("print", ((SEEN, f'{SEEN}        print("loss", loss.item())\n'),)),
    (
        "print of a result",
        ((STEP, f"        size = loss.detach().abs()\n{STEP}        print(size)\n"),),
    ),
    ("docstring", ((MADE, f'    """Fit."""\n{MADE}'),)),
    (
        "annotation",
        (
            ("fit(net, loss_of", "fit(net: torch.nn.Module, loss_of"),
            ("seen):", "seen: list[float]) -> None:"),
        ),
    ),
]


@pytest.mark.parametrize("edits", [e for _, e in SAME], ids=[name for name, _ in SAME])
def test_what_makes_no_difference(edits: Edits) -> None:
    assert not differing(LOOP, edits)


OTHER: list[tuple[str, Edits]] = [
    (
        "the scaled loss is seen",
        ((BACK, "        loss = scaler.scale(loss)\n        loss.backward()\n"),),
    ),
    ("a step of more", ((STEP, "        scaler.step(optimizer, net)\n"),)),
    ("an update to a number", ((STEP, f"{STEP}        scaler.update(8.0)\n"),)),
    ("a region with a name", ((LOSS, f"        with autocast() as net:\n    {LOSS}"),)),
    ("another context", ((LOSS, f"        with torch.no_grad():\n    {LOSS}"),)),
    ("a scaler in a loop", ((MADE, ""), (CLEAR, f"    {MADE}{CLEAR}"))),
    ("an optimizer that is a scaler", ((MADE, f"{MADE}    optimizer = GradScaler()\n"),)),
    (
        "a test of the scale",
        ((STEP, f"{STEP}        if scaler.get_scale() > 2:\n            scaler.update()\n"),),
    ),
    (
        "a test of something else",
        ((STEP, f"{STEP}        if seen:\n            scaler.update()\n"),),
    ),
    (
        "a name that is read elsewhere",
        (("loss = ", "cost = "), (BACK, BACK.replace("loss", "cost"))),
    ),
    (
        "a name that is asked for",
        (
            ("loss = ", "cost = "),
            (BACK, BACK.replace("loss", "cost")),
            (SEEN, "        seen.append(cost.item())\n        seen.append(locals())\n"),
        ),
    ),
    ("a parameter", (("seen):", "kept):"), ("seen.append", "kept.append"))),
    (
        "a temporary over a call",
        (("loss_of(net(row))", "loss_of(made)"), (CLEAR, f"        made = net(row)\n{CLEAR}")),
    ),
    (
        "a temporary that is read late",
        ((LOSS, "        made = net(row)\n        loss = loss_of(lambda: made)\n"),),
    ),
    ("a call without a name", ((STEP, f"        norm = seen.pop()\n{STEP}"),)),
    ("not so by default", (("zero_grad()", "zero_grad(set_to_none=False)"),)),
    ("a print that does something", ((SEEN, f"{SEEN}        print(seen.pop())\n"),)),
    ("a print that takes all", ((SEEN, f"{SEEN}        print(*rows)\n"),)),
    ("a print that binds", ((SEEN, f"{SEEN}        print(loss := 1)\n"),)),
    (
        "another print",
        (
            ("import torch\n", "import torch\nfrom rich import print\n"),
            (SEEN, f"{SEEN}        print(loss)\n"),
        ),
    ),
    ("an annotation that does something", (("fit(net,", "fit(net: print(1),"),)),
    ("an annotation that may not be there", (("fit(net,", "fit(net: torch.optim.Newest,"),)),
    (
        "an import of AMP that need not run",
        (
            ("from torch.cuda.amp import GradScaler, autocast\n", ""),
            ("    scaler = Grad", "    from torch.cuda.amp import GradScaler\n    scaler = Grad"),
        ),
    ),
    (
        "an import of AMP before something is done",
        (
            ("import torch\n", "import os\nos.environ['A'] = '1'\nimport torch\n"),
            ("import os\n", "import os\nfrom torch.cuda.amp import GradScaler, autocast\n"),
        ),
    ),
    (
        "an object that lives by its name",
        ((MADE, f"    kept = watch(net)\n{MADE}"),),
    ),
    (
        "a print of what need not be there",
        ((SEEN, f'{SEEN}    print("loss", loss.item())\n'),),
    ),
    ("a print of what may be a dict", ((SEEN, f"{SEEN}        print(row.shape)\n"),)),
    ("a print of many numbers", ((SEEN, f'{SEEN}        print(f"{{row:.2f}}")\n'),)),
    (
        "a docstring that is read",
        ((MADE, f'    """Fit."""\n{MADE}    seen.append(fit.__doc__)\n'),),
    ),
]


@pytest.mark.parametrize("edits", [e for _, e in OTHER], ids=[name for name, _ in OTHER])
def test_what_makes_a_difference(edits: Edits) -> None:
    assert "" in differing(LOOP, edits)


LAYERS = """
    import math

    import torch
    from torch import nn


    def smooth(scores, by=2.0):
        return (scores / by).tanh()


    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.drop = nn.Dropout(0.1)
            self.out = nn.Linear(width, 2)

        def forward(self, x):
            hot = torch.softmax(x, dim=-1)
            return smooth(self.out(self.drop(hot)))
"""


@pytest.mark.parametrize(
    "edits",
    [
        (("Dropout(0.1)", "Dropout(p=0.1)"),),
        (("nn.Linear(width, 2)", "nn.Linear(in_features=width, out_features=2)"),),
        (("softmax(x, dim=-1)", "softmax(x, -1)"),),
        (("from torch import nn", "import torch.nn as nn"),),
        (("torch.softmax", "nn.functional.softmax"), ("nn.functional.softmax", "torch.softmax")),
    ],
)
def test_other_words_for_the_same_call(edits: Edits) -> None:
    assert not differing(LAYERS, edits)


@pytest.mark.parametrize(
    ("edits", "owners"),
    [
        ((("import math\n", "import math\nimport time\n"),), ["import"]),
        ((("import math\n", "import math\nimport mine\n"),), [""]),
        ((("class Net(nn.Module):\n", "class Net(nn.Module):\n    import time\n"),), [""]),
        ((("import math\n", ""),), [""]),
        ((("import math\n", "import math\nfrom math import sqrt as smooth\n"),), [""]),
        ((("import math\n", "import math\nfrom torch import nn as torch\n"),), [""] * 3),
        ((("import math\n", "import math\nimport torch.nn as math\n"),), [""]),
        (
            (("def smooth(scores, by=2.0):\n", "def smooth(scores, by=2.0):\n    import math\n"),),
            [""],
        ),
        ((("Dropout(0.1)", "Dropout(p=0.2)"),), ["expression"]),
        ((("2.0", "3.0"),), [""]),
    ],
)
def test_who_answers_for_other_changes(edits: Edits, owners: list[str]) -> None:
    assert differing(LAYERS, edits) == owners


TAKEN = """
    import torch
    {start}


    def make(token, {limit}):
        def of(scores):
            return scores - token

        return of, [each for each in {limit}], select


    select = {limit}
"""


@pytest.mark.parametrize(
    ("start", "limit", "old", "new", "owners"),
    [
        ("pass", "rate", "import torch\n", "import torch\nimport json\n", ["import"]),
        ("pass", "rate", "import torch\n", "import torch\nimport torch.fft\n", ["import"]),
        ("pass", "rate", "import torch\n", "import torch\nimport select\n", [""]),
        ("pass", "rate", "    def of", "    import token\n    def of", [""]),
        ("pass", "json", "    def of", "    import json\n    def of", [""]),
        (
            "pass",
            "rate",
            "    def of(scores):",
            "    def of(scores):\n        import token",
            ["", "expression"],
        ),
        (
            "pass",
            "rate",
            "    def of(scores):",
            "    def of(scores):\n        import json",
            ["import"],
        ),
        ("from math import tau", "rate", "from math import tau", "import math.tau as tau", []),
        ("from torch import fft", "rate", "from torch import fft", "import torch.fft as fft", []),
        (
            "try:\n    from torch import fft\nexcept ImportError:\n    fft = None",
            "rate",
            "from torch import fft",
            "import torch.fft as fft",
            [""],
        ),
        ("from torch import _C", "rate", "from torch import _C", "import torch._C as _C", [""]),
    ],
)
def test_the_names_that_imports_bind(
    start: str, limit: str, old: str, new: str, owners: list[str]
) -> None:
    text = textwrap.dedent(TAKEN).format(start=start, limit=limit)
    assert differing(text, ((old, new),)) == owners


def test_another_form_of_an_import_is_tried() -> None:
    before = "import torch\nfrom math import tau\n"
    found = compare(before, before.replace("from math import tau", "import math.tau as tau"))
    assert found.obligations and not found.reasons


@pytest.mark.parametrize(
    ("helper", "call", "owners"),
    [
        ("def cool(x):", "cool(x)", ["helper"]),
        ("def cool(x, by=2.0, kind=torch.float32, of=math):", "cool(x)", ["helper"]),
        ("def cool(x=(1, -2.0)):", "cool(x)", ["helper"]),
        ("def cool(x):", "x", [""]),
        ("def cool(x=print()):", "cool(x)", [""]),
        ("def cool(x=WIDTHS['head']):", "cool(x)", [""]),
        ("def cool(x=1 / 0):", "cool(x)", [""]),
        ("def cool(x=torch.float7):", "cool(x)", [""]),
        ("def cool(x=[*math]):", "cool(x)", [""]),
        ("def __getattr__(x):", "__getattr__(x)", [""]),
    ],
)
def test_what_a_new_function_may_do_by_being_there(
    helper: str, call: str, owners: list[str]
) -> None:
    made = ("class Net", f"{helper}\n    return x\n\n\nclass Net")
    assert differing(LAYERS, (made, ("torch.softmax(x,", f"torch.softmax({call},"))) == owners


@pytest.mark.parametrize("name", ["setUpModule", "tearDown", "setup_module", "pytest_configure"])
def test_a_function_that_others_look_for(name: str) -> None:
    made = "def NAME(x):\n    return x\n\n\ndef smooth(scores, by=2.0):\n    scores = NAME(scores)"
    for each, told in ((name, True), ("setup_loss", False)):
        after = textwrap.dedent(LAYERS).replace(
            "def smooth(scores, by=2.0):", made.replace("NAME", each)
        )
        found = compare(textwrap.dedent(LAYERS), after).reasons
        assert any("look for" in reason for reason in found) is told


LOOKED_UP = """
    import importlib
    import inspect
    import sys

    import torch

    RATE = 2.0


    def loss(x):
        return torch.log(torch.softmax(x / RATE, dim=-1))


    def plugin(name):
        return {asked}
"""


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("importlib.import_module(__name__)", True),
        ("importlib.import_module(name)", True),
        ("importlib.import_module('__main__')", True),
        ("importlib.import_module(name).loss", True),
        ("importlib.import_module(name).Net", False),
        ("__import__('losses')", True),
        ("inspect.getmodule(loss)", True),
        ("loss.__globals__", True),
        ("getattr(loss, '__globals__')", True),
        ("sys.modules[name]", True),
        ("importlib.import_module('apex')", False),
        ("importlib.import_module(f'models.{name}')", False),
        ("dir(name)", False),
    ],
)
def test_a_module_as_an_object_has_its_names(asked: str, told: bool) -> None:
    before = textwrap.dedent(LOOKED_UP).replace("{asked}", asked)
    frozen = before.replace("torch.log(torch.softmax(x / RATE,", "(torch.log_softmax(x / 2.0,")
    assert ("key='RATE'" in repr(compare(before, frozen, name="losses.py"))) is told
    made = before.replace("def loss", "def log_of(x):\n    return x\n\n\ndef loss")
    helped = made.replace("softmax(x /", "softmax(log_of(x) /")
    assert bool(compare(before, helped, name="losses.py").reasons) is told


@pytest.mark.parametrize(
    ("old", "new"),
    [("1", "True"), ("1", "1.0"), ("0.0", "-0.0"), ("'a'", "b'a'"), ("1e400", "1e401 - 1e401")],
)
def test_literals_count_by_type_and_value(old: str, new: str) -> None:
    assert compare(f"x = {old}\n", f"x = {new}\n").reasons


@pytest.mark.parametrize("same", ["0x10", "16", "1_6", "(16)"])
def test_the_spelling_of_a_literal_does_not_count(same: str) -> None:
    assert compare("x = 16\n", f"x = {same}\n").reasons == ()


FORMATTED = """
    def tell(log, loss, step, best):
        log.info(f"step {step}: {loss:.3f} {best!r}")
"""
WRITTEN = 'f"step {step}: {loss:.3f} {best!r}"'


@pytest.mark.parametrize(
    ("other", "owners"),
    [
        ('"step {}: {:.3f} {!r}".format(step, loss, best)', []),
        ("f'step {step}: {loss:.3f} {best!r}'", []),
        ('"step {}: {:.3f} {!r}".format(loss, step, best)', [""] * 2),
        ('"step {}: {:.2f} {!r}".format(step, loss, best)', [""]),
        ('"step {}: {:.3f} {}".format(step, loss, best)', [""]),
        ('"step {}: {:.3f}  {!r}".format(step, loss, best)', [""]),
        ('"step {1}: {0:.3f} {2!r}".format(loss, step, best)', [""]),
        ('"step {}: {:.3f} {!r}".format(step, loss, best, log)', [""]),
        ('"step {}: {:.3f} {!r}".format(step, loss, log.pop())', [""]),
        ('"step %s: %.3f %r" % (step, loss, best)', [""]),
        ('f"step {step}: {loss:.3f} {best=!r}"', [""]),
    ],
)
def test_forms_of_one_string(other: str, owners: list[str]) -> None:
    assert differing(FORMATTED, ((WRITTEN, other),)) == owners


def test_a_value_by_itself_may_be_called() -> None:
    one, other = ('def f(x):\n    return f"{x()}"\n', 'def f(x):\n    return "{}".format(x())\n')
    assert compare(one, other).reasons == ()
    two = other.replace("{}", "{} {}").replace("x()", "x(), x()")
    assert compare(one.replace("{x()}", "{x()} {x()}"), two).reasons


def test_an_import_in_a_function_may_come_from_elsewhere() -> None:
    local = "    from torch.cuda.amp import GradScaler\n"
    text = LOOP.replace("    scaler = Grad", f"{local}        scaler = Grad")
    assert not differing(text, ((local, local.replace("torch.cuda.amp", "torch.amp")),))


@pytest.mark.parametrize(
    ("start", "new", "same"),
    [
        ("import os\nimport torch\n", "import torch\nAMP", True),
        ("import os\nimport torch\n", "AMPimport torch\n", True),
        ("import os\nos.environ['A'] = '1'\nimport torch\n", "import torch\nAMP", True),
        ("import os\nos.environ['A'] = '1'\nimport torch\n", "AMPimport torch\n", True),
        ("import torch\nos.environ['A'] = '1'\n", "import torch\nAMP", True),
        ("import os\nos.environ['A'] = '1'\nimport torch\n", "import os\nAMP", False),
    ],
)
def test_an_import_of_amp_is_added(start: str, new: str, same: bool) -> None:
    text = f"{start}\n\ndef f(x):\n    return torch.relu(x)\n"
    old = new.replace("AMP", "")
    added = new.replace("AMP", "from torch.cuda.amp import autocast\n")
    assert (not differing(text, ((old, added),))) is same


def test_an_import_of_amp_stays_above_what_reads_it() -> None:
    imported, run = "from torch.cuda.amp import autocast\n", "\n\ntrain(*made())\n"
    body = "\n\ndef train(net, x):\n    with autocast():\n        return net(x)\n"
    text = f"import torch\n{imported}{body}{run}"
    assert differing(text, ((imported, ""), (run, f"{run}{imported}")))
    assert not differing(text, ((imported, ""), ("import torch\n", f"{imported}import torch\n")))


def test_a_tuple_is_another_key() -> None:
    text = LOOP.replace("net(row)", "net(row['x'])")
    assert not differing(text, (("net(row['x'])", "net( row [ 'x' ] )"),))
    assert differing(text, (("net(row['x'])", "net(row['x',])"),))


REBOUND = """
    import torch

    seen = 0


    class Log:
        def __init__(self):
            self.rows = []

        def turn(self):
            rows, self.rows = self.rows, []
            return rows

        def note(self, step):
            made = step(self)
            self.rows.append(made)
            own = []
            put = step(own)
            own.append(put)
            return own


    def count(step, log):
        global seen
        given = step(log)
        log(seen, given)
"""


@pytest.mark.parametrize(
    ("binding", "read", "value", "same"),
    [
        ("        made = step(self)\n", "append(made)", "append(step(self))", False),
        ("    given = step(log)\n", "log(seen, given)", "log(seen, step(log))", False),
        ("        put = step(own)\n", "append(put)", "append(step(own))", True),
    ],
)
def test_a_name_that_a_call_may_bind_anew(binding: str, read: str, value: str, same: bool) -> None:
    assert (not differing(REBOUND, ((binding, ""), (read, value)))) is same


ORDERED = """
    import collections

    import torch
    import torch.nn.functional as F


    class Store:
        def __init__(self, layer):
            self.layer = layer
            self.seen = SEEN
            self.rows = []
            self.found = None

        @property
        def newest(self):
            return self.rows.pop()

        @property
        def size(self):
            return len(self.rows)

        @property
        def running(self):
            return self.found

        def find(self, x):
            self.found = self.layer
            return x

        def both(self, x, other, p):
            first = FIRST
            then = THEN
            return then, first
"""


@pytest.mark.parametrize(
    ("first", "then", "same"),
    [
        ("other.get(False)", "p.shape[0]", False),
        ("other.get(timeout=p)", "p.shape[0]", False),
        ("other.get('key')", "p.shape[0]", True),
        ("other.join()", "p.shape[0]", False),
        ("other.join(p)", "p.shape[0]", False),
        ("', '.join(other)", "p.shape[0]", True),
        ("other.double()", "other.weight.sum()", False),
        ("other.bias.dtype", "other.to(p)", False),
        ("other.double()", "p.shape[0]", True),
        ("torch.exp(other).double()", "other.dtype", True),
        ("self.newest", "self.size", False),
        ("self.size", "p.shape[0]", True),
        ("F.relu(x, True)", "x.sum()", False),
        ("F.relu(x, inplace=True)", "x.sum()", False),
        ("F.relu(x)", "x.sum()", True),
        ("torch.svd_lowrank(x)", "torch.exp(x)", False),
        ("torch.pca_lowrank(x)", "torch.pca_lowrank(p)", False),
        ("F.scaled_dot_product_attention(x, x, x, None, p)", "torch.exp(x)", False),
        ("F.scaled_dot_product_attention(x, x, x, other)", "torch.exp(x)", True),
        ("F.embedding_bag(x, other, p, 2.0)", "other.sum()", False),
        ("F.embedding(x, other)", "other.sum()", True),
    ],
)
def test_a_value_over_what_it_changes(first: str, then: str, same: bool) -> None:
    text = ORDERED.replace("FIRST", first).replace("THEN", then).replace("SEEN", "{}")
    edits = ((f"        first = {first}\n", ""), ("then, first", f"then, {first}"))
    assert (not differing(text, edits)) is same


@pytest.mark.parametrize(("made", "same"), [("collections.defaultdict(list)", False), ("{}", True)])
def test_an_item_that_is_made_when_it_is_asked_for(made: str, same: bool) -> None:
    text = ORDERED.replace("FIRST", "self.seen[p]").replace("THEN", "p.shape[0]")
    edits = (("        first = self.seen[p]\n", ""), ("then, first", "then, self.seen[p]"))
    assert (not differing(text.replace("SEEN", made), edits)) is same


@pytest.mark.parametrize(
    ("called", "same"), [("self.found", False), ("self.running", False), ("self.find", True)]
)
def test_a_method_is_looked_up_before_its_arguments(called: str, same: bool) -> None:
    text = ORDERED.replace("FIRST", "self.find(x)").replace("THEN", f"{called}(first)")
    text = text.replace("then, first", "then, x")
    edits = (("        first = self.find(x)\n", ""), ("(first)", "(self.find(x))"))
    assert (not differing(text, edits)) is same


HIDDEN = """
    import torch

    grad_scaler = torch.amp.GradScaler("cuda")
    kind = torch.float16


    def step(net, optimizer, x):
        optimizer.zero_grad()
        width = float(x.std())
        with torch.autocast("cuda", dtype=kind):
            loss = net(x / width).mean()
        grad_scaler.scale(loss).backward()
        grad_scaler.step(optimizer)
        grad_scaler.update()
"""


@pytest.mark.parametrize(
    ("name", "same"), [("grad_scaler", False), ("kind", False), ("spread", True)]
)
def test_a_local_may_not_hide_what_is_erased(name: str, same: bool) -> None:
    renamed = (("width = ", f"{name} = "), ("/ width", f"/ {name}"))
    assert (not differing(HIDDEN, renamed)) is same
    text = HIDDEN.replace("width", name)
    value = "float(x.std())"
    put = ((f"    {name} = {value}\n", ""), (f"x / {name}", f"x / {value}"))
    assert (not differing(text, put)) is same


COUNTED = """
    import torch


    def total(net, loss_of, rows, log):
        loss, seen = 0.0, 0
        for row, label in rows:
            cost = loss_of(net(row), label)
            loss += cost.item() * SIZE
            BETWEEN
            seen += SIZE
        return loss / seen
"""


@pytest.mark.parametrize(
    ("size", "made", "between", "same"),
    [
        ("row.size(0)", "row.size(0)", "mean = cost * 2", True),
        ("row.shape[0]", "row.shape[0]", "loss *= 1.0", True),
        ("row.size(0)", "row.size(1)", "mean = cost * 2", False),
        ("row.sum()", "row.sum()", "mean = cost * 2", False),  # a tensor of its own each time
        ("row.size(0)", "row.size(0)", "row = row[1:]", False),
        ("row.size(0)", "row.size(0)", "log(row)", False),
        ("log.size(0)", "log.size(0)", "log += row", False),
    ],
)
def test_a_size_that_is_read_twice_gets_a_name(
    size: str, made: str, between: str, same: bool
) -> None:
    before = COUNTED.replace("SIZE", size).replace("BETWEEN", between)
    after = COUNTED.replace("SIZE", "count").replace("BETWEEN", between)
    after = after.replace("        loss +=", f"        count = {made}\n            loss +=")
    edits = ((textwrap.dedent(before), textwrap.dedent(after)),)
    assert (not differing(before, edits)) is same


TOLD = """
    import torch
    from torch.utils.data import DataLoader
    from other import Table, kept


    def blend(first, second, rate: float = 0.5):
        '''Mix two.'''
        mixed = first * rate + second * (1 - rate)
        return mixed


    class Ops:
        def blend(first, rate: float = 0.5):
            '''Mix.'''
            return first * rate


    {use}
"""
SAID = ("Mix two.", "Join two.")
TYPED = ("second, rate: float", "second, rate: int")
METHOD = ("    def blend(first, rate: float", "    def blend(first, rate: int")
METHOD_SAID = ("Mix.", "Join.")
NAMED = ("mixed", "found")


@pytest.mark.parametrize(
    ("use", "edits"),
    [
        ("print(getattr(blend, '__doc__'))", [SAID]),
        ("print(getattr(blend, '__annotations__'))", [TYPED]),
        ("table = {'blend': blend}", [SAID, TYPED]),
        ("table = Table([blend])", [SAID, TYPED]),
        ("table = Table(Ops.blend)", [METHOD, METHOD_SAID]),
        ("table = Table(); table.add(of=Ops().blend)", [METHOD, METHOD_SAID]),
        ("other = blend", [SAID, TYPED]),
        ("torch.library.infer_schema(Ops.blend, mutates_args=())", [METHOD]),
        ("import pydoc; pydoc.render_doc(Ops)", [SAID, METHOD_SAID]),
        ("import unittest", [METHOD_SAID]),
        ("import cmd; shell = cmd.Cmd", [METHOD_SAID]),
        ("names = blend.__code__.co_varnames", [NAMED]),
        ("names = getattr(blend, '__code__')", [NAMED]),
        ("import traceback; traceback.TracebackException(1, 2, 3, capture_locals=True)", [NAMED]),
        ("options = {'capture_locals': True}", [NAMED]),
        ("frame = error.__traceback__.tb_frame", [NAMED]),
        ("from icecream import ic", [NAMED]),
    ],
)
def test_what_is_said_of_a_function_may_be_read(use: str, edits: list[tuple[str, str]]) -> None:
    for old, new in edits:
        text = textwrap.dedent(TOLD.format(use=use))
        assert old in text
        assert compare(text, text.replace(old, new)).reasons


@pytest.mark.parametrize("edit", [SAID, TYPED, METHOD, METHOD_SAID, NAMED])
@pytest.mark.parametrize(
    "use",
    [
        "found_of = blend(torch.ones(1), torch.ones(1))",
        "loader = DataLoader([1], collate_fn=blend)",
        "is_one = isinstance(blend, Ops)",
        "class More(Ops):\n    pass",
        "print(Ops().blend(1))",
    ],
)
def test_what_nobody_reads_of_a_function_is_free(use: str, edit: tuple[str, str]) -> None:
    text = textwrap.dedent(TOLD.format(use="USE")).replace("USE", use)
    assert not compare(text, text.replace(*edit)).reasons


def test_a_decorator_of_a_class_may_look_at_its_methods() -> None:
    text = textwrap.dedent(TOLD.format(use="pass"))
    assert not compare(text, text.replace(*METHOD)).reasons
    text = text.replace("class Ops", "@kept\nclass Ops")
    assert compare(text, text.replace(*METHOD)).reasons
