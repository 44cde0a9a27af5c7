"""Python in docstrings, where somebody asks for it: found and fixed where it stands."""

from __future__ import annotations

import ast
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import amp_lint
from amp_lint import engine, fixing, registry
from amp_lint.run.job import Action, Job, lint
from amp_lint.selection import Selection
from amp_lint.syntax.docstrings import docstrings
from amp_lint.text.source import Source
from tests.conftest import CLIP, FIXED, Run

ON = Selection(registry.all_rules(), docstring_code=True)
FLAG = "--docstring-code"
CONCISE = "--output-format=concise"
CALL = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def fence(code: str) -> str:
    return f"Text.\n\n```python\n{code}```\n\n```sh\n{CLIP}```\n"


def directive(code: str) -> str:
    block = textwrap.indent(code, "   ")
    return f".. code-block:: python\n   :linenos:\n\n{block}\n.. code-block:: sh\n\n   ls\n"


def literal(code: str) -> str:
    return f"Example::\n\n{textwrap.indent(code, '    ')}\nText::\n\n    $ ls -l\n"


def doctest(code: str) -> str:
    """Each statement of the module after a prompt, with what it prints."""
    lines, made = code.splitlines(), list[str]()
    for statement in ast.parse(code).body:
        first, *others = lines[statement.lineno - 1 : statement.end_lineno]
        made += [f">>> {first}", *(f"... {each}" if each else "..." for each in others)]
        made += ["..."] * bool(others) + ["1"]
    return "\n".join(made) + "\n"


def module(text: str, prefix: str = "") -> str:
    return f'{prefix}"""About.\n\n{text}"""\n\nx = 1\n'


def method(text: str) -> str:
    body = textwrap.indent(f'"""About.\n\n{text}\n"""\n', " " * 8)
    return f"class A:\n    def f(self):\n{body}        return 'é'\n"


