"""The home of a local Spark."""

import os
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from chordmq_spark.home import VARIABLE, without_zip


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_what_starts_in_the_block_finds_programs_but_no_zip(tmp_path: Path) -> None:
    with without_zip(tmp_path):
        home = Path(os.environ[VARIABLE])
    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert not (home / "python").exists()
    assert VARIABLE not in os.environ


def test_a_home_that_someone_has_chosen_is_left_to_him(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "chosen")
    with without_zip(tmp_path):
        assert os.environ[VARIABLE] == "chosen"
    assert list(tmp_path.iterdir()) == []


def test_links_of_an_older_installation_are_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "jars").symlink_to(tmp_path / "gone")
    with without_zip(tmp_path):
        pass
    assert (home / "jars").readlink() == Path(_find_spark_home()) / "jars"


def test_workers_import_pyspark_from_where_it_is_installed(spark: SparkSession) -> None:
    """P2: what comes out of the zip is compiled again by each process that Spark starts."""

    def places(_: object) -> list[str]:
        import pyspark

        return [pyspark.__file__]

    (found,) = spark.sparkContext.parallelize([0], 1).flatMap(places).collect()
    assert ".zip" not in found
