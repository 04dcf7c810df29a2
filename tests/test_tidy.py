"""Checks of the code itself: sizes, names and the sentence that opens each module."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
SHAPELESS = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "impl", "base"}
BOASTS = {"ultra", "blazing", "enterprise", "advanced", "performance", "optimized", "fast", "v2"}

MODULES = sorted(SOURCE.rglob("*.py"))
FOLDERS = [SOURCE, ROOT / "scripts", ROOT / "tests", ROOT / "benchmarks"]
NAMED = sorted(
    path for folder in FOLDERS for path in folder.rglob("*.py") if path.name != "__init__.py"
)


def name(module: Path) -> str:
    return str(module.relative_to(ROOT))


def generated(module: Path) -> bool:
    """Kafka's message classes are written by a script from Kafka's own schemas."""
    return module.parent == SOURCE / "chordmq/codecs/kafka/messages"


def functions(module: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("module", [m for m in NAMED if not generated(m)], ids=name)
def test_a_module_is_short_enough_to_read(module: Path) -> None:
    lines = len(module.read_text(encoding="utf-8").splitlines())
    assert lines <= MODULE_LINES_MAX, f"{lines} lines: split it by noun"
    for function in functions(module):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        assert length <= FUNCTION_LINES_MAX, f"{function.name} has {length} lines"


@pytest.mark.parametrize("module", NAMED, ids=name)
def test_a_module_name_says_what_is_in_it(module: Path) -> None:
    words = set(module.stem.split("_"))
    assert not words & SHAPELESS, "name the thing, not its shape"
    assert not words & BOASTS, "say what it does, not how well"


@pytest.mark.parametrize("module", NAMED, ids=name)
def test_a_module_opens_with_one_sentence(module: Path) -> None:
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    paragraph = text.split("\n\n")[0]
    assert paragraph, "the module has no docstring"
    assert paragraph.endswith("."), "the first sentence has no full stop"


@pytest.mark.parametrize("module", [m for m in MODULES if m.name == "__init__.py"], ids=name)
def test_packages_re_export_nothing(module: Path) -> None:
    assert module.read_text(encoding="utf-8") == ""
