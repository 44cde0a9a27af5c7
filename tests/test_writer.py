"""A file is at every moment the old one or the new one."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from amp_lint.writer import WriteError, replace, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_replaces_and_leaves_nothing_behind(file: Path) -> None:
    replace(file, b"old", b"new")
    assert file.read_bytes() == b"new"
    assert names(file.parent) == ["a.py"]


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o4711])
def test_keeps_the_mode(file: Path, mode: int) -> None:
    file.chmod(mode)
    replace(file, b"old", b"new")
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_writes_through_links(file: Path) -> None:
    folder = file.parent / "links"
    folder.mkdir()
    (folder / "one.py").symlink_to("../a.py")
    (folder / "two.py").symlink_to("one.py")
    replace(folder / "two.py", b"old", b"new")
    assert file.read_bytes() == b"new"
    assert (folder / "two.py").is_symlink()
    assert (folder / "one.py").is_symlink()
    assert names(folder) == ["one.py", "two.py"]


def test_leaves_a_file_alone_that_somebody_changed(file: Path) -> None:
    file.write_bytes(b"newer")
    with pytest.raises(WriteError, match="changed while it was being fixed"):
        replace(file, b"old", b"new")
    assert file.read_bytes() == b"newer"
    assert names(file.parent) == ["a.py"]


def test_what_is_already_written_is_fine(file: Path) -> None:
    replace(file, b"older", b"old")
    assert file.read_bytes() == b"old"


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_loses_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(WriteError if isinstance(error, OSError) else KeyboardInterrupt) as caught:
        replace(file, b"old", b"new")
    assert file.read_bytes() == b"old"
    assert names(file.parent) == ["a.py"]
    if isinstance(error, OSError):
        assert str(caught.value) == "cannot be written and is unchanged: No space left on device"


def test_is_on_disk_before_it_takes_the_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, move = os.fsync, Path.replace

    def spy_fsync(handle: int) -> None:
        steps.append(f"fsync {os.fstat(handle).st_size}")
        fsync(handle)

    def spy_replace(path: Path, target: Path) -> Path:
        steps.append(f"replace {target.name}")
        return move(path, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(Path, "replace", spy_replace)
    replace(file, b"old", b"longer")
    assert steps == ["fsync 6", "replace a.py"]


def test_refuses_a_read_only_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anything
    with pytest.raises(WriteError, match="read-only"):
        replace(file, b"old", b"new")
    assert file.read_bytes() == b"old"


def test_a_vanished_file(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="No such file"):
        replace(tmp_path / "gone.py", b"old", b"new")
    assert names(tmp_path) == []


def test_a_read_only_directory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**arguments: object) -> tuple[int, str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(WriteError, match="Permission denied"):
        replace(file, b"old", b"new")
    assert file.read_bytes() == b"old"


def test_a_file_is_made_with_the_directories_above_it(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "new.txt", b"data")
    assert (tmp_path / "a" / "b" / "new.txt").read_bytes() == b"data"
    mask = os.umask(0o027)
    write(tmp_path / "private.txt", b"data")
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "private.txt").stat().st_mode) == 0o640


def test_a_file_that_is_there_keeps_its_mode_and_its_link(file: Path) -> None:
    file.chmod(0o600)
    link = file.with_name("link")
    link.symlink_to(file)
    write(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert names(file.parent) == ["a.py", "link"]


def test_what_cannot_be_written_is_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = file.with_name("loop")
    loop.symlink_to(loop)
    for path in (file.parent, file / "below", loop):
        with pytest.raises(WriteError, match=r"^cannot be written: "):
            write(path, b"new")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(WriteError, match=r"^is read-only; make it writable$"):
        write(file, b"new")
    assert file.read_bytes() == b"old"
    assert names(file.parent) == ["a.py", "loop"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write(tmp_path / "pipe", b"data")
    assert os.read(reader, 10) == b"data"
    os.close(reader)
