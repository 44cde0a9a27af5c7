"""The formats that servers read: paths, places, fixes, and what a finding is known by."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from amp_lint import registry
from amp_lint.report import FORMATS, Finding, Style, renderer
from amp_lint.report.place import relative
from amp_lint.text.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity
from amp_lint.text.source import Source
from tests.conftest import Result
from tests.npm import installed

Run = Callable[..., Result]
SAFE, UNSAFE, SUGGEST = Applicability
CLIP = """\
# \N{GREEK SMALL LETTER LAMDA}
def step(model, optimizer, scaler, loss):
    scaler.scale(loss).backward()
    \N{GREEK SMALL LETTER LAMDA} = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
PROGRAM = f"import torch\nscaler = torch.amp.GradScaler()\n{CLIP}"


@pytest.fixture
def shown(tmp_path: Path, amp_lint: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What is printed of a program in a format, from a folder below the top of a checkout."""
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "a b"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(output_format: str, program: str = PROGRAM, name: str = "train.py") -> str:
        Path(name).write_text(program, "utf-8")
        done = amp_lint("--isolated", "--output-format", output_format, name)
        assert not done.err and done.code == ("clip_grad" in program)
        return done.out

    return run


def sarif(text: str) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(text)["runs"][0]
    return run


def test_sarif(shown: Callable[..., str], tmp_path: Path) -> None:
    run = sarif(shown("sarif"))
    (result,) = run["results"]
    (rule,) = run["tool"]["driver"]["rules"]
    (place,) = result["locations"]
    (fix,) = result["fixes"]
    (change,) = fix["artifactChanges"]
    (new,) = change["replacements"]
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == f"{tmp_path.as_uri()}/"
    assert (result["ruleId"], rule["id"], result["level"]) == ("AMP101", "AMP101", "error")
    assert "## Why it is a bug" in rule["help"]["markdown"]
    artifact = {"uri": "a%20b/train.py", "uriBaseId": "SRCROOT"}
    assert place["physicalLocation"]["artifactLocation"] == change["artifactLocation"] == artifact
    assert place["physicalLocation"]["region"]["startColumn"] == 9
    assert new["insertedContent"]["text"].startswith("scaler.unscale_(optimizer)")
    assert new["deletedRegion"]["startLine"] == new["deletedRegion"]["endLine"] == 6
    assert [each["message"]["text"] for each in result["relatedLocations"]]


def test_sarif_of_nothing(shown: Callable[..., str]) -> None:
    run = sarif(shown("sarif", "x = 1\n"))
    assert run["results"] == run["tool"]["driver"]["rules"] == []


def fingerprint(text: str) -> str:
    (result,) = sarif(text)["results"]
    return str(result["partialFingerprints"]["statement/v1"])


def test_a_finding_is_known_again_where_lines_have_moved(shown: Callable[..., str]) -> None:
    first = fingerprint(shown("sarif"))
    assert fingerprint(shown("sarif", PROGRAM.replace("def", "\n\n# new\ndef"))) == first
    assert fingerprint(shown("sarif", PROGRAM.replace("(), 1.0", "(),  1.0"))) == first
    assert fingerprint(shown("sarif", PROGRAM.replace("1.0", "2.0"))) != first
    assert fingerprint(shown("sarif", name="other.py")) != first


def test_two_of_a_kind_are_two(shown: Callable[..., str]) -> None:
    issues = json.loads(shown("gitlab", PROGRAM + CLIP.replace("step(model", "again(model")))
    assert len(issues) == len({issue["fingerprint"] for issue in issues}) == 2


def test_gitlab(shown: Callable[..., str]) -> None:
    (issue,) = json.loads(shown("gitlab"))
    assert issue["location"] == {"path": "a b/train.py", "lines": {"begin": 6, "end": 6}}
    assert issue["severity"] == "critical" and issue["description"].startswith("AMP101: ")


def test_junit(shown: Callable[..., str]) -> None:
    (suite,) = ET.fromstring(shown("junit"))
    (case,) = suite
    (failure,) = case
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (
        "a b/train.py",
        "1",
        "1",
    )
    assert (case.get("line"), failure.get("type")) == ("6", "error")
    (passing,) = ET.fromstring(shown("junit", "x = 1\n"))
    assert (passing.get("tests"), passing.get("failures")) == ("1", "0")


def test_no_xml_is_broken(shown: Callable[..., str]) -> None:
    program = PROGRAM.replace("model.parameters()", 'f["\x01<&\ud7ff"]')
    assert ET.fromstring(shown("junit", program)) is not None


def test_rdjson(shown: Callable[..., str]) -> None:
    (found,) = json.loads(shown("rdjson"))["diagnostics"]
    start = found["location"]["range"]["start"]
    assert found["location"]["path"] == "a b/train.py"
    assert start == {"line": 6, "column": 10}, "one letter has two bytes"
    assert found["code"] == {"value": "AMP101"} and found["suggestions"][0]["text"]


@pytest.mark.parametrize(
    "kind, unsafe, told",
    [(SAFE, False, True), (UNSAFE, True, True), (UNSAFE, False, False), (SUGGEST, True, False)],
)
def test_a_suggestion_is_a_whole_fix(kind: Applicability, unsafe: bool, told: bool) -> None:
    """Also where it has several edits: a reviewer may take each suggestion by itself."""
    source = Source("\u03bb = 1\nold(\u03bb)\nx = old(2)\n".encode(), "a.py")
    text = source.text
    places = [text.index("old"), text.rindex("old")]
    fix = Fix("rename", tuple(Edit(at, at + 3, "newer") for at in reversed(places)), kind)
    found = Diagnostic("AMP101", "x", Severity.ERROR, "x", places[0], places[0] + 3, fix=fix)
    shown = "".join(renderer("rdjson")([Finding(source, found)], Style(unsafe=unsafe)))
    (diagnostic,) = json.loads(shown)["diagnostics"]
    assert ("suggestions" in diagnostic) is told
    for suggestion in diagnostic.get("suggestions", ()):
        assert suggestion["range"]["start"] == {"line": 2, "column": 1}
        assert suggestion["range"]["end"] == {"line": 3, "column": 8}
        assert suggestion["text"] == "newer(\u03bb)\nx = newer"


@pytest.mark.parametrize("output_format", FORMATS)
def test_any_name_can_be_shown(output_format: str) -> None:
    """Also one that is no UTF-8, as Python has it from the file system."""
    found = Diagnostic("AMP101", "x", Severity.ERROR, "x", 0, 1)
    finding = Finding(Source(b"x\n", os.fsdecode(b"a\xe9 \n%,:.py")), found)
    shown = "".join(renderer(output_format)([finding], Style()))
    assert "AMP101" in shown.encode("utf-8", "backslashreplace").decode()


def test_paths_are_from_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no checkout; in one process, too, which may have been elsewhere before."""
    below = tmp_path / "below"
    below.mkdir()
    for folder, name in ((tmp_path, "below/a.py"), (below, "a.py"), (tmp_path, "below/a.py")):
        monkeypatch.chdir(folder)
        assert relative(str(below / "a.py")) == name


@pytest.mark.parametrize("output_format", FORMATS)
def test_no_checkout_is_needed(
    tmp_path: Path, amp_lint: Run, monkeypatch: pytest.MonkeyPatch, output_format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PROGRAM, "utf-8")
    done = amp_lint("--isolated", "--output-format", output_format, str(tmp_path / "train.py"))
    assert done.code == 1 and "train.py" in done.out and not done.err
    assert os.sep + os.sep not in done.out.replace("://", "")


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The validator of the format's own authors."""
    folder = tmp_path_factory.mktemp("sarif")
    return installed(folder, "@microsoft/sarif-multitool@5.7.0") / "sarif-multitool"


def complaints(validator: Path, text: str, folder: Path) -> list[str]:
    """What breaks the format, or what GitHub's code scanning asks for beside it."""
    (folder / "found.sarif").write_text(text, "utf-8")
    command = [str(validator), "validate", "found.sarif", "--level", "'Error;Warning'"]
    kinds = ["--rule-kind", "'Sarif;Ghas'"]  # quoted: its own shell script hands them on
    done = subprocess.run(
        [*command, *kinds], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "Analysis completed successfully" in done.stdout, done.stdout
    return [line for line in done.stdout.splitlines() if ": error " in line or ": warning " in line]


def test_sarif_is_valid(
    shown: Callable[..., str], amp_lint: Run, validator: Path, tmp_path: Path
) -> None:
    examples = str(Path(__file__).parents[2] / "examples")
    every = amp_lint("--isolated", "--preview", "--output-format", "sarif", examples).out
    assert len({each["ruleId"] for each in sarif(every)["results"]}) > 3
    for text in (every, shown("sarif"), shown("sarif", "x = 1\n")):
        wrong = complaints(validator, text, tmp_path)
        assert [each for each in wrong if "informationUri" not in each] == []


def test_sarif_leads_to_where_it_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "repository", lambda: "https://example.org/amp-lint")
    monkeypatch.setattr(registry, "address", registry.address.__wrapped__)
    found = Diagnostic("AMP101", "x", Severity.ERROR, "x", 0, 1)
    shown = "".join(renderer("sarif")([Finding(Source(b"x\n", "a.py"), found)], Style()))
    tool = sarif(shown)["tool"]["driver"]
    assert tool["informationUri"] == "https://example.org/amp-lint"
    page = "https://example.org/amp-lint/blob/HEAD/rules/protocol/clip_before_unscale.md"
    assert tool["rules"][0]["helpUri"] == page


def test_junit_is_read(shown: Callable[..., str]) -> None:
    junitparser = pytest.importorskip("junitparser")
    read = junitparser.JUnitXml.fromstring(shown("junit").encode())
    assert [(suite.tests, suite.failures) for suite in read] == [(1, 1)]
