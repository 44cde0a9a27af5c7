"""What a census has found, as a page: DuckDB asks its two datasets."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from amp_lint.census.options import ReportOptions
from amp_lint.census.output import FILES, FINDINGS
from amp_lint.run.choice import ConfigError
from amp_lint.run.session import CLEAN
from amp_lint.text.printable import printable

_ORDER = ("excluded", "refused", "failed", "bytes", "syntax", "rules")
_STAGES = {
    "excluded": "lies where the command line does not look",
    "refused": "is too large",
    "failed": "could not be judged",
    "bytes": "dismissed by its bytes",
    "syntax": "dismissed by its syntax",
    "rules": "judged by rules",
}
_INCHES, _AXIS = 0.14, 5
"""Of a bar of the picture, and how many of them its axis takes."""
_CODES = 6
"""Rules in the table of years."""

_VIEWS = """
create temp view files as select * from read_parquet({files});
create temp table found as select f.*, sha256, year from {findings} f join (
  select repository, path, any_value(sha256) as sha256, any_value(year) as year
  from files group by repository, path) using (repository, path);
create temp table repositories as select repository, max(year) as year, bool_or(amp) as amp,
  md5(string_agg(distinct sha256, '' order by sha256) filter (amp)) as family
  from files where repository <> '' group by repository;
