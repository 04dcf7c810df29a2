"""Fetches the clients of other languages that the tests run: jars by Maven, packages by npm."""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache"
JAVA = ROOT / "tests/interop/java"
JARS = CACHE / "java/jars"
JAVASCRIPT = ROOT / "tests/interop/js"
NPM = Path(sys.prefix) / "bin/npm"


def done(tool: str, manifest: Path) -> bool:
    """Say whether a tool was fetched already for this very manifest."""
    stamp = CACHE / f"{tool}.stamp"
    return stamp.exists() and stamp.read_text() == fingerprint(manifest)


def mark(tool: str, manifest: Path) -> None:
    """Remember that a tool was fetched for this manifest."""
    CACHE.mkdir(exist_ok=True)
    (CACHE / f"{tool}.stamp").write_text(fingerprint(manifest))


def fingerprint(manifest: Path) -> str:
    """Return what changes when the manifest changes."""
    return hashlib.sha256(manifest.read_bytes()).hexdigest()


def main() -> int:
    """Fetch what is not there yet."""
    pom = JAVA / "pom.xml"
    copy_jars = ["dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
    packages = JAVASCRIPT / "package-lock.json"
    steps = {
        "java": (pom, ["mvn", "-B", "-q", "-f", str(pom), *copy_jars]),
        "javascript": (packages, [str(NPM), "ci", "--prefix", str(JAVASCRIPT)]),
    }
    for tool, (manifest, command) in steps.items():
        if not manifest.exists() or done(tool, manifest):
            continue
        print(f"Fetching the {tool} clients for the tests", flush=True)
        if subprocess.run(command, check=False).returncode != 0:
            print(f"{' '.join(command)} failed", file=sys.stderr)
            return 1
        mark(tool, manifest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
