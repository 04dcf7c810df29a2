"""The home of a local Spark."""

from pathlib import Path

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from chordmq_spark.home import home_without_zip


def test_a_home_has_spark_s_programs_but_no_zip(tmp_path: Path) -> None:
    home = home_without_zip(tmp_path)
    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert not (home / "python").exists()


def test_links_of_an_older_installation_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "jars").symlink_to(tmp_path / "gone")
    home = home_without_zip(tmp_path)
    assert (home / "jars").readlink() == Path(_find_spark_home()) / "jars"


def test_workers_import_pyspark_from_where_it_is_installed(spark: SparkSession) -> None:
    """P2: what comes out of the zip is compiled again by each process that Spark starts."""

    def place(_: int) -> str:
        import pyspark

        return pyspark.__file__

    (found,) = spark.sparkContext.parallelize([0], 1).map(place).collect()
    assert ".zip" not in found
