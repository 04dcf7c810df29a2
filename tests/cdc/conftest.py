"""The databases that the tests of this folder share: one server each, a database for each test."""

from collections.abc import Iterator

import pytest

from tests.postgres import RunningPostgres, running_postgres
from tests.replica_set import RunningReplicaSet, running_replica_set


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[RunningPostgres]:
    """Give a PostgreSQL that all tests of this worker share."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: RunningPostgres, name: str) -> "PostgresDatabase":
    """Give an empty database of the test's own."""
    database = name.replace("-", "_")
    postgres_server.execute(f"CREATE DATABASE {database}", database="postgres")
    return PostgresDatabase(postgres_server, database)


class PostgresDatabase:
    """One database of a server."""

    def __init__(self, server: RunningPostgres, name: str) -> None:
        self.server = server
        self.name = name
        self.address = server.address.rpartition("/")[0] + f"/{name}"

    def run(self, *statements: str) -> None:
        """Run statements, each as a transaction."""
        self.server.script(";\n".join(statements), self.name)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return what a query finds."""
        return self.server.execute(query, database=self.name)


@pytest.fixture(scope="session")
def mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningReplicaSet]:
    """Give a MongoDB that all tests of this worker share; use databases of your own."""
    with running_replica_set(tmp_path_factory.mktemp("mongodb")) as server:
        yield server
