"""Compiles what is too slow in Python while the package is installed, if the machine can compile.

Without a C compiler and Python's header files, or with CHORDMQ_PURE=1, nothing is compiled: every
compiled module stands beside one in plain Python that does the same.
"""

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PURE = "CHORDMQ_PURE"
SOURCE = Path("src")


class CompiledModules(BuildHookInterface):
    """Builds the modules that pyproject.toml lists, by the tool that it lists them under."""

    _made: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into the wheel; into the working copy if that is what is installed."""
        is_editable = version == "editable"
        if is_editable:
            self._remove_old()
        lacking = _lacking()
        if lacking:
            self.app.display_warning(f"chordmq: pure Python, nothing is compiled: {lacking}")
            return
        if is_editable:
            self._compile(SOURCE)
            return
        self._made = tempfile.TemporaryDirectory()
        target = Path(self._made.name)
        for path in self._compile(target):
            build_data["force_include"][str(path)] = str(path.relative_to(target))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel by now."""
        if self._made is not None:
            self._made.cleanup()

    def _compile(self, target: Path) -> list[Path]:
        """Compile all modules into a folder; return the files that Python loads."""
        return _with_cython(self.config["cython"], target)

    def _remove_old(self) -> None:
        """Remove what was compiled before: Python would load it, whatever the source says now."""
        for path in (Path(source) for listed in self.config.values() for source in listed):
            for old in path.parent.glob(f"{path.stem}.*.so"):
                old.unlink()


def _lacking() -> str:
    """Return why nothing can be compiled here; nothing if it can."""
    if os.environ.get(PURE, "") not in ("", "0"):
        return f"{PURE} is set"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(compiler[0]) is None:
        return f"there is no C compiler ({compiler[0]})"
    include = f"-I{sysconfig.get_path('include')}"
    tried = subprocess.run(  # noqa: S603  the compiler that Python itself was built with
        [*compiler, "-fsyntax-only", include, "-x", "c", "-"],
        input="#include <Python.h>\n", text=True, capture_output=True, check=False,
    )  # fmt: skip
    return "Python's or C's header files are missing" if tried.returncode else ""


def _with_cython(sources: list[str], target: Path) -> list[Path]:
    """Compile modules that are written in Cython."""
    from Cython.Build import cythonize
    from setuptools import Extension

    modules = [
        Extension(
            ".".join(Path(source).relative_to(SOURCE).with_suffix("").parts),
            [source],
            extra_compile_args=["-O3"],
        )
        for source in sources
    ]
    with tempfile.TemporaryDirectory() as made:
        return _linked(cythonize(modules, build_dir=made, force=True, quiet=True), made, target)


def _linked(modules: list[Any], made: str, target: Path) -> list[Path]:
    """Compile and link modules that are written in C by now."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"ext_modules": modules}))
    command.build_temp, command.build_lib, command.force = made, str(target), True
    command.ensure_finalized()
    command.run()
    return [Path(path) for path in command.get_outputs()]
