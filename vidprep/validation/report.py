"""A run's findings as one JSON object, as Parquet, as a self-contained page."""

from __future__ import annotations

import json
import os
import shutil
from typing import IO, TYPE_CHECKING, Any

from vidprep.validation.checks import CHECKS, SEVERITIES
from vidprep.validation.findings import read_findings

if TYPE_CHECKING:
    from pathlib import Path

    from vidprep.validation.rules import Rules
    from vidprep.validation.run import Report

__all__ = ["as_json", "page", "write_json", "write_parquet"]

#: Findings of one check that a page shows; the Parquet file has all.
PAGE_EXAMPLES = 50


def as_json(finding: dict[str, Any]) -> dict[str, Any]:
    """A finding as JSON values; a name that is not UTF-8 is as Python has it, with its bytes in hexadecimal beside it."""
    raw = finding.pop("video_bytes")
    return finding if raw is None else finding | {"video": os.fsdecode(raw), "video_bytes": raw.hex()}


def write_json(report: Report, out: IO[str]) -> None:
    """One object: `summary`, and `findings` written as they are read, so that their number costs no memory."""
    out.write(f'{{"summary": {json.dumps(report.summary)}, "findings": [')
    for number, finding in enumerate(read_findings(report.findings)):
        out.write((",\n" if number else "\n") + json.dumps(as_json(finding)))
    out.write("]}\n")


def write_parquet(report: Report, out: Path) -> None:
    """All findings; appears whole or not at all."""
    aside = out.with_name(out.name + ".part")
    shutil.copyfile(report.findings, aside)
    aside.replace(out)


def page(report: Report, source: str, rules: Rules) -> str:
    """The report as HTML: counts, each check with its meaning, fix and first findings, and what policies would do."""
    from vidprep.pages import render

    return render(
        "validation.html",
        title="Validation",
        source=source,
        summary=report.summary,
        checks=[_section(report, check, rules) for check in report.summary["checks"]],
        passed=[CHECKS[check] for check in rules.severities if check not in report.summary["checks"]],
        severities=SEVERITIES[::-1],
    )


def _section(report: Report, check: str, rules: Rules) -> dict[str, Any]:
    examples = report.examples[check][:PAGE_EXAMPLES]
    return {
        "check": CHECKS[check],
        "severity": rules.severities[check],
        "count": report.summary["checks"][check],
        "findings": examples,
    }
