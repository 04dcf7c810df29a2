from tests.spark_session import spark as spark
