"""JUnit's XML, which most servers for continuous integration show as tests that fail."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from amp_lint.report import Finding, Style
from amp_lint.report.place import relative

_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """One suite a file, one failed case a finding; one that passes where nothing is found."""
    suites = ET.Element("testsuites", name="amp-lint")
    for name, group in itertools.groupby(findings, lambda finding: finding.source.name):
        found = [*group]
        suite = _suite(suites, relative(name), len(found))
        for finding in found:
            _case(suite, finding)
    if not findings:
        ET.SubElement(_suite(suites, "amp-lint", 0), "testcase", name="no findings")
    ET.indent(suites)
    text = ET.tostring(suites, encoding="unicode")
    yield f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(suites: ET.Element, name: str, failures: int) -> ET.Element:
    counts = {"tests": str(max(failures, 1)), "failures": str(failures), "errors": "0"}
    return ET.SubElement(suites, "testsuite", {"name": _valid(name), **counts})


def _case(suite: ET.Element, finding: Finding) -> None:
    row, column = finding.source.file_position(finding.diagnostic.start)
    where = {"file": suite.attrib["name"], "line": str(row)}
    name = f"{finding.diagnostic.code} at line {row}, column {column}"
    case = ET.SubElement(suite, "testcase", {"name": name, "classname": where["file"], **where})
    kind, message = finding.diagnostic.severity.value, _valid(finding.message)
    failure = ET.SubElement(case, "failure", {"type": kind, "message": message})
    failure.text = _valid(f"{finding.place}: {finding.diagnostic.code} {finding.text}")


def _valid(text: str) -> str:
    """A text without the characters that no XML can hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
