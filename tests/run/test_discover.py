"""Which files are linted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amp_lint.run.config import Choice, Settings
from amp_lint.run.discover import Discovery


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def touch(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()


def search(*paths: str, force_exclude: bool = False) -> tuple[list[str], list[str]]:
    """What is found, and what is complained about."""
    errors: list[str] = []

    def complain(path: str, problem: str) -> None:
        errors.append(f"{path}: {problem}")

    discovery = Discovery(
        Settings(Choice("test"), on_error=errors.append),
        complain,
        force_exclude=force_exclude,
        on_warning=complain,
    )
    return [found.path.as_posix() for found in discovery.files(map(Path, paths or ["."]))], errors


def found(*paths: str, force_exclude: bool = False) -> list[str]:
    files, errors = search(*paths, force_exclude=force_exclude)
    assert errors == []
    return files


def test_python_files_in_order() -> None:
    touch(
        "b.py", "a.py", "z/c.py", "d/e/f.py", "d/a.py", "a.pyi", "a.txt", "py", "A.PY", "x.py/y.py"
    )
    assert found() == ["a.py", "b.py", "d/a.py", "d/e/f.py", "x.py/y.py", "z/c.py"]


def test_named_files_whatever_their_name() -> None:
    touch("script", "a.pyi")
    assert found("script", "a.pyi") == ["script", "a.pyi"]


def test_every_file_once() -> None:
    touch("a/b.py")
    assert found("a", "a/b.py", ".", "./a/../a/b.py") == ["a/b.py"]


@pytest.mark.parametrize(
    "folder",
    [".git", ".hg", ".tox", ".venv", "venv", "build", "dist", "node_modules", "__pycache__",
     "site-packages", ".mypy_cache"],
)  # fmt: skip
def test_directories_of_tools(folder: str) -> None:
    touch(f"{folder}/a.py", f"x/{folder}/a.py", "kept.py")
    assert found() == ["kept.py"]
    assert found(folder) == [f"{folder}/a.py"]


def test_a_virtual_environment_by_any_name() -> None:
    touch("my-env/pyvenv.cfg", "my-env/lib/python3.12/a.py", "a.py")
    assert found() == ["a.py"]
    assert found("my-env") == ["my-env/lib/python3.12/a.py"]


def test_hidden_directories_that_are_no_tools() -> None:
    touch(".github/scripts/a.py")
    assert found() == [".github/scripts/a.py"]


def test_gitignore() -> None:
    touch(
        "a.py", "gen/a.py", "sub/a.py", "sub/b.py", "sub/gen/a.py", "sub/deep/b.py", "out/keep.py"
    )
    Path(".gitignore").write_text("# comment\n/gen/\nb.py\nout/*\n!out/keep.py\n!\n")
    Path("sub/.gitignore").write_text("!b.py\n/deep/b.py\n")
    assert found() == ["a.py", "out/keep.py", "sub/a.py", "sub/b.py", "sub/gen/a.py"]


def test_gitignore_above_in_the_checkout() -> None:
    touch("repo/.git/info/exclude", "repo/pkg/a.py", "repo/pkg/local.py", "repo/pkg/gen.py")
    Path("repo/.git/info/exclude").write_text("local.py\n")
    Path("repo/.gitignore").write_text("gen.py\n")
    Path(".gitignore").write_text("a.py\n")  # outside the checkout
    assert found("repo/pkg") == ["repo/pkg/a.py"]


def test_no_gitignore_above_without_a_checkout() -> None:
    touch("pkg/a.py")
    Path(".gitignore").write_text("a.py\n")
    assert found("pkg") == ["pkg/a.py"]


def test_an_ignored_directory_that_is_named() -> None:
    touch("repo/.git/HEAD", "repo/out/a.py")
    Path("repo/.gitignore").write_text("out/\n")
    assert found("repo") == []
    assert found("repo/out") == ["repo/out/a.py"]


def test_exclude() -> None:
    touch("gen/a.py", "gen/deep/b.py", "sub/gen/c.py", "d.py")
    Path("pyproject.toml").write_text('[tool.amp-lint]\nexclude = ["/gen", "d.py"]\n')
    assert found() == ["sub/gen/c.py"]
    assert found("gen/a.py", "d.py") == ["gen/a.py", "d.py"]
    assert found("gen/a.py", "d.py", "sub/gen/c.py", force_exclude=True) == ["sub/gen/c.py"]


def test_force_exclude_knows_the_directories_of_tools() -> None:
    touch("build/a.py", "a/.venv/b.py", "c.py")
    here = Path.cwd().as_posix()
    names = ["build/a.py", "a/.venv/b.py", f"{here}/build/a.py", f"{here}/c.py"]
    assert found(*names, force_exclude=True) == [f"{here}/c.py"]


def test_a_missing_path_is_an_error_and_the_others_are_found() -> None:
    touch("a.py")
    files, errors = search("gone.py", "a.py", "gone/")
    assert files == ["a.py"]
    assert errors == [
        "gone.py: does not exist; check the path",
        "gone: does not exist; check the path",
    ]


def test_an_unreadable_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    touch("a/b.py", "c/d.py")
    scandir = os.scandir

    def refuse(path: Path) -> object:  # root may read anything
        if path == Path("a"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    files, errors = search()
    assert files == ["c/d.py"]
    assert errors == ["a: cannot be read: permission denied; make it readable or exclude it"]


def test_loops() -> None:
    touch("a/b/c.py")
    Path("a/b/up").symlink_to("..")
    Path("a/self").symlink_to(".")
    Path("a/round").symlink_to("round")
    files, errors = search()
    assert files == ["a/b/c.py"]
    assert [error.partition(":")[0] for error in errors] == ["a/round", "a/self", "a/b/up"]


def test_a_loop_that_is_named() -> None:
    Path("round").symlink_to("round")
    files, errors = search("round")
    assert files == []
    assert len(errors) == 1


def test_an_ignored_loop_is_nobodys_business() -> None:
    touch("a.py")
    Path("self").symlink_to(".")
    Path(".gitignore").write_text("self\n")
    assert found() == ["a.py"]


def test_links() -> None:
    touch("a/real.py", "elsewhere/x.py")
    Path("a/link.py").symlink_to("real.py")
    Path("a/dangling.py").symlink_to("nowhere")
    Path("a/folder").symlink_to("../elsewhere")
    assert found("a") == ["a/link.py", "a/real.py"]


def test_a_link_that_leads_nowhere_is_no_file() -> None:
    Path(".#a.py").symlink_to("nobody@nowhere.1")
    assert search() == ([], [])


def test_a_directory_is_walked_whatever_its_name_is() -> None:
    touch("web.py/a.py")
    assert found() == ["web.py/a.py"]


def test_ignore_files_that_are_no_regular_files() -> None:
    touch("a/x.py", "b/y.py")
    os.mkfifo("a/.gitignore")
    Path("b/.gitignore").mkdir()
    files, errors = search()
    assert files == ["a/x.py", "b/y.py"]
    assert errors == [
        f"{Path('a/.gitignore').absolute()}: is a named pipe, no regular file; exclude it",
        f"{Path('b/.gitignore').absolute()}: is a directory, no regular file; exclude it",
    ]


def test_a_broken_configuration_costs_no_file() -> None:
    touch("a/x.py", "a/deep/z.py", "b/y.py")
    Path("a/pyproject.toml").write_text("[tool.amp-lint\n")
    files, errors = search()
    assert files == ["a/x.py", "a/deep/z.py", "b/y.py"]
    assert len(errors) == 1
    assert "a/pyproject.toml: is not TOML" in errors[0]


def test_a_pattern_that_is_too_long_is_told_once_and_the_others_count() -> None:
    touch("a.py", "b.py")
    Path(".gitignore").write_text(f"{'x' * 5000}\n{'y' * 5000}\na.py\n")
    files, errors = search()
    assert files == ["b.py"]
    (error,) = errors
    assert error.startswith(f"{Path.cwd()}/.gitignore: 'xxx")
    assert error.endswith("...' is longer than 4096 characters and ignores nothing")


def test_lines_end_where_git_says() -> None:
    touch("a\x0cb.py", "c.py", "d.py")
    Path(".gitignore").write_bytes(b"\xef\xbb\xbfa\x0cb.py\r\nc.py")
    assert found() == ["d.py"]


def test_a_named_directory_is_linted_even_if_it_is_excluded() -> None:
    touch("gen/a.py", "gen/deep/b.py", "c.py")
    Path("pyproject.toml").write_text('[tool.amp-lint]\nexclude = ["/gen"]\n')
    assert found() == ["c.py"]
    assert found("gen") == ["gen/a.py", "gen/deep/b.py"]
    assert found("gen/deep") == ["gen/deep/b.py"]
    assert found("gen", "gen/deep", "c.py", force_exclude=True) == ["c.py"]
    assert found(".", force_exclude=True) == ["c.py"]