def codes(text: str, selection: Selection = ON) -> list[str]:
    return [found.code for found in engine.check(Source.of(text, "a.py"), selection)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("around", [module, method])
@pytest.mark.parametrize("made", [fence, directive, literal, doctest])
def test_found_and_fixed(
    made: Callable[[str], str], around: Callable[[str], str], end: str
) -> None:
    before, after = (around(made(code)).replace("\n", end) for code in (CLIP, FIXED))
    source = Source.of(before, "a.py")
    (found,) = engine.check(source, ON)
    assert (found.code, before[found.start : found.end]) == ("AMP101", CALL)
    assert all(before[each.start : each.end].startswith("scaler.") for each in found.related)
    result = fixing.fix(source, ON)
    assert result.text == after and not result.remaining
    assert not engine.check(source, Selection(registry.all_rules()))


def test_every_docstring_is_a_module_of_its_own() -> None:
    first, _, rest = CLIP.partition("    for x")
    both = fence(first) + "\nThen\n\n" + fence("def g(model, optimizer, loader):\n    for x" + rest)
    assert codes(module(fence(CLIP) + fence(CLIP))) == ["AMP101", "AMP101"]
    assert codes(module(both)) == codes(method(both))
    code = "scaler = torch.amp.GradScaler()\nscaler.scale(loss).backward()\n"
    clip = f"{CALL}\nscaler.step(optimizer)\nscaler.update()\n"
    import_ = "import torch\n"
    assert codes(module(fence(import_ + code) + fence(clip))) == ["AMP101"]
    assert codes(module(fence(import_ + code)) + method(fence(clip))) == []


@pytest.mark.parametrize(
    "text",
    [
        module(fence(CLIP.replace("    for", "    for for"))),  # no program
        module(fence(CLIP).replace("```python", "```")),
        module(fence(CLIP.replace("1.0)", "1.0)  # \\t"))),  # an escape
        f'"""About.\n""" """\n{fence(CLIP)}"""\n',
        f'x = """\n{fence(CLIP)}"""\n',  # no docstring
        f'f"""\n{fence(CLIP)}"""\n',
        module(fence(CLIP.replace("1.0)", "1.0)  # noqa: AMP101"))),
        module(fence(CLIP)).replace('"""\n\nx', '"""  # noqa: AMP101\n\nx'),
        f"# {CLIP!r}\nx = (\n",
    ],
)
def test_left_alone(text: str) -> None:
    assert codes(text) in ([], ["AMP900"])


def test_a_raw_string_has_no_escapes() -> None:
    text = module(fence(CLIP.replace("1.0)", "1.0)  # \\t")), "r")
    assert codes(text) == ["AMP101"]
    assert fixing.fix(Source.of(text, "a.py"), ON).text == text.replace(
        f"        {CALL}", f"        scaler.unscale_(optimizer)\n        {CALL}", 1
    )


def test_a_fix_that_the_string_cannot_hold_is_not_offered() -> None:
    """It would bring quotes that end the string."""
    code = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
    quoted = fixing.fix(Source.of(module(fence(code)), "a.py"), ON).text
    assert 'GradScaler("cuda")' in quoted
    ast.parse(quoted)
    last = f"'''About.\n\n```python\n{code}```\n'''\n"
    ast.parse(fixing.fix(Source.of(last, "a.py"), ON).text)


def test_code_of_the_module_is_linted_as_before() -> None:
    text = module(fence(CLIP)) + CLIP
    assert codes(text) == ["AMP101", "AMP101"]
    assert fixing.fix(Source.of(text, "a.py"), ON).text == module(fence(FIXED)) + FIXED


def test_options_and_settings(main: Run) -> None:
    path = Path("a.py")
    path.write_text(method(doctest(CLIP)))
    assert main("--isolated", ".").out == "All checks passed!\n"
    assert main("--isolated", FLAG, CONCISE, ".").out.startswith("a.py:11:21: AMP101 [*]")
    assert main("--config=docstring-code=true", CONCISE, ".").out.startswith("a.py:11:21: AMP101")
    assert "-" not in main("--isolated", FLAG, "--diff", "--ignore=AMP1", ".").out
    Path("amp-lint.toml").write_text("docstring-code = true\n")
    assert "docstring-code = true" in main("--show-settings").out
    assert main("--fix", ".").code == 0
    assert path.read_text() == method(doctest(FIXED))
    Path("amp-lint.toml").write_text('docstring-code = "yes"\n')
    assert main(".").code == 2


def test_comments_for_docstrings(main: Run) -> None:
    path = Path("a.py")
    path.write_text(module(fence(CLIP)))
    assert main("--isolated", FLAG, "--add-noqa", ".").code == 0
    assert path.read_text() == module(fence(CLIP)).replace('"""\n\nx', '"""  # noqa: AMP101\n\nx')
    judged = ("--isolated", FLAG, "--extend-select=AMP901", ".")
    assert main(*judged).out == "All checks passed!\n"
    assert main("--isolated", "--extend-select=AMP901", ".").out == "All checks passed!\n"
    path.write_text(path.read_text().replace(CLIP, FIXED))
    assert "AMP901" in main(*judged).out


def test_proofs_leave_them_out() -> None:
    """Nothing of them runs, so that nothing can be shown."""
    job = Job("a.py", module(fence(CLIP)).encode(), True, ON, Action.PREVIEW)
    assert lint(job).fixed and not lint(job, lambda job, text, found: found).fixed


def test_many_of_them_take_no_longer_than_they_are() -> None:
    def seconds(count: int) -> float:
        text = "".join(method(fence("x = 1\n") * 20) for _ in range(count)) + f"# {CLIP!r}\n"
        source, started = Source.of(text, "a.py"), time.process_time()
        assert sum(1 for _ in docstrings(source)) == count
        return time.process_time() - started

    seconds(10)
    assert seconds(800) < 20 * max(seconds(100), 0.02)


@pytest.mark.parametrize("inside", [True, False])
def test_fixes_take_no_longer_than_what_is_around_them(inside: bool) -> None:
    def seconds(count: int) -> float:
        lines, code = "a\n\n" * count, fence(CLIP)
        text = module(f"{lines}{code}{lines}") if inside else module(code) + "x = 1\n" * count
        source, started = Source.of(text, "a.py"), time.process_time()
        (found,) = engine.check(source, ON)
        assert found.fix is not None
        return time.process_time() - started

    seconds(10)
    assert seconds(8_000) < 20 * max(seconds(800), 0.02)


def test_from_python() -> None:
    text = module(fence(CLIP))
    settings = amp_lint.Settings(docstring_code=True)
    (found,) = amp_lint.check(text, settings=settings)
    assert (found.location.row, found.location.column) == (13, 9)
    assert amp_lint.fix(text, settings=settings).source == module(fence(FIXED))
