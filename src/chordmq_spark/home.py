"""A home for a local Spark that leaves out the zip of pyspark, which its Python processes prefer.

Spark puts `python/lib/pyspark.zip` of its home before everything else that they import from, though
the package itself is installed. What comes out of a zip is compiled anew by each process, which
takes it half a second; each stream starts one. In this home there is no such file.
"""

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

from pyspark.find_spark_home import _find_spark_home

NEEDED = ("bin", "jars", "conf")
"""What a driver takes from its home; who has no settings of his own has no `conf`."""


def home_without_zip(directory: Path | None) -> Path:
    """Return a home below `directory`, or one that is removed when this process ends."""
    home = _temporary() if directory is None else directory / "home"
    home.mkdir(parents=True, exist_ok=True)
    installed = Path(_find_spark_home())
    for name in NEEDED:
        if (installed / name).is_dir():
            _link(home / name, installed / name)
    return home


def _link(link: Path, target: Path) -> None:
    """Make a link at once, also where another session uses it, or an older installation has it."""
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _temporary() -> Path:
    home = Path(mkdtemp(prefix="chordmq-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home
