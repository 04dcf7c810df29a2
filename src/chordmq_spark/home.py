"""A home for a local Spark that leaves out the zip of pyspark, which its Python processes prefer.

Spark puts `python/lib/pyspark.zip` of its home before everything else that they import from, though
the package itself is installed. What comes out of a zip is compiled anew by each process, which
takes it half a second; each stream starts one. In this home there is no such file.
"""

import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from pyspark.find_spark_home import _find_spark_home

VARIABLE = "SPARK_HOME"
NEEDED = ("bin", "jars", "conf")
"""What a driver takes from its home; who has no settings of his own has no `conf`."""


@contextmanager
def without_zip(directory: Path | None) -> Iterator[None]:
    """Start Spark in this block, and it lives below `directory`, or among temporary files.

    Someone who has said where Spark is may have it from elsewhere: that is left as it is.
    """
    if VARIABLE in os.environ:
        yield
        return
    home = _temporary() if directory is None else directory / "home"
    _fill(home, Path(_find_spark_home()))
    os.environ[VARIABLE] = str(home)
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def _temporary() -> Path:
    home = Path(mkdtemp(prefix="chordmq-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _fill(home: Path, installed: Path) -> None:
    """Link what is needed; links that an older installation has left are replaced."""
    home.mkdir(parents=True, exist_ok=True)
    for name in NEEDED:
        (home / name).unlink(missing_ok=True)
        if (installed / name).is_dir():
            (home / name).symlink_to(installed / name)
