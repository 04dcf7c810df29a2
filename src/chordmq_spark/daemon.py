"""Spark's parent of Python workers, with everything imported that they use: each starts by a fork.

Otherwise every new worker imports pandas, Arrow and our client again, which takes it seconds.
"""

import gc
import os
from contextlib import suppress
from importlib import import_module

from pyspark.daemon import manager

USED = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark_chordmq.source",
    "pyspark_chordmq.parts",
    "pyspark_chordmq.writer",
    "chordmq_spark.mongodb",
    "chordmq_spark.transforms.watch",
)


def prepare() -> None:
    """Import what workers use, as far as it is installed."""
    # A process with threads is not for forking, and a worker has no use for more of them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in USED:
        with suppress(ImportError):
            import_module(name)
    # What is here now stays: no worker has to look through it, or copy it, to collect garbage.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    prepare()
    manager()
