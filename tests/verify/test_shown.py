"""What a change may print or log besides: only what can neither raise nor be seen."""

from __future__ import annotations

import textwrap

import pytest

from amp_lint.verify.compare import compare

LOOP = """
    import logging
    import time

    import torch
    from torch import nn

    logger = logging.getLogger(__name__)


    def fit(net, loss_of, rows, optimizer, scaler, epochs, title):
        done = []
        total = 0.0
        start = time.time()
        for epoch in range(epochs):
            for step, row in enumerate(rows):
                with torch.autocast("cuda"):
                    loss = loss_of(net(row), row)
                scaler.scale(loss).backward()
                total += loss.item()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()  # ROUND
            done.append(total)
        return done  # END
"""
FILE = "logger = logging.getLogger(__name__)\n"


def is_left_out(line: str, *, instead: str = "", file: str = "", text: str = LOOP) -> bool:
    """Whether a line that is added at the end of each round makes no difference.

    ``instead`` are lines of both texts above it, ``file`` such ones of the module.
    """
    before = textwrap.dedent(text).replace(FILE, f"{FILE}{file}\n")
    kept = "".join(f"            {each}\n" for each in instead.splitlines())
    added = "".join(f"            {each}\n" for each in line.splitlines())
    place = "            optimizer.zero_grad()  # ROUND\n"
    assert place in before
    after = before.replace(place, place + kept + added)
    before = before.replace(place, place + kept)
    compile(after, "after", "exec")
    return not compare(before, after).coverage


@pytest.mark.parametrize(
    "line",
    [
        'print(f"epoch {epoch} loss {loss.item():.4f}")',
        'logger.info("step %d", step)',
        'logger.info("%s: %5.2f of %d", title, loss.item(), step)',
        'print("scale", scaler.get_scale())',
        "print(title, rows, flush=True)",
        'if step % 10 == 0:\n    print(f"{step:>6d}: {loss:.3f}")',
        'print(f"{total / (step + 1):.4f} after {time.time() - start:.1f} s")',
        'print("{:03d} {loss:.2e}".format(step, loss=loss.item()))',
        'print("mean %.3f%%" % total)',
        'print(f"{title!r:>20}", len(done), "-" * 20)',
        "print(loss.dtype, loss.device, torch.__version__, type(row))",
        'print(f"{min(loss.item(), 1.0):.2f} {step=}")',
    ],
)
def test_what_is_surely_shown(line: str) -> None:
    assert is_left_out(line)


@pytest.mark.parametrize(
    "line",
    [
        "print(f'{2 ** step:.1f}')",  # too large for a float
        "print(step.item())",
        "print(total.sqrt())",
        "print(int(loss.item()))",  # of NaN
        "print(round(loss.item()))",
        "print(loss.grad)",  # warns
        "print(total / step)",
        "print(step % epoch)",
        "print(total / len(done))",
        "print(len(loss))",
        "print(len(rows))",
        "print(next(rows))",
        "print(done[0])",
        "print(row.shape)",
        "print(torch.version.cudnn)",
        "print(title.name)",
        "print((title := 1))",
        "print(f'{step:.2d}')",
        "print(f'{title:.3f}')",
        "print(f'{done:>9}')",
        "print(f'{loss.item():.{step}f}')",
        "print('%d of %d' % step)",
        "print('%s' % title)",  # which may be a tuple
        "print('{} {}'.format(step))",
        "print('{0.name}'.format(title))",
        "print('{} {0}'.format(step))",
        "logger.info('%d', title)",
        "logger.info('%d %d', step)",
        "logger.info('done', step)",
        "logging.info('the first one')",
        "print(step, sep=title)",
        "print(step, file=title)",
        "print('-' * epochs)",
        "print('\\udc80')",  # no encoding has it
        "print(not row)",
        "print(1 if row else 2)",
        "if title:\n    print(step)",
        "if step % 10 == 0:\n    print(step)\n    break",
        "title.set_postfix(loss=loss.item())",
    ],
)
def test_what_may_raise_or_do_something(line: str) -> None:
    assert not is_left_out(line)


