"""Patterns mean what they mean to git, and none of them takes long."""

from __future__ import annotations

import functools
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from amp_lint.run import config
from amp_lint.run.discover import Discovery
from amp_lint.run.gitignore import MAX_LENGTH, Pattern, PatternError, Patterns, understood

NAMES = ("a", "b", "ab", "aa.py", "b.py", "a b", "a ", "[a]", "#a", "!a", "a*", "-", "]", "^", "x")
PIECES = (
    "a", "b", "ab", "x", ".py", " ", "#", "!", "-", "]", "^", "*", "**", "?", "/", "/", "**/",
    "/**/", "/**", "*.py", "\\", "\\*", "\\a", "\\ ", "[ab]", "[!a]", "[^b]", "[a-b]", "[]a]",
    "[!]a]", "[]-a]", "[a-", "[a-]", "[z-a]", "[--0]", "[a/b]", "[a\\]]", "[a-\\]x]", "[\\]",
    "[[:alpha:]]", "[[:punct:]]", "[[:lower:]-a]", "[[:none:]]", "[[:alpha]", "[[:]", "[[::]]", "[",
)  # fmt: skip
# `a**/b` means `a*/b` by git's manual; git itself takes what stands after the last plain
# character for a pattern of its own, that begins with `**/`
_AMBIGUOUS = re.compile(r"[^/!]\*\*+(/|\\|$)|/?\*\*\\")
LINES = st.builds(
    "{}{}{}".format,
    st.sampled_from(("", "", "", "!")),
    st.lists(st.sampled_from(PIECES), max_size=5).map("".join),
    st.sampled_from(("", "", "/")),
).filter(lambda line: not _AMBIGUOUS.search(line))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories two deep, and in each of them files and directories of all names."""
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    _populate(root, NAMES, 2)
    return root


def _populate(folder: Path, names: Sequence[str], depth: int) -> None:
    for number, name in enumerate(names):
        if depth and number % 4 == 0:
            (folder / name).mkdir()
            _populate(folder / name, names[number % 3 :: 2], depth - 1)
        else:
            (folder / name).touch()


@functools.cache
def paths(root: Path) -> dict[tuple[str, ...], bool]:
    """The names on the way to each path, and whether it is a directory."""
    found = (path for path in sorted(root.rglob("*")) if ".git" not in path.parts)
    return {path.relative_to(root).parts: path.is_dir() for path in found}


def patterns(lines: Iterable[str]) -> Patterns:
    return Patterns(line for line in map(understood, lines) if isinstance(line, Pattern))


def gits(root: Path, lines: Sequence[str]) -> set[str]:
    """The paths that git ignores."""
    (root / ".git" / "info" / "exclude").write_text("".join(f"{line}\n" for line in lines))
    command = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
    data = "\0".join(map("/".join, paths(root))).encode()
    done = subprocess.run(command, cwd=root, input=data, capture_output=True, check=False)
    assert done.stderr == b""
    return set(done.stdout.decode().split("\0")) - {""}


def ours(root: Path, lines: Sequence[str]) -> set[str]:
    """The paths that we ignore."""
    spec = patterns(lines)
    return {
        "/".join(names)
        for names, directory in paths(root).items()
        if spec.verdict_from_above(names, directory=directory)
    }


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(LINES, min_size=1, max_size=6))
@example(["/a/**/b.py", "!a/a b/", "x/", "**"])
@example(["a/**", "!a/b"])
@example(["*", "!/*/", "!*.py"])
@example(["[[:alpha:]-]", "\\#a", "\\!a", "a\\ ", "]", "a \\"])
def test_the_same_as_git(repository: Path, lines: list[str]) -> None:
    assert ours(repository, lines) == gits(repository, lines)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(LINES, max_size=4), st.lists(LINES, max_size=4), st.lists(LINES, max_size=4))
def test_files_are_found_that_git_would_add(
    repository: Path, excluded: list[str], above: list[str], below: list[str]
) -> None:
    files = [
        repository / ".git/info/exclude",
        repository / ".gitignore",
        repository / "a/.gitignore",
    ]
    for file, lines in zip(files, (excluded, above, below), strict=True):
        file.write_bytes(b"\xef\xbb\xbf" + "".join(f"{line}\r\n" for line in lines).encode())
    command = ["git", "ls-files", "--others", "--exclude-standard", "-z", "*.py"]
    done = subprocess.run(command, cwd=repository, capture_output=True, check=True)
    discovery = Discovery(
        config.Settings(config.Choice("test")), lambda *error: None, force_exclude=False
    )
    found = {each.path.relative_to(repository).as_posix() for each in discovery.files([repository])}
    for file in files:
        file.unlink()
    assert found == set(done.stdout.decode().split("\0")) - {""}


@settings(deadline=None, max_examples=100)
@given(st.lists(LINES, max_size=6))
def test_the_last_name_asked_alone(repository: Path, lines: list[str]) -> None:
    """Both ways to ask agree where nothing above is ignored."""
    spec = patterns(lines)
    for names, directory in paths(repository).items():
        above = (names[:depth] for depth in range(1, len(names)))
        if not any(spec.verdict(each, directory=True) for each in above):
            verdict = spec.verdict(names, directory=directory)
            assert verdict == spec.verdict_from_above(names, directory=directory)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("!", "'!' names nothing"),
        ("/", "'/' names nothing"),
        ("a\\", "'a\\\\' ends in a backslash"),
        ("[a", "'[a' has a [ without its ]"),
        ("[[:alfa:]]", "'[[:alfa:]]' has a [:alfa:], which is no set"),
        ("a" * 5000, f"'{'a' * 40}...' is longer than {MAX_LENGTH} characters"),
    ],
)
def test_malformed(line: str, why: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern.parse(line)
    assert str(caught.value) == why


def cut(text: str, ending: str) -> str:
    """A pattern as long as one may be."""
    return text[: MAX_LENGTH - len(ending)] + ending


WORST = [
    (cut("*" + "a*" * MAX_LENGTH, "b"), "a" * 4096),
    (cut("*" + "?*" * MAX_LENGTH, "b"), "a" * 4096),
    (cut("*" + "[!b]*" * MAX_LENGTH, "b"), "a" * 4096),
    ("*" + "[ab]" * 500 + "b*", "a" * 4096),
    ("*" + "a" * 2000 + "b*", "a" * 4096),
    ("**/" + "a/" * 1000 + "b/**", "/".join("a" * 2048)),
    ("**/" + "*/" * 2000 + "?", "/".join("a" * 2048)),
    ("a/**/" * 800 + "b", "/".join("a" * 2048)),
    ("*a*/**/" * 580 + "a", "/".join(["aa"] * 1365)),
    ("*[ab]*a*/**/" * 340 + "b", "/".join(["a" * 7] * 512)),
    ("**/*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "/".join(["a" * 255] * 16)),
]


@pytest.mark.parametrize(("line", "path"), WORST, ids=[line[:12] for line, _ in WORST])
def test_no_pattern_takes_long(line: str, path: str) -> None:
    """Twenty times what it was seen to take; what grows as a power would take for ever."""
    pattern = Pattern.parse(line)
    assert pattern is not None
    before = time.process_time()
    names = path.split("/")
    Patterns([pattern]).verdict_from_above(names, directory=False)
    Patterns([pattern]).verdict(names, directory=False)
    assert time.process_time() - before < 20


@pytest.mark.parametrize(
    "line", ["[" * 4000, "[" * 4000 + "]", "[[:" * 1300, "[" + "[:a" * 1300 + "x]"]
)
def test_no_pattern_takes_long_to_read(line: str) -> None:
    before = time.process_time()
    understood(line)
    assert time.process_time() - before < 5
