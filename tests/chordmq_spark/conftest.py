"""Gives the tests of the pipeline their Spark."""

from tests.spark_session import session as session
from tests.spark_session import spark as spark
