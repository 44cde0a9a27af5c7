"""A census says what the command line says, however it is divided, and goes on where it was."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra census is not installed")
pq = pytest.importorskip("pyarrow.parquet")

from amp_lint import registry  # noqa: E402
from amp_lint.census import judge  # noqa: E402
from amp_lint.census.block import Block  # noqa: E402
from amp_lint.census.output import FILES, FINDINGS, Output  # noqa: E402
from amp_lint.census.verdict import Verdict, verdict  # noqa: E402
from amp_lint.handbook import pages  # noqa: E402
from amp_lint.run.choice import ConfigError  # noqa: E402
from amp_lint.run.job import Job  # noqa: E402
from amp_lint.run.workers import Pool  # noqa: E402
from tests.census.fleets import (  # noqa: E402
    FLEET,
    Here,
    census,
    commit,
    files,
    findings,
    folders,
    git,
    of,
    parquet,
    wheels,
)
from tests.conftest import CLIP, Result  # noqa: E402

Run = Callable[..., Result]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return parquet(tmp_path / "in" / "a.parquet", FLEET).parent


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process for each census: a test that is about it puts it back."""
    monkeypatch.setattr(judge.Judge, "_called", called)


def called(self: judge.Judge, job: Job) -> Future[tuple[Verdict, float]]:
    done: Future[tuple[Verdict, float]] = Future()
    done.set_result((verdict(job), 0.0))
    return done


def told(main: Run, folder: Path, *options: str) -> list[tuple[Any, ...]]:
    """What the command line finds in each folder of a folder, as the rows of a census."""
    rows = []
    for repository in sorted(folder.iterdir()):
        os.chdir(repository)
        done = main("--isolated", "--output-format=json", *options, ".")
        assert done.code in (0, 1), done.err
        for found in json.loads(done.out):
            place = found["location"], found["end_location"]
            name = os.path.relpath(found["filename"], repository)
            where = [each[key] for each in place for key in ("row", "column")]
            rows.append((repository.name, name, found["code"], found["message"], *where))
    return sorted(rows)


