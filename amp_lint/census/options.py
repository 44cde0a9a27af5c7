"""What the command line of a census says, as data."""

from __future__ import annotations

import argparse
from pathlib import Path

from amp_lint import api


class CensusOptions(argparse.Namespace):
    """The options of ``amp-lint census``."""

    where: list[str]
    column: list[tuple[str, str]] | None
    cross_file: bool
    workers: int
    address: str | None
    block_rows: int
    max_bytes: int
    quiet: bool
    select: list[str] | None
    extend_select: list[str] | None
    ignore: list[str] | None
    preview: bool | None
    target_torch: tuple[int, int] | None
    ignore_noqa: bool

    @property
    def settings(self) -> api.Settings:
        """Which rules look at the files."""
        return api.Settings(
            None if self.select is None else tuple(self.select),
            tuple(self.extend_select or ()),
            tuple(self.ignore or ()),
            bool(self.preview),
            "{}.{}".format(*self.target_torch) if self.target_torch else None,
            not self.ignore_noqa,
        )


class ReportOptions(argparse.Namespace):
    """The options of ``amp-lint census report``."""

    where: list[str]
    sample: int
    seed: int
    output_file: Path | None
    picture: Path | None
