"""Packs what tasks of the pipeline import, for machines that have only Python and Spark."""

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

OWN = ("chordmq", "chordmq_spark", "pyspark_chordmq")
WANTED = ("chordmq", "pandas", "pyarrow", "pymongo")
BROUGHT_BY_SPARK = frozenset({"pyspark", "py4j"})
LEFT_OUT = frozenset({"__pycache__", "tests", "include"})
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def pack(target: Path) -> int:
    """Write all packages to a ZIP file, and return how many files it has."""
    files = dict(_contents())
    with ZipFile(target, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in sorted(files.items()):
            archive.write(path, name)
    return len(files)


def folders() -> list[str]:
    """Return the folders where this process has the same packages."""
    return sorted({str(folder.parent) for folder in map(_folder, (*OWN, "pyarrow"))})


def _contents() -> Iterator[tuple[str, Path]]:
    """Yield each file with its name in the archive."""
    for package in OWN:
        # Not by what its distribution lists: that may only point to a working copy.
        folder = _folder(package)
        for path in folder.rglob("*"):
            name = path.relative_to(folder.parent)
            if path.is_file() and _is_wanted(name.parts):
                yield str(name), path
    for one in _needed(WANTED).values():
        for file in one.files or ():
            if _is_wanted(file.parts) and file.suffix != ".pth":
                yield str(file), Path(str(one.locate_file(file)))


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None, package
    return Path(next(iter(spec.submodule_search_locations or ())))


def _is_wanted(parts: Iterable[str]) -> bool:
    return not ({*parts} & LEFT_OUT or ".." in parts)


def _needed(names: Iterable[str]) -> dict[str, Distribution]:
    """Return the distributions of these names, and all that they require and is installed."""
    found: dict[str, Distribution] = {}
    left = [*names]
    while left:
        name = left.pop().lower().replace("_", "-")
        if name in found or name in BROUGHT_BY_SPARK:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # for another system, or a driver that nobody wants here
            continue
        left += [said[0] for one in found[name].requires or () if (said := _always(one))]
    return found


def _always(requirement: str) -> re.Match[str] | None:
    """Return the name of what is required, unless only an extra requires it."""
    return None if "extra ==" in requirement else _NAME.match(requirement)
