"""The Python API: plain data, as the command line has it, in threads and processes."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import amp_lint
from amp_lint import Settings, registry
from amp_lint.handbook import pages
from tests.conftest import CLIP, FIXED, Result

Run = Callable[..., Result]
PREVIEW = Settings(preview=True)
HELPER = b"""\
import torch


def clip(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
TRAINER = CLIP.replace("import torch\n", "import torch\nfrom helper import clip\n").replace(
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip(model)"
)
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "code", "metadata": {}, "source": text} for text in ("x = 1", CLIP)
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
)


def examples() -> list[tuple[str, str]]:
    """The code on the pages of the rules, each with a name."""
    return [
        (f"{rule.code}-{number}.py", fence["text"])
        for rule in registry.all_rules()
        for number, fence in enumerate(pages.FENCE.finditer(registry.page(rule)))
        if fence["info"].split()[:1] == ["py"]
    ]


EXAMPLES = examples()[::12]


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """A finding of the command line, without where on this machine it is."""
    own = {"filename": Path(found["filename"]).name}
    return {key: value for key, value in found.items() if key != "url"} | own


def test_the_same_findings_as_the_command_line(main: Run) -> None:
    for name, text in EXAMPLES:
        Path(name).write_bytes(text.encode())
    done = main("--isolated", "--preview", "--output-format=json", *(name for name, _ in EXAMPLES))
    told = sorted(map(plain, json.loads(done.out)), key=str)
    found = [
        finding.to_dict()
        for name, text in EXAMPLES
        for finding in amp_lint.check(text, name=name, settings=PREVIEW)
    ]
    assert len(found) > 25
    assert sorted(found, key=str) == told


def test_the_schema_describes_all_findings() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(amp_lint.SCHEMA)
    validator.check_schema(amp_lint.SCHEMA)
    sources = [*EXAMPLES, ("a.ipynb", NOTEBOOK), ("b.py", "x = (")]
    for name, text in sources:
        for finding in amp_lint.check(text, name=name, settings=PREVIEW):
            validator.validate(finding.to_dict())
            assert {*finding.to_dict()} == {*amp_lint.SCHEMA["required"]}
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(amp_lint.check(CLIP)[0].to_dict() | {"severity": "fatal"})


def test_bytes_and_text() -> None:
    (finding,) = amp_lint.check(CLIP)
    assert (finding.filename, finding.code, finding.location.row) == ("<string>", "AMP101", 8)
    assert amp_lint.check(CLIP.encode()) == [finding]
    latin = f"# coding: latin-1\n{CLIP}# é\n"
    assert amp_lint.check(latin) == amp_lint.check(latin.encode("latin-1"))


def test_fix_gives_back_what_it_was_given() -> None:
    done = amp_lint.fix(CLIP, name="a.py")
    assert (done.source, done.fixed, done.remaining) == (FIXED, ("AMP101",), ())
    data = b"\xef\xbb\xbf" + CLIP.replace("\n", "\r\n").encode()
    fixed = b"\xef\xbb\xbf" + FIXED.replace("\n", "\r\n").encode()
    assert amp_lint.fix(data).source == fixed
    assert amp_lint.fix(data.decode()).source == fixed.decode()
    assert amp_lint.fix("x = 1\n").source == "x = 1\n"
    cells = json.loads(amp_lint.fix(NOTEBOOK, name="a.ipynb").source)["cells"]
    assert [cell["source"] for cell in cells] == ["x = 1", FIXED]


def test_unsafe_fixes_are_asked_for() -> None:
    def of(unsafe: bool) -> list[str]:
        return [amp_lint.fix(text, settings=PREVIEW, unsafe=unsafe).source for _, text in EXAMPLES]

    assert of(True) != of(False)


def test_a_cell_of_a_notebook() -> None:
    (finding,) = amp_lint.check(NOTEBOOK, name="a.ipynb")
    assert (finding.cell, finding.location.row) == (2, 8)


def test_settings_choose(clip: str) -> None:
    def codes(settings: Settings) -> set[str]:
        text = f"import torch\ns = torch.cuda.amp.GradScaler()  # noqa\n{clip}"
        return {each.code for each in amp_lint.check(text, settings=settings)}

    assert codes(Settings()) == {"AMP101"}
    assert codes(Settings(ignore=("AMP1",))) == set()
    assert codes(Settings(noqa=False)) == {"AMP101", "AMP401"}
    assert codes(Settings(noqa=False, select=("AMP4",))) == {"AMP401"}
    assert codes(Settings(noqa=False, select=("AMP4",), target_torch="2.0")) == set()


def test_settings_of_a_file_on_disk(tmp_path: Path, clip: str) -> None:
    table = '[tool.amp-lint]\nignore = ["AMP101"]\npreview = true\ntarget-torch = "2.1"\n'
    (tmp_path / "pyproject.toml").write_text(table)
    settings = Settings.of_file(tmp_path / "pkg" / "a.py")
    assert (settings.preview, settings.target_torch) == (True, "2.1")
    assert amp_lint.check(clip) and not amp_lint.check(clip, settings=settings)