"""
"""A family is of repositories whose files with mixed precision are the same, byte by byte."""
_NO_FINDINGS = """(select ''::varchar repository, ''::varchar path, ''::varchar code,
''::varchar "name", ''::varchar severity, ''::varchar message, 0 "row", 0 cell where false)"""


class Census:
    """The datasets of a folder."""

    def __init__(self, folder: Path) -> None:
        """Open them.

        Raises:
            ConfigError: there are none, or they cannot be read.
        """
        files, findings = ([*(folder / name).glob("*.parquet")] for name in (FILES, FINDINGS))
        if not files:
            raise ConfigError(f"census report: {folder}: is no output of `amp-lint census`")
        self._connection = duckdb.connect()
        listed = f"read_parquet({_listed(findings)})" if findings else _NO_FINDINGS
        try:
            self._connection.execute(_VIEWS.format(files=_listed(files), findings=listed))
        except duckdb.Error as error:
            why = printable(" ".join(str(error).split())[:200])
            raise ConfigError(f"census report: {folder}: cannot be read: {why}") from error

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        rows: list[tuple[Any, ...]] = self._connection.execute(query, [*values]).fetchall()
        return rows

    def shares(self) -> list[tuple[Any, ...]]:
        """For each rule its code, name, findings, findings in distinct contents, repositories,
        families of those with mixed precision, and their share of all such, in percent.
        """
        return self.ask("""
            with amp as (select count(distinct family) as families from repositories where amp)
            select code, any_value("name"), count(*),
              count(distinct (sha256, "row", cell, message)), count(distinct repository),
              count(distinct family) filter (amp),
              round(100 * count(distinct family) filter (amp) / greatest(any_value(families), 1), 1)
            from found join repositories using (repository) cross join amp
            group by code order by 6 desc, code""")

    def years(self, codes: Sequence[str]) -> list[tuple[Any, ...]]:
        """For each year the families with mixed precision, and which percentage has each code."""
        counts = ", ".join(
            "round(100 * count(distinct family) filter (list_contains(codes, ?)) / count(distinct "
            "family), 1)"
            for _ in codes
        )
        return self.ask(
            f"""with of_repository as (select repository, list(distinct code) as codes from found
              group by repository)
            select repositories.year, count(distinct family), {counts} from repositories
            left join of_repository using (repository)
            where amp and repositories.year is not null group by 1 order by 1""",
            *codes,
        )

    def sample(self, number: int, seed: int) -> list[tuple[Any, ...]]:
        """Some findings, the same for the same seed; one of each content."""
        return self.ask(
            """select min(repository), min(path), "row", cell, code, message from found
            group by sha256, "row", cell, code, message
            order by md5(concat_ws(' ', ?::varchar, sha256, "row", cell, code)) limit ?""",
            str(seed),
            number,
        )


def report(options: ReportOptions) -> int:
    """Write the page; the exit code.

    Raises:
        ConfigError: there is no census, or the page cannot be written.
    """
    if len(options.where) != 1:
        raise ConfigError("census report: name the folder of one census")
    census = Census(Path(options.where[0]))
    text = "\n".join(page(census, options.sample, options.seed)) + "\n"
    try:
        if options.output_file:
            options.output_file.write_text(text, "utf-8")
        else:
            sys.stdout.write(text)
        if options.picture:
            draw(census.shares(), options.picture)
    except OSError as error:
        where = error.filename or options.output_file
        raise ConfigError(f"census report: {where}: {error.strerror}") from error
    return CLEAN


def page(census: Census, number: int, seed: int) -> Iterator[str]:
    """The lines of the page."""
    yield "# Census"
    yield ""
    yield from _totals(census)
    yield from _rules(census)
    yield from _trend(census)
    yield from _errors(census)
    yield from _sample(census, number, seed)


def _totals(census: Census) -> Iterator[str]:
    ((files, contents, size, seconds),) = census.ask(
        "select count(*), count(distinct sha256), coalesce(sum(size), 0), "
        "coalesce(sum(cpu_seconds), 0) from files where repository <> ''"
    )
    ((every, amp, families),) = census.ask(
        "select count(*), count(*) filter (amp), count(distinct family) filter (amp) "
        "from repositories"
    )
    yield f"{files:,} files ({contents:,} contents, {size / 1e6:,.1f} MB) of {every:,}"
    yield f"repositories; {seconds:,.0f} s of CPU time. {amp:,} repositories set up mixed precision"
    yield f"themselves, {families:,} where those whose files with it are the same are one."
    yield ""
    stages = {
        stage: (count, seconds)
        for stage, count, seconds in census.ask(
            "select stage, count(*), sum(cpu_seconds) from files group by stage"
        )
    }
    lines = ((f"{stage}: {_STAGES[stage]}", *stages[stage]) for stage in _ORDER if stage in stages)
    yield from _table(
        ("a file", "files", "%", "CPU s"),
        ((what, f"{n:,}", f"{100 * n / max(files, 1):.1f}", f"{s:,.1f}") for what, n, s in lines),
    )


def _rules(census: Census) -> Iterator[str]:
    yield from ("", "## Findings by rule", "")
    counted = ("findings", "contents", "repositories", "families", "% of AMP families")
    yield from _table(("code", "name", *counted), census.shares())
    yield ""
    yield "*Contents* counts a finding once for all copies of its file, *families* the repositories"
    yield "with mixed precision, copies folded."


def _trend(census: Census) -> Iterator[str]:
    codes = [code for code, *_ in census.shares()[:_CODES]]
    years = census.years(codes) if codes else []
    if years:
        yield from ("", "## By year of the commit, % of AMP families", "")
        yield from _table(("year", "families", *codes), years)


def _errors(census: Census) -> Iterator[str]:
    errors = census.ask(
        "select regexp_replace(error, '[0-9a-f]{40}|[0-9]+', 'N', 'g'), count(*), "
        "min(repository), min(path) from files where error is not null "
        "group by 1 order by 2 desc, 1 limit 20"
    )
    if errors:
        yield from ("", "## Not judged", "")
        yield from _table(("why", "files", "repository", "for example"), errors)


def _sample(census: Census, number: int, seed: int) -> Iterator[str]:
    if sample := census.sample(number, seed):
        yield from ("", f"## {len(sample)} findings to judge (seed {seed})", "")
        rows = (
            (f"{repository} `{path}:{row}`" + (f" cell {cell}" if cell else ""), code, message, "")
            for repository, path, row, cell, code, message in sample
        )
        yield from _table(("place", "code", "message", "right?"), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('---' for _ in heads)}|"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(value: object) -> str:
    return "" if value is None else printable(str(value)).replace("|", "\\|")


def _listed(paths: Iterable[Path]) -> str:
    """Paths as a list in SQL."""
    quoted = (str(path).replace("'", "''") for path in sorted(paths))
    return "[" + ", ".join(f"'{path}'" for path in quoted) + "]"


def draw(shares: Sequence[Sequence[Any]], path: Path) -> None:
    """Draw which share of the families with mixed precision has each mistake."""
    from amp_lint.verify.plot import NEW, OLD, page

    rows = [row for row in shares if row[5]][::-1]
    with page(path, height=_INCHES * (len(rows) + _AXIS)) as (axes,):
        colors = [OLD if row[0] < "AMP4" else NEW for row in rows]
        axes.barh([f"{row[0]} {row[1]}" for row in rows], [row[6] for row in rows], color=colors)
        axes.set_xlabel("% of repositories with mixed precision")
        axes.margins(y=0.01)
        axes.tick_params(axis="y", labelsize=7)
