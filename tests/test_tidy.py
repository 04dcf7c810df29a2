"""Checks of the code itself: sizes, names and the sentence that opens each module."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
SHAPELESS = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "impl", "base"}
BOASTS = {"ultra", "blazing", "enterprise", "advanced", "performance", "optimized", "fast", "v2"}

FOLDERS = [SOURCE, ROOT / "scripts", ROOT / "tests", ROOT / "benchmarks"]
FILES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))
MODULES = [
    path for path in FILES if path.name != "__init__.py" and "node_modules" not in path.parts
]
GENERATED = SOURCE / "chordmq/codecs/kafka/messages"


def read(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def faults(complain: Callable[[Path], Iterator[str]], modules: Iterable[Path]) -> str:
    """Return what is wrong with which module, one line each."""
    lines = (f"{m.relative_to(ROOT)}: {complaint}" for m in modules for complaint in complain(m))
    return "\n".join(lines)


def sizes(module: Path) -> Iterator[str]:
    lines = len(module.read_text(encoding="utf-8").splitlines())
    if lines > MODULE_LINES_MAX:
        yield f"{lines} lines; split it by noun"
    for node in ast.walk(read(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{node.name} has {length} lines"


def names(module: Path) -> Iterator[str]:
    words = set(module.stem.split("_"))
    if words & SHAPELESS:
        yield "name the thing, not its shape"
    if words & BOASTS:
        yield "say what it does, not how well"


def sentences(module: Path) -> Iterator[str]:
    sentence = (ast.get_docstring(read(module)) or "").split("\n\n")[0]
    if not sentence.endswith("."):
        yield "the module opens with no sentence that ends in a full stop"


def contents(module: Path) -> Iterator[str]:
    # Spark looks for `DefaultSource` in the package itself.
    if module.read_bytes() and module.parent.name != "pyspark_chordmq":
        yield "a package re-exports nothing"


def test_modules_and_functions_are_short_enough_to_read() -> None:
    # Kafka's message classes are written by a script from Kafka's own schemas.
    assert faults(sizes, (module for module in MODULES if module.parent != GENERATED)) == ""


def test_module_names_say_what_is_in_them() -> None:
    assert faults(names, MODULES) == ""


def test_modules_open_with_one_sentence() -> None:
    assert faults(sentences, MODULES) == ""


def test_packages_are_empty() -> None:
    assert faults(contents, (path for path in FILES if path.name == "__init__.py")) == ""
