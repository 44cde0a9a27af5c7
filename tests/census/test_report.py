"""The report counts what is there: copies once, repositories by what they use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra census is not installed")
pytest.importorskip("duckdb", reason="the extra census is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

from amp_lint.census.report import Census
from tests.census.fleets import OLD, census, parquet
from tests.conftest import CLIP, Result

Run = Callable[..., Result]
CLEAN = "import torch\nwith torch.autocast('cuda'):\n    pass\n"
ROWS = [
    ("one", "a.py", CLIP, "2020-01-01"),
    ("fork", "b.py", CLIP, "2021-01-01"),
    ("more", "a.py", CLIP + OLD, "2021-05-05"),
    ("clean", "a.py", CLEAN, "2021-07-07"),
    ("none", "a.py", "x = 1\n", "2021-07-07"),
]
"""`fork` has what `one` has."""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    names = ("repository", "path", "content", "date")
    rows = [dict(zip(names, row, strict=True)) for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows), folder / "in.parquet")
    assert census("-q", "--column=date=date", folder / "in.parquet", folder / "out") == 0
    return folder / "out"


def test_forks_are_one(output: Path) -> None:
    shares = {row[0]: row[2:] for row in Census(output).shares()}
    assert shares["AMP101"] == (3, 2, 3, 2, 66.7)
    assert shares["AMP401"] == (1, 1, 1, 1, 33.3)


def test_years(output: Path) -> None:
    years = Census(output).years(["AMP101", "AMP401"])
    assert years == [(2020, 1, 100.0, 0.0), (2021, 3, 66.7, 33.3)]


def test_the_sample_is_the_same_for_a_seed(output: Path) -> None:
    found = Census(output)
    assert found.sample(10, 1) == found.sample(10, 1)
    assert len(found.sample(2, 1)) == 2
    assert {row[0] for row in found.sample(10, 0)} == {"fork", "more"}
    assert len({tuple(found.sample(2, seed)) for seed in range(10)}) > 1


def test_the_page(output: Path, main: Run) -> None:
    done = main("census", "report", output, "--sample=2")
    assert (done.code, done.err) == (0, "")
    assert "of 5\nrepositories" in done.out and "4 repositories set up mixed precision" in done.out
    assert "| AMP101 | clip-before-unscale | 3 | 2 | 3 | 2 | 66.7 |" in done.out
    assert "## 2 findings to judge (seed 0)" in done.out
    assert main("census", "report", output, "-o", "page.md").out == ""
    assert Path("page.md").read_text("utf-8").startswith("# Census\n\n5 files")


def test_the_picture(output: Path, main: Run) -> None:
    pytest.importorskip("matplotlib")
    assert main("census", "report", output, "--picture=a.svg").code == 0
    assert "AMP101 clip-before-unscale" in Path("a.svg").read_text("utf-8")


def test_a_fleet_without_findings(tmp_path: Path, main: Run) -> None:
    dataset = parquet(tmp_path / "in.parquet", {"a": {"b.py": "x = 1\n"}})
    assert census("-q", dataset, tmp_path / "out") == 0
    done = main("census", "report", tmp_path / "out")
    assert done.code == 0 and "1 files" in done.out


def test_no_census(tmp_path: Path, main: Run) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "out" / "files").mkdir(parents=True)
    (tmp_path / "out" / "files" / "a.parquet").write_bytes(b"none")
    for given, what in (
        ([], "name the folder of one census"),
        ([tmp_path], "is no output of `amp-lint census`"),
        ([tmp_path / "out"], "cannot be read: "),
    ):
        done = main("census", "report", *given)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert what in done.err


def test_the_output_can_be_read_by_others(output: Path) -> None:
    """The columns stay: whoever reads them does so by name."""
    schemas = {
        name: pq.read_schema(next((output / name).glob("*.parquet")))
        for name in ("files", "findings")
    }
    assert all(schema.metadata[b"amp-lint.census"] == b"1" for schema in schemas.values())
    names = "repository path size sha256 stage amp findings cpu_seconds error commit year"
    assert schemas["files"].names[:11] == names.split()
    assert {"code", "row", "end_column", "fix", "related"} <= {*schemas["findings"].names}
    assert json.loads((output / "census.json").read_text())["schema"] == 1