class Read(Mapping[str, bytes]):
    """Files of which it is noted which are read."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.read = files, list[str]()

    def __getitem__(self, name: str) -> bytes:
        self.read.append(name)
        return self.files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def test_what_other_files_say(main: Run) -> None:
    files = {"train.py": TRAINER.encode(), "helper.py": HELPER, "other.py": b"x = 1\n"}
    assert amp_lint.check(TRAINER, name="train.py") == []
    (finding,) = amp_lint.check(TRAINER, name="train.py", project=files)
    assert finding.code == "AMP101"
    assert amp_lint.check(TRAINER, name="new.py", project=files)[0].location == finding.location
    assert amp_lint.fix(TRAINER, name="train.py", project=files).fixed == ("AMP101",)
    lazy = Read(files)
    project = amp_lint.Project(lazy)
    assert amp_lint.check(TRAINER, name="train.py", project=project) == [finding]
    read = len(lazy.read)
    assert "helper.py" in lazy.read
    assert amp_lint.check("x = 1", name="other.py", project=project, named=False) == []
    assert len(lazy.read) == read
    for name, data in files.items():
        Path(name).write_bytes(data)
    told = json.loads(main("--isolated", "--output-format=json", ".").out)
    assert [*map(plain, told)] == [finding.to_dict()]


def test_a_project_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = amp_lint.Project({"pkg/train.py": TRAINER.encode(), "pkg/helper.py": HELPER})
    found = amp_lint.check(TRAINER, name="pkg/train.py", project=project)
    monkeypatch.chdir(tmp_path)
    project = pickle.loads(pickle.dumps(project))
    assert amp_lint.check(TRAINER, name="pkg/train.py", project=project) == found != []


def test_nothing_of_the_process_changes(capfd: pytest.CaptureFixture[str]) -> None:
    def state() -> tuple[object, ...]:
        return ([*warnings.filters], sys.getrecursionlimit(), threading.active_count(), sys.path[:])

    before = state()
    first = [amp_lint.check(text, settings=PREVIEW) for _, text in EXAMPLES[:8]]
    assert [amp_lint.check(text, settings=PREVIEW) for _, text in EXAMPLES[:8]] == first
    assert state() == before
    assert tuple(capfd.readouterr()) == ("", "")


def judged(example: tuple[str, str]) -> list[amp_lint.Diagnostic]:
    return amp_lint.check(example[1], name=example[0], settings=PREVIEW)


def test_threads_find_the_same() -> None:
    some = EXAMPLES[::2]
    filters, limit = [*warnings.filters], sys.getrecursionlimit()
    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(judged, some)] == [*map(judged, some)]
    assert ([*warnings.filters], sys.getrecursionlimit()) == (filters, limit)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods()[:1])
def test_processes_find_the_same(method: str) -> None:
    """A process that begins while a thread of this one is at work waits for nobody."""
    some = EXAMPLES[::4]
    with ThreadPoolExecutor(1) as busy:
        held = busy.submit(lambda: [judged(each) for each in some])
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(1, mp_context=context) as processes:
            assert [*processes.map(judged, some)] == held.result()


def test_all_can_be_pickled() -> None:
    for value in (amp_lint.check(CLIP), amp_lint.fix(CLIP), PREVIEW, amp_lint.check, amp_lint.fix):
        assert pickle.loads(pickle.dumps(value)) == value


def test_the_import_is_light() -> None:
    """Modules are counted, which a busy machine does not change; libcst is there and not loaded."""
    code = (
        "import sys; before = {*sys.modules}; import amp_lint; bare = {*sys.modules} - before;"
        "amp_lint.check(b'x = 1', named=False); heavy = {'torch', 'libcst._nodes', 'argparse',"
        "'amp_lint.model', 'json', 'multiprocessing', 'pyarrow', 'ray'} & {*sys.modules};"
        "print(len(bare), *sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (b"a\0b", "contains a NUL byte"),
        (b"# coding: nonsense\n", "cannot be decoded"),
        ("x = '\ud800'\n", "cannot be encoded"),
        ("x = " + "(" * 2000 + ")" * 2000, "too deeply|SyntaxError"),
    ],
)
def test_what_cannot_be_judged(source: bytes | str, why: str) -> None:
    for function in (amp_lint.check, amp_lint.fix):
        try:
            result = function(source, name="odd.py")  # type: ignore[type-var]
        except amp_lint.LintError as error:
            message = str(error)
            assert message.startswith("odd.py: ") and "\n" not in message
        else:
            message = str(result)
        assert re.search(why, message)


def test_what_is_asked_for_wrongly() -> None:
    with pytest.raises(amp_lint.ConfigError, match=r"^settings: 'AMP999' matches no rule"):
        amp_lint.check(CLIP, settings=Settings(select=("AMP999",)))
    with pytest.raises(amp_lint.ConfigError, match=r"^settings: target_torch 'new' is not a"):
        amp_lint.check(CLIP, settings=Settings(target_torch="new"))
    with pytest.raises(TypeError, match=r"^<string>: a source is bytes or str, not NoneType$"):
        amp_lint.check(None)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        amp_lint.chekc  # noqa: B018


def test_a_file_that_nobody_named_need_not_be_python() -> None:
    assert [found.code for found in amp_lint.check("x = (")] == ["AMP900"]
    assert amp_lint.check("x = (", named=False) == []


def test_the_names_are_listed() -> None:
    assert {"check", "fix", "Settings", "Project", "LintError", "watch"} <= {*dir(amp_lint)}
