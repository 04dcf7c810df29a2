"""Prints each requirement with the tests whose docstrings name it, and those that have none."""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.*) \|$", re.MULTILINE)
NAMED = re.compile(r"[A-Z]\d+(?:, ?[A-Z]\d+)*(?=:)")
WIDTH = 100


def requirements(table: str) -> dict[str, str]:
    """Return the text of each requirement by its id, in the order of the document."""
    return dict(ROW.findall(table))


def claims(source: str) -> Iterator[tuple[str, str]]:
    """Yield (requirement, test) for each id at the start of a test's docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test"
        ):
            pass
        elif not isinstance(node, ast.ClassDef):
            continue
        named = NAMED.match(ast.get_docstring(node) or "")
        for requirement in named.group().split(",") if named else ():
            yield requirement.strip(), node.name


def proofs(tests: Path) -> dict[str, list[str]]:
    """Return the tests under a folder by the requirement that they prove."""
    found: dict[str, list[str]] = {}
    for file in sorted(tests.rglob("test_*.py")):
        for requirement, test in claims(file.read_text(encoding="utf-8")):
            found.setdefault(requirement, []).append(f"{file.relative_to(tests)}::{test}")
    return {requirement: sorted(names) for requirement, names in found.items()}


def report(known: dict[str, str], found: dict[str, list[str]]) -> Iterator[str]:
    """Yield the lines of the report: every id, its text, its tests."""
    for requirement, text in known.items():
        short = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
        yield f"{requirement:4} {short}"
        yield from (f"       {test}" for test in found.get(requirement, ["(no test)"]))
    without = [requirement for requirement in known if requirement not in found]
    yield f"\n{len(known) - len(without)} of {len(known)} requirements have tests."
    yield f"Without: {', '.join(without) or 'none'}"


def main() -> int:
    """Print the report; return 1 when an id that was asked for has no test or is unknown."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--missing", metavar="C1,C5", default="", help="fail if one has no test")
    options.add_argument("--table", type=Path, default=ROOT / "docs/requirements.md")
    options.add_argument("--tests", type=Path, default=ROOT / "tests")
    chosen = options.parse_args()
    known = requirements(chosen.table.read_text(encoding="utf-8"))
    found = proofs(chosen.tests)
    print(*report(known, found), sep="\n")
    faults = [f"{name}: no requirement has this id" for name in sorted(found.keys() - known.keys())]
    for name in filter(None, chosen.missing.split(",")):
        if name not in known:
            faults.append(f"{name}: no requirement has this id")
        elif name not in found:
            faults.append(f"{name}: no test proves it")
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
