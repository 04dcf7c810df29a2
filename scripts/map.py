"""Prints what each module is for, from the first sentence of its docstring."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
COLUMN = 34


def sentence(module: Path) -> str:
    """Return the first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def lines(folder: Path, depth: int = 0) -> Iterator[str]:
    """Yield one line for each folder and module, indented like the tree."""
    indent = "  " * depth
    yield f"{indent}{folder.name}/"
    for module in sorted(folder.glob("*.py")):
        if module.name != "__init__.py":
            yield f"{indent}  {module.name}".ljust(COLUMN) + sentence(module)
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        if any(inner.rglob("*.py")):
            yield from lines(inner, depth + 1)


if __name__ == "__main__":
    for package in sorted(path for path in SOURCE.iterdir() if path.is_dir()):
        print(*lines(package), sep="\n")