def short(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The columns that `told` has."""
    return sorted((row[0].partition("==")[0], row[1], row[2], *row[5:10]) for row in rows)


def test_the_same_as_the_command_line(main: Run, tmp_path: Path) -> None:
    texts = [
        fence["text"]
        for rule in registry.all_rules()
        for fence in pages.FENCE.finditer(registry.page(rule))
        if fence["info"].split()[:1] == ["py"]
    ][::30]
    fleet = {**FLEET, "pages": {f"a{n}.py": text for n, text in enumerate(texts)}}
    expected = told(main, folders(tmp_path / "tree", fleet), "--preview")
    assert len(expected) > 10
    whole, spread = tmp_path / "whole", tmp_path / "spread"
    options = ("-q", "--cross-file", "--preview")
    assert census(*options, wheels(tmp_path / "wheels", fleet), whole) == 0
    assert short(findings(whole)) == expected
    dataset = parquet(tmp_path / "in" / "a.parquet", fleet, group=3)
    assert census(*options, "--block-rows=5", dataset, spread) == 0
    assert short(findings(spread)) == expected
    names = [row[:2] for row in of(spread, FILES)]
    assert len(names) == len({*names}) == sum(map(len, fleet.values()))


@pytest.mark.parametrize(("limit", "most"), [("MAX_CALLS", 3), ("MAX_HELD", 1)])
def test_processes_make_no_difference(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert census("-q", dataset, here) == 0
    monkeypatch.undo()
    ended: list[Pool] = []
    monkeypatch.setattr(judge, limit, most)
    close = Pool.close

    def noted(pool: Pool) -> None:
        ended.append(pool)
        close(pool)

    monkeypatch.setattr(Pool, "close", noted)
    assert census("-q", dataset, there) == 0
    assert len(ended) > 1
    assert of(here, FILES) == of(there, FILES) and findings(here) == findings(there)


def test_the_division_makes_no_difference(dataset: Path, tmp_path: Path) -> None:
    outputs = []
    for rows in (1, 5, 1000):
        outputs.append(tmp_path / str(rows))
        assert census("-q", f"--block-rows={rows}", "--cross-file", dataset, outputs[-1]) == 0
    for name in (FILES, FINDINGS):
        first, *others = [of(output, name, () if name == FINDINGS else ("cpu_seconds",))
                          for output in outputs]  # fmt: skip
        assert first and all(other == first for other in others)
    assert len({len([*(output / FILES).iterdir()]) for output in outputs}) > 1


def test_what_is_said_of_files(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert census("-q", dataset, out) == 0
    said = files(out)
    stages = {name: row["stage"] for name, row in said.items()}
    assert stages["one/build/train.py"] == "excluded"
    assert stages["one/setup.py"] == "bytes"
    assert stages["two/pkg/a.py"] == "rules"
    assert {"syntax", "bytes", "rules"} <= {*stages.values()}
    assert said["two/pkg/a.py"]["findings"] == 1 and said["two/pkg/a.py"]["amp"]
    assert said["two/pkg/a.py"]["sha256"] == said["fork/pkg/a.py"]["sha256"]
    assert said["two/pkg/a.py"]["size"] == len(CLIP)
    assert said["two/pkg/a.py"]["cpu_seconds"] > 0
    assert not said["one/setup.py"]["amp"]
    found = {(row[0], row[1], row[2]) for row in findings(out)}
    both = {("pkg/a.py", "AMP101"), ("pkg/b.py", "AMP401")}
    assert found >= {(name, *each) for name in ("two", "fork") for each in both}
    assert ("one", "train.py", "AMP101") not in found


class Stops(Here):
    """Is killed after so many blocks."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after

    def blocks(self, *given: Any) -> Any:  # noqa: ANN401
        for number, done in enumerate(super().blocks(*given)):
            if number == self._after:
                raise KeyboardInterrupt
            yield done


def test_a_run_goes_on_where_it_was(dataset: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    options = ("-q", "--block-rows=2", "--cross-file", dataset)
    assert census(*options, whole) == 0
    first = Stops(2)
    with pytest.raises(KeyboardInterrupt):
        census(*options, out, workers=first)
    finished = {path.stem for path in (out / FILES).iterdir()}
    assert len(finished) == 3
    (out / FILES / "left.parquet.1.part").write_bytes(b"half")
    second = Here()
    assert census(*options, out, workers=second) == 0
    assert finished.isdisjoint(second.judged)
    assert of(out, FILES) == of(whole, FILES) and findings(out) == findings(whole)
    third = Here()
    assert census(*options, out, workers=third) == 0
    assert not third.judged
    assert not [*out.rglob("*.part")]


def test_a_full_disk(
    dataset: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert census("-q", "--block-rows=2", dataset, whole) == 0
    written, real = [], pq.write_table

    def full(table: object, *given: object, **options: object) -> None:
        written.append(table)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(table, *given, **options)

    monkeypatch.setattr(pq, "write_table", full)
    assert census("-q", "--block-rows=2", dataset, out) == 2
    assert capsys.readouterr().err == (
        f"error: census: {out}: cannot be written: No space left on device; what is finished is "
        "kept, run it again to go on\n"
    )
    assert [*(out / FILES).iterdir()] and not [*(out / FILES).glob("*.part")]
    monkeypatch.setattr(pq, "write_table", real)
    assert census("-q", "--block-rows=2", dataset, out) == 0
    assert of(out, FILES) == of(whole, FILES) and findings(out) == findings(whole)


def test_a_file_costs_itself(dataset: Path, tmp_path: Path) -> None:
    """Damaged footers and pages, no content, too much of it: a row with an error each."""
    whole = tmp_path / "whole"
    assert census("-q", dataset, whole) == 0
    (dataset / "b.parquet").write_bytes(b"PAR1 is no Parquet")
    fleet = {"odd": {f"a{n}.py": "x = 1  # " + str(n) * 3000 for n in range(6)}}
    damaged = parquet(dataset / "c.parquet", fleet, group=6)
    data = bytearray(damaged.read_bytes())
    data[200:260] = bytes(60)
    damaged.write_bytes(data)
    rows: dict[str, list[str | None]] = {
        "repository": ["huge", "huge", None],
        "path": ["a.py", "b.py", "c.py"],
        "content": ["x = 1\n" * 500_000, None, CLIP],
    }
    pq.write_table(pa.table(rows), dataset / "d.parquet")
    out = tmp_path / "out"
    assert census("-q", dataset, out) == 0
    said = files(out)
    assert said["/b.parquet"]["stage"] == "failed"
    assert said["/b.parquet"]["error"].startswith("cannot be read: ")
    assert said["huge/a.py"]["error"] == ("has 3000000 bytes, more than 2000000; raise --max-bytes")
    assert (said["huge/a.py"]["stage"], said["huge/b.py"]["stage"]) == ("refused", "failed")
    assert said["huge/b.py"]["error"] == "has no content"
    assert said["/c.py"]["findings"] == 1
    broken = [row["error"] for row in said.values() if row["path"].startswith("c.parquet")]
    assert broken or sum(name.startswith("odd/") for name in said) == 6
    assert {*files(whole)} < {*said}
    assert all(row in findings(out) for row in findings(whole))


def test_a_file_that_kills_its_process_costs_itself(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: judge.Judge, job: Job) -> Future[tuple[Verdict, float]]:
        if job.name == "pkg/b.py":
            return self._pool.submit(30, os._exit, 9)
        return self._pool.submit(30, verdict, job)

    monkeypatch.setattr(judge.Judge, "_called", killed)
    assert census("-q", dataset, tmp_path / "out") == 0
    said = files(tmp_path / "out")
    error = "the worker process ended with 9 while it was analysed; exclude it"
    assert (said["two/pkg/b.py"]["stage"], said["two/pkg/b.py"]["error"]) == ("failed", error)
    assert said["fork/pkg/a.py"]["findings"] == 1


def test_a_block_that_ends_its_worker_each_time_is_given_up(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dies(Here):
        """Begins the first block four times."""

        def blocks(self, blocks: Sequence[Block], options: Any, output: Output) -> Any:  # noqa: ANN401
            for _ in range(3):
                output.begin(blocks[0].key)
            return super().blocks(blocks, options, output)

    out = tmp_path / "out"
    assert census("-q", "--block-rows=5", dataset, out, workers=Dies()) == 0
    (lost,) = (row for row in files(out).values() if row["stage"] == "failed")
    assert lost["error"] == "has ended the worker that judged it, each time"
    assert lost["path"].startswith("a.parquet#0-")
    assert len(files(out)) > 4 and not [*(out / "begun").iterdir()]


def test_mirrors(tmp_path: Path, main: Run) -> None:
    tree = folders(tmp_path / "tree", FLEET)
    expected = told(main, tree)
    for name in FLEET:
        (tree / name / "link.py").symlink_to("setup.py")
        commit(tree / name)
    git(tree, "clone", "-q", "--bare", "two", "two.git")
    git(tree, "init", "-q", "--bare", "empty.git")
    (tree / "one" / "train.py").write_text("nobody has committed this")
    out = tmp_path / "out"
    assert census("-q", "--cross-file", tree, out) == 0
    expected += [("two.git", *row[1:]) for row in expected if row[0] == "two"]
    assert short(findings(out)) == sorted(expected)
    said = files(out)
    assert "one/link.py" not in said and said["one/train.py"]["year"] is not None
    assert len(said["one/train.py"]["commit"]) == 40
    assert said["/empty.git"]["error"] == "has no commit that HEAD names"


def test_archives_that_are_none(tmp_path: Path) -> None:
    folder = wheels(tmp_path / "in", {"good": {"a.py": CLIP}})
    (folder / "bad-1.0-py3-none-any.whl").write_bytes(b"PK no zip")
    with zipfile.ZipFile(folder / "odd-1.0.zip", "w") as archive:
        archive.writestr("a.py", CLIP)
    data = (folder / "odd-1.0.zip").read_bytes().replace(b"GradScaler", b"GradScalar")
    (folder / "odd-1.0.zip").write_bytes(data)
    (folder / "bad-2.0.tar.gz").write_bytes(b"no tar")
    out = tmp_path / "out"
    assert census("-q", folder, out) == 0
    said = files(out)
    assert said["good==1.0/a.py"]["findings"] == 1
    assert "Bad CRC-32" in said["odd-1.0/a.py"]["error"]
    for name in ("bad-1.0-py3-none-any.whl", "bad-2.0.tar.gz"):
        assert said[f"/{name}"]["error"].startswith("cannot be read: ")


def test_packages_that_pip_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel is read; of sources nothing is brought, as what is in them would be run."""
    about = "Metadata-Version: 2.1\nName: good\nVersion: 1.0\n"
    kind = "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    info = {"METADATA": about, "WHEEL": kind, "RECORD": ""}
    files_of = {f"good-1.0.dist-info/{name}": text for name, text in info.items()}
    folder = wheels(tmp_path / "in", {"good": {"good/a.py": CLIP, **files_of}})
    ran = tmp_path / "ran"
    with tarfile.open(folder / "bad-1.0.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("bad-1.0/setup.py")
        code = f"open({str(ran)!r}, 'w')\n".encode()
        member.size = len(code)
        archive.addfile(member, io.BytesIO(code))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    (tmp_path / "names.txt").write_text("good==1.0  # the first\nbad\n-r other.txt\n")
    assert census("-q", tmp_path / "names.txt", tmp_path / "out") == 0
    said = files(tmp_path / "out")
    assert said["good==1.0/good/a.py"]["findings"] == 1
    assert said["/bad"]["error"].startswith("pip brings no wheel of it: ERROR: ")
    assert said["/-r other.txt"]["error"].startswith("pip brings no wheel of it: ERROR: ")
    assert not ran.exists()


def test_columns_are_called_as_they_are(tmp_path: Path) -> None:
    rows = {
        "repo": ["a"],
        "file": ["b.py"],
        "text": [CLIP],
        "sha": ["c" * 40],
        "at": ["2021-02-03"],
    }
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    names = ("repository=repo", "path=file", "content=text", "commit=sha", "date=at")
    options = [f"--column={name}" for name in names]
    assert census("-q", *options, tmp_path / "a.parquet", tmp_path / "out") == 0
    ((_, said),) = files(tmp_path / "out").items()
    assert (said["commit"], said["year"], said["findings"]) == ("c" * 40, 2021, 1)


@pytest.mark.parametrize(("others", "expected"), [((), ("c", 2021)), (("a",), (None, None))])
def test_commits_and_dates_are_read_where_every_file_has_them(
    tmp_path: Path, others: Sequence[str], expected: tuple[object, object]
) -> None:
    """Called so, they need no option."""
    place = {"repository": ["a"], "path": ["b.py"], "content": [CLIP]}
    dated = {**place, "commit": ["c"], "date": ["2021-02-03"]}
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(dated), tmp_path / "in" / "dated.parquet")
    for name in others:
        table = pa.table({**place, "repository": [name]})
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet")
    assert census("-q", tmp_path / "in", tmp_path / "out") == 0
    said = of(tmp_path / "out", FILES, ("cpu_seconds",))
    assert {row[-2:] for row in said} == {expected}


def test_a_commit_that_is_a_number(tmp_path: Path) -> None:
    rows = {"repository": ["a"], "path": ["b.py"], "content": [CLIP], "commit": [12], "date": [3]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    assert census("-q", tmp_path / "a.parquet", tmp_path / "out") == 0
    ((_, said),) = files(tmp_path / "out").items()
    assert (said["commit"], said["year"], said["findings"]) == ("12", None, 1)


def wrong_inputs(folder: Path) -> list[tuple[Sequence[str | Path], str]]:
    """What is given, and what is said of it."""
    good = parquet(folder / "good" / "a.parquet", FLEET).parent
    number = folder / "number.parquet"
    pq.write_table(pa.table({"repository": ["a"], "path": ["b"], "content": [1]}), number)
    empty = folder / "empty.parquet"
    pq.write_table(pa.table({n: pa.array([], pa.string()) for n in
                             ("repository", "path", "content")}), empty)  # fmt: skip
    (folder / "nothing").mkdir()
    (folder / "names.txt").write_text("# none\n")
    (folder / "data.bin").write_bytes(b"\xff\xfe\x00")
    (folder / "full").mkdir()
    (folder / "full" / "a").touch()
    out = folder / "out"
    return [
        ((good,), "census: give INPUT and OUTPUT"),
        (
            (good, out, "--column=content=text"),
            "has no column 'text' but repository, path, content",
        ),
        ((good, out, "--column=text=content"), "is not one of repository, path"),
        ((good, out, "--select=AMP999"), "settings: 'AMP999' matches no rule"),
        ((good, out, "--workers=0"), "'0' is not a positive number"),
        ((good, folder / "full"), "is not empty; name a new folder"),
        ((number, out), "column 'content' is int64, and has to be text"),
        ((empty, out), "has no row; name a dataset with files"),
        ((folder / "nothing", out), "has no Parquet file, git repository or archive in it"),
        ((folder / "names.txt", out), "has no package in it"),
        ((folder / "data.bin", out), "is neither a Parquet file nor a list of packages"),
        ((folder / "missing", out), "cannot be read: No such file or directory"),
    ]


def test_wrong_inputs(main: Run, tmp_path: Path) -> None:
    for given, what in wrong_inputs(tmp_path):
        done = main("census", *given)
        assert (done.code, done.out) == (2, ""), given
        assert done.err.count("\n") == 1 and done.err.startswith("error: "), done.err
        assert what in done.err, done.err


def test_an_output_of_something_else(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert census("-q", dataset, out) == 0
    with pytest.raises(ConfigError, match="holds a census with another settings, --cross-file;"):
        census("-q", "--preview", "--cross-file", dataset, out)
    parquet(dataset / "a.parquet", {"new": {"a.py": CLIP}})
    with pytest.raises(ConfigError, match="blocks that are not of this input, as it has"):
        census("-q", dataset, out)


@pytest.mark.parametrize("arguments", [["census", "a", "b"], ["census", "report", "b"]])
def test_without_the_extra(
    main: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("amp_lint.census.")]:
        if name.rpartition(".")[2] not in ("cli", "options"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("pyarrow", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
    done = main(*arguments)
    assert done.code == 2
    missing = "duckdb" if "report" in arguments else "pyarrow"
    assert done.err == (
        f'error: census: {missing} is not installed; `pip install "amp-lint[census]"` brings it\n'
    )
