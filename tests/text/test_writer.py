"""A file is at every moment the old one or the new one."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lint.text import writer
from amp_lint.text.writer import WriteError, clean, replace, write
from tests.conftest import Result

Run = Callable[..., Result]


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


# --- what a file has besides its bytes ------------------------------------------------------------


def refuse(*arguments: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_keeps_owner_and_group_or_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(file, 12345, 23456)
    file.chmod(0o4751)
    assert replace(file, b"old", b"new") == []
    status = file.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (12345, 23456, 0o4751)
    monkeypatch.setattr(os, "chown", refuse)
    assert replace(file, b"new", b"newer") == [
        "its owner could not be kept", "its group could not be kept",
    ]  # fmt: skip
    status = file.stat()
    assert (status.st_uid, status.st_mode & 0o7777) == (0, 0o751)  # not root's rights for anybody


def test_keeps_extended_attributes_or_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("has no functions for them")
    try:
        os.setxattr(file, "user.note", b"\0kept")
    except OSError:
        pytest.skip("the file system has none")
    assert replace(file, b"old", b"new") == []
    assert os.getxattr(file, "user.note") == b"\0kept"
    monkeypatch.setattr(os, "setxattr", refuse)
    assert replace(file, b"new", b"newer") == ["its extended attribute user.note could not be kept"]
    assert file.read_bytes() == b"newer"


def test_a_hard_link_is_not_split_without_a_word(main: Run, clip: str, fixed: str) -> None:
    Path("a.py").write_text(clip)
    os.link("a.py", "other")
    done = main("--fix", "a.py")
    assert done.code == 0
    words = "was a hard link and is a file of its own now; its other names are unchanged"
    assert done.err == f"warning: a.py: {words}\n"
    assert (Path("a.py").read_text(), Path("other").read_text()) == (fixed, clip)


# --- runs that end in between ---------------------------------------------------------------------


def test_ctrl_c_waits_until_the_file_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        replace(file, b"old", b"new")
    assert file.read_bytes() == b"new"
    assert names(file.parent) == ["a.py"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


KILLED = """
import os, signal, sys
from amp_lint import cli
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
cli.main(sys.argv[1:])
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_the_next_run_removes_what_a_killed_one_left(main: Run, clip: str) -> None:
    Path("code").mkdir()
    Path("code/a.py").write_text(clip)
    Path("a.py").symlink_to("code/a.py")
    subprocess.run([sys.executable, "-c", KILLED, "--fix", "a.py"], check=False)
    assert len(names(Path("code"))) == 2
    assert Path("code/a.py").read_text() == clip
    assert main("--add-noqa", "a.py").code == 0
    assert names(Path("code")) == ["a.py"]


@pytest.mark.skipif(os.name == "nt", reason="other locks")
def test_cleaning_removes_nothing_else(file: Path) -> None:
    kept = (".amp-lint-.tmp", ".amp-lint-abcdefgh.tmp.py", "amp-lint-abcdefgh.tmp")
    for name in kept:
        file.with_name(name).touch()
    file.with_name(".amp-lint-aaaaaaaa.tmp").mkdir()
    file.with_name(".amp-lint-bbbbbbbb.tmp").symlink_to(file)
    os.mkfifo(file.with_name(".amp-lint-cccccccc.tmp"))
    file.with_name(".amp-lint-dddddddd.tmp").touch()
    before = names(file.parent)
    with writer._beside(file, b"new") as (temporary, _):
        clean([file])
        assert {*names(file.parent)} == {*before, temporary.name} - {".amp-lint-dddddddd.tmp"}


def test_a_temporary_file_that_was_cleaned_away_before_it_was_locked(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, made = writer._lock, list[Path]()

    def late(handle: int) -> bool:
        if not made:
            (path,) = file.parent.glob(".amp-lint-*")
            made.append(path)
            clean([file])
            assert not path.exists()
        return lock(handle)

    def lock_of_others(handle: int) -> bool:
        monkeypatch.setattr(writer, "_lock", lock)
        return late(handle)

    monkeypatch.setattr(writer, "_lock", lock_of_others)
    replace(file, b"old", b"new")
    assert made
    assert file.read_bytes() == b"new"
    assert names(file.parent) == ["a.py"]
