"""Records say everything a report shows, survive being written, and pictures are drawn of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proofs
import pytest

from amp_lint.verify import ProofSettings, Verdict, plot, record
from amp_lint.verify.proof import Environment, Failure, Judgement, Measured, Point, Proof, Shown
from amp_lint.verify.record import Entry, RecordError

ROOT = Path(__file__).parents[2]
HERE = Environment("2.13.0", "3.11.7", "cpu", False, 3, "0.1.0")
POINTS = tuple(
    Point(10.0**n, math.inf if n > 2 else 10.0 ** (n - 6), 1e-7 if n else 0.0) for n in range(-1, 6)
)
JUDGED = Judgement(
    Verdict.PROVEN,
    "within 4 eps of float64",
    before=Failure("finite", "-inf instead of -18", "x = torch.tensor([[0.0, -18.0]])"),
    measured=(Measured("eager", "float16", 0.25, math.nan, 217), Measured("compiled", "float32")),
    notes=("the floor is lost",),
    points=POINTS,
    axis="gap between logits",
    seconds=1.5,
)
SHOWN = (Shown("expression", "f", 5, 6, "log(softmax(x))", "log_softmax(x)", JUDGED),)
PROOF = Proof(Verdict.PROVEN, SHOWN, (), HERE, "0" * 64, "f" * 64)
ENTRY = Entry("AMP301", "fix", "line 47", PROOF)
SETTINGS = ProofSettings(seed=3, modes=("eager",), disabled=frozenset({"value", "finite"}))
WRITTEN = record.record([ENTRY], SETTINGS, HERE)


def test_a_record_survives_being_written() -> None:
    loaded = record.loads(record.dumps(WRITTEN))
    assert record.dumps(loaded) == record.dumps(WRITTEN)
    (entry,) = loaded.entries
    (shown,) = entry.proof.shown
    assert shown.judgement.before == JUDGED.before
    assert shown.judgement.points[-1].before == math.inf
    assert math.isnan(shown.judgement.measured[0].gradient_error or 0)
    assert loaded.settings == SETTINGS
    assert loaded.environment == HERE
    assert entry.right


def test_a_record_is_json_for_everyone() -> None:
    text = record.dumps(WRITTEN)
    data = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert data["entries"][0]["proof"]["shown"][0]["judgement"]["points"][-1]["before"] == "inf"
    assert data["settings"]["disabled"] == ["finite", "value"]


def _set(path: str, value: object) -> Callable[[Any], None]:
    def change(data: Any) -> None:  # noqa: ANN401
        *keys, last = path.split(".")
        for key in keys:
            data = data[int(key)] if key.isdigit() else data[key]
        data[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_set("schema", 0), "is not a record of schema 3"),
        (_set("entries", {}), "record.entries must be a list"),
        (_set("entries.0.rule", 7), r"record.entries\[0\].rule must be of type str, not 7"),
        (_set("entries.0.proof.verdict", "maybe"), r"entries\[0\].proof.verdict is 'maybe'"),
        (_set("settings.seed", True), "record.settings.seed must be of type int"),
        (_set("settings.extra", 1), "record.settings must be an object with device"),
        (_set("environment", []), "record.environment must be an object with torch"),
    ],
)
def test_what_is_no_record_is_refused(change: Callable[[Any], None], where: str) -> None:
    data = json.loads(record.dumps(WRITTEN))
    change(data)
    with pytest.raises(RecordError, match=where):
        record.loads(json.dumps(data))


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("", "[]", "\ufeff"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(RecordError, match=r"a\.json: "):
            record.read(path)
    with pytest.raises(RecordError, match=r"none\.json: "):
        record.read(tmp_path / "none.json")


def test_a_wrong_fix_is_right_if_it_is_refuted() -> None:
    refuted = Proof(Verdict.REFUTED, (), (), None, "", "")
    assert Entry("AMP301", "wrong fix", "line 9", refuted).right
    assert not Entry("AMP301", "wrong fix", "line 9", PROOF).right
    assert not Entry("AMP301", "site", "a.py:1:1", refuted).right


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("benchmarks/records/*.json")), ids=lambda p: p.name
)
def test_committed_records_hold(path: Path) -> None:
    loaded = record.read(path)
    assert loaded.environment is not None
    assert path.stem.startswith("cuda" if loaded.environment.cuda else "cpu")
    assert not loaded.settings.disabled
    assert not any(entry.proof.not_run for entry in loaded.entries)
    assert {entry.rule for entry in loaded.entries} == record.proven(loaded.entries)


# --- pictures -------------------------------------------------------------------------------------


def words(picture: Path) -> list[str]:
    """What stands in a picture."""
    return re.findall(r">([^<>\n]+)</text>", picture.read_text(encoding="utf-8"))


def test_committed_pictures_are_those_of_the_record() -> None:
    """`python benchmarks/proofs.py benchmarks/records/cpu*.json --pictures docs/img` draws them."""
    (path,) = ROOT.glob("benchmarks/records/cpu-*.json")
    pictures = [*plot._pictures(proofs.pictured(record.read(path)))]
    committed = {path.name: path for path in ROOT.glob("docs/img/amp*.svg")}
    assert {name for name, *_ in pictures} == committed.keys()
    for name, title, judgement in pictures:
        shown = words(committed[name])
        assert {title, plot._failure(judgement), judgement.axis, "old code"} < {*shown}, name
        assert committed[name].read_text().count("<use ") >= 2 * len(judgement.points)
        assert not any(" page" in text for text in shown)


def test_a_picture_is_small_and_says_what_it_shows(tmp_path: Path) -> None:
    wrong = Entry("AMP301", "wrong fix", "line 60", PROOF)
    bare = Entry("AMP301", "fix", "line 70", Proof(Verdict.PROVEN, (), (), None, "", ""))
    paths = plot.draw([ENTRY, wrong, bare, ENTRY], tmp_path / "new")
    assert [path.name for path in paths] == ["amp301-log-softmax.svg", "amp301-log-softmax-2.svg"]
    text = paths[0].read_text()
    assert len(text) <= 60_000
    for word in (
        "AMP301 log-softmax<",
        "old code: -inf instead of -18",
        "gap",
        "old code<",
        "new code<",
    ):
        assert f">{word}" in text
    assert ">inf or NaN<" in text


def test_the_same_proof_is_the_same_picture(tmp_path: Path) -> None:
    first, second = (plot.draw([ENTRY], tmp_path / name)[0] for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_pictures_suit_light_and_dark(tmp_path: Path) -> None:
    (path,) = plot.draw([ENTRY], tmp_path)
    text = path.read_text()
    assert "#ffffff" not in text
    assert "#000000" not in text


@pytest.mark.parametrize(
    "points",
    [
        (Point(1.0, math.inf, math.nan),),
        (Point(0.0, 0.0, 0.0), Point(1.0, 0.0, 0.0)),
        (Point(-1.0, 1e-300, 1e300), Point(1e30, 1.0, 2.0)),
        (Point(5.0, 1.0, 1.0), Point(5.0, 1.0, 1.0)),
    ],
)
def test_odd_points_are_drawn(points: tuple[Point, ...], tmp_path: Path) -> None:
    shown = Shown("step", "f", 1, 1, "", "", Judgement(Verdict.PROVEN, "fine", points=points))
    proof = Proof(Verdict.PROVEN, (shown,), (), None, "", "")
    (path,) = plot.draw([Entry("", "change", "old.py -> new.py", proof)], tmp_path)
    assert path.stat().st_size > 1000