@pytest.mark.parametrize(
    ("instead", "line", "left_out"),
    [
        ("best = loss.item()", "print(best)", True),
        ("if title:\n    best = 1.0", "print(best)", False),
        ("try:\n    net.eval()\nexcept OSError as error:\n    pass", "print(error)", False),
        ("try:\n    net.eval()\nexcept OSError as error:\n    net.train()", "print(step)", True),
        ("if title:\n    import zlib", "print(zlib)", False),
        ("for part in row:\n    net(part)", "print(part)", False),
        ("match row:\n    case [part]:\n        net(part)", "print(part)", False),
        ("if title and (part := row):\n    net(part)", "print(part)", False),
        ("part = row\ndel part", "print(part)", False),
        ("loss = net(row)", 'print(f"{loss.item():.2f}")', False),
        ("for part in row:\n    loss = net(part)", "print(loss.item())", False),
        ("loss.resize_(2)", "print(loss.item())", False),
        ("loss.data = row", "print(loss.item())", False),
        ("loss = loss / 2", 'print(f"{loss.item():.2f}")', True),
        ("step = title", 'print(f"{step:d}")', False),
        ("count = 1\ncount *= 1000", "print(count)", False),
        ("first = done[0]", "print(done[0])", True),
        ("first = done[0]\ndone.pop()", "print(done[0])", False),
        ("del done[0]", "print(done[0])", False),
        ("for done[0] in row:\n    net(row)", "print(done[0])", False),
        ("share = len(done) / row.size(0)", 'print(f"{share:.2f}")', True),
        ("share = len(done) / row.size(0)", "print(share.dtype)", False),
        ("first = done[0]\ndone = title", "print(done[0])", False),
    ],
)
def test_what_is_bound_and_to_what(instead: str, line: str, left_out: bool) -> None:
    assert is_left_out(line, instead=instead) is left_out


@pytest.mark.parametrize(
    ("made", "left_out"),
    [
        ("loss_of(net(row), row)", True),
        ("loss_of(net(row), row).mean()", True),
        ("nn.functional.mse_loss(net(row), row)", True),
        ("net(row).mean(0)", False),
        ("loss_of(net(row), row).view(1)", False),
        ("nn.functional.mse_loss(net(row), row, reduction='none')", False),
    ],
)
def test_a_loss_with_a_dimension_has_no_format(made: str, left_out: bool) -> None:
    text = LOOP.replace("loss_of(net(row), row)", made)
    assert is_left_out('print(f"{loss:.3f}")', text=text) is left_out


def test_a_weight_in_the_sum_that_goes_backward_need_be_no_tensor() -> None:
    text = LOOP.replace("scale(loss)", "scale(loss + extra)")
    text = text.replace("        total = 0.0\n", "        total = extra = 0.0\n")
    assert is_left_out("print(loss.item())", text=text)
    assert not is_left_out("print(extra.item())", text=text)


@pytest.mark.parametrize(
    ("file", "line", "left_out"),
    [
        ("logger.addHandler(logging.StreamHandler())", "logger.info('round')", True),
        ("logger.addHandler(title)", "logger.info('round')", False),
        ("logging.basicConfig(level='INFO')", "logger.info('round')", True),
        ("logging.basicConfig(handlers=list(HANDLERS))", "logger.info('round')", False),
        ("logger.addFilter(len)", "logger.info('round')", False),
        (
            "class Count(logging.Handler):\n    def emit(self, record):\n        raise OSError\n",
            "logger.info('round')",
            False,
        ),
        ("import warnings\nwarnings.simplefilter('ignore')", "print(step)", True),
        ("import warnings\nwarnings.simplefilter('error')", "print(step)", False),
        ("import builtins\nbuiltins.print = len", "print(step)", False),
        ("from tools import *", "print(step)", False),
        ("class Title:\n    def __str__(self):\n        return 1 / 0\n", "print(title)", False),
        ("class Title:\n    def __str__(self):\n        return 1 / 0\n", "print(step)", True),
        ("class Loss:\n    def backward(self):\n        return self\n", "print(loss.exp())", False),
        ("torch.Tensor.__repr__ = len", "print(loss)", False),
        ("import os\nos.close(1)", "print(step)", False),
    ],
)
def test_who_sees_what_is_shown(file: str, line: str, left_out: bool) -> None:
    assert is_left_out(line, file=file) is left_out


@pytest.mark.parametrize(
    ("end", "left_out"), [("", True), ("traced = torch.fx.symbolic_trace(Head())", False)]
)
def test_what_is_recorded(end: str, left_out: bool) -> None:
    before = f"""
import torch
import torch.fx


def head(x):
    size = x.numel()
    return x.float()


{end}
"""
    after = before.replace("    return", '    print("head")\n    return')
    if left_out:
        before, after = (each.replace("import torch.fx\n", "") for each in (before, after))
    assert (not compare(before, after).coverage) is left_out
