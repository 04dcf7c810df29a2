"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.settings import topic_settings
from chordmq.codecs.kafka.messages import alter_configs, incremental_alter_configs
from chordmq.codecs.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from chordmq.codecs.kafka.messages.list_config_resources import ListConfigResourcesRequest
from tests.fronts.kafka.conftest import NODE_ID, Ask

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
UNKNOWN_TOPIC, UNSUPPORTED_VERSION, INVALID_CONFIG, INVALID_REQUEST = 3, 35, 40, 42
NODE = str(NODE_ID)


@pytest.fixture
def quiet_module() -> Iterator[str]:
    """Give a module whose log level a test may change."""
    name = "chordmq.broker.topics"
    yield name
    logging.getLogger(name).setLevel(logging.NOTSET)


async def described(ask: Ask, kind: int, name: str, **options: Any) -> DescribeConfigsResult:
    version = options.pop("version", None)
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=options.pop("keys", None)
    )
    request = DescribeConfigsRequest(resources=[resource], **options)
    (result,) = (await ask(request, version)).results
    assert isinstance(result, DescribeConfigsResult)
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def replaced(ask: Ask, kind: int, name: str, **settings: str | None) -> int:
    configs = [
        alter_configs.AlterableConfig(name=key.replace("_", "."), value=value)
        for key, value in settings.items()
    ]
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    (row,) = (await ask(alter_configs.AlterConfigsRequest(resources=[resource]))).responses
    return int(row.error_code)


async def changed(
    ask: Ask,
    kind: int,
    name: str,
    *changes: tuple[int, str, str | None],
    validate_only: bool = False,
) -> int:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=key, config_operation=operation, value=value
            )
            for operation, key, value in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    (row,) = (await ask(request)).responses
    assert bool(row.error_message) == bool(row.error_code)
    return int(row.error_code)


@pytest.mark.parametrize("version", DescribeConfigsRequest.versions)
async def test_every_setting_of_a_topic_is_listed_with_default_and_source(
    ask: Ask, broker: Broker, version: int
) -> None:
    """C7: DescribeConfigs lists all settings, in all versions."""
    await broker.topics.create("t", settings={"cleanup.policy": "compact"})
    result = await described(ask, TOPIC, "t", version=version, include_synonyms=True)
    rows = {row.name: row for row in result.configs}
    assert set(rows) == set(topic_settings())
    assert (rows["cleanup.policy"].value, rows["cleanup.policy"].config_source) == ("compact", 1)
    assert [(s.name, s.value, s.source) for s in rows["cleanup.policy"].synonyms] == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("604800000", 5)
    assert not any(row.read_only or row.is_sensitive for row in result.configs)
    if version >= 3:
        assert rows["retention.ms"].config_type == 5
        assert rows["cleanup.policy"].config_type == 7
        assert rows["preallocate"].config_type == 1


async def test_synonyms_and_documentation_come_only_when_asked_for(
    ask: Ask, broker: Broker
) -> None:
    await broker.topics.create("t")
    plain = await described(ask, TOPIC, "t", keys=["retention.ms"])
    assert (plain.configs[0].synonyms, plain.configs[0].documentation) == ([], None)
    full = await described(ask, TOPIC, "t", keys=["retention.ms"], include_documentation=True)
    assert "deleted" in (full.configs[0].documentation or "")


async def test_only_the_settings_asked_for_are_listed(ask: Ask, broker: Broker) -> None:
    await broker.topics.create("t")
    result = await described(ask, TOPIC, "t", keys=["retention.ms", "nonsense"])
    assert [row.name for row in result.configs] == ["retention.ms"]
    assert len((await described(ask, TOPIC, "t", keys=[])).configs) == len(topic_settings())


async def test_what_has_no_settings_is_refused(ask: Ask) -> None:
    """C12: unknown topics, other nodes and other kinds each get their code."""
    assert (await described(ask, TOPIC, "nope")).error_code == UNKNOWN_TOPIC
    assert (await described(ask, BROKER, "99")).error_code == INVALID_REQUEST
    assert (await described(ask, BROKER_LOGGER, "")).error_code == INVALID_REQUEST
    assert (await described(ask, GROUP, "")).error_code == INVALID_REQUEST
    assert (await described(ask, 77, "x")).error_code == INVALID_REQUEST


async def test_the_nodes_settings_say_what_can_be_changed(ask: Ask, broker: Broker) -> None:
    """C1: DescribeConfigs of a broker."""
    rows = {row.name: row for row in (await described(ask, BROKER, NODE)).configs}
    assert (rows["num.partitions"].value, rows["num.partitions"].config_source) == ("2", 4)
    assert rows["num.partitions"].read_only
    assert not rows["log.retention.ms"].read_only
    assert rows["log.dirs"].value == str(broker.topics.directory)
    assert rows["advertised.listeners"].value == "PLAINTEXT://broker.test:19092"


async def test_replacing_forgets_what_is_not_named(ask: Ask, broker: Broker) -> None:
    """C1: AlterConfigs replaces all overrides."""
    await broker.topics.create("t", settings={"retention.ms": "1", "retention.bytes": "2"})
    assert await replaced(ask, TOPIC, "t", retention_ms="5") == 0
    assert broker.topics.get("t").overrides == {"retention.ms": "5"}
    assert broker.topics.get("t").partitions[0].settings.retention_ms == 5
    assert await replaced(ask, TOPIC, "t", retention_ms="x") == INVALID_CONFIG
    assert await replaced(ask, TOPIC, "t", retention_ms=None) == INVALID_REQUEST
    assert await replaced(ask, TOPIC, "nope") == UNKNOWN_TOPIC
    assert await replaced(ask, BROKER_LOGGER, NODE, root="INFO") == INVALID_REQUEST
    assert broker.topics.get("t").overrides == {"retention.ms": "5"}


async def test_single_settings_are_set_deleted_and_lists_extended(ask: Ask, broker: Broker) -> None:
    """C2: IncrementalAlterConfigs with all four operations."""
    await broker.topics.create("t", settings={"retention.ms": "1"})
    topic = broker.topics.get("t")
    assert await changed(ask, TOPIC, "t", (SET, "retention.bytes", "9")) == 0
    assert topic.overrides == {"retention.ms": "1", "retention.bytes": "9"}
    assert await changed(ask, TOPIC, "t", (DELETE, "retention.ms", None)) == 0
    assert topic.overrides == {"retention.bytes": "9"}
    assert await changed(ask, TOPIC, "t", (APPEND, "cleanup.policy", "compact")) == 0
    assert set(topic.settings.cleanup_policy) == {"delete", "compact"}
    assert await changed(ask, TOPIC, "t", (SUBTRACT, "cleanup.policy", "delete")) == 0
    assert set(topic.settings.cleanup_policy) == {"compact"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([(SET, "colour", "red")], INVALID_CONFIG),
        ([(SET, "retention.ms", "-7")], INVALID_CONFIG),
        ([(APPEND, "retention.ms", "7")], INVALID_CONFIG),
        ([(APPEND, "colour", "7")], INVALID_CONFIG),
        ([(APPEND, "cleanup.policy", "shred")], INVALID_CONFIG),
        ([(SET, "retention.ms", None)], INVALID_REQUEST),
        ([(SET, "retention.ms", "1"), (SET, "retention.ms", "2")], INVALID_REQUEST),
        ([(9, "retention.ms", "1")], INVALID_REQUEST),
        ([(SET, "retention.bytes", "1"), (SET, "segment.bytes", "1")], INVALID_CONFIG),
    ],
)
async def test_a_bad_change_changes_nothing(
    ask: Ask, broker: Broker, changes: list[tuple[int, str, str | None]], code: int
) -> None:
    """C7: all changes of a resource are made, or none."""
    await broker.topics.create("t")
    assert await changed(ask, TOPIC, "t", *changes) == code
    assert broker.topics.get("t").overrides == {}


async def test_a_resource_may_stand_in_a_request_once(ask: Ask, broker: Broker) -> None:
    await broker.topics.create("t")
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t"
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource] * 2)
    rows = (await ask(request)).responses
    assert [row.error_code for row in rows] == [INVALID_REQUEST] * 2


async def test_validating_changes_nothing(ask: Ask, broker: Broker) -> None:
    await broker.topics.create("t")
    change = (SET, "retention.ms", "5")
    assert await changed(ask, TOPIC, "t", change, validate_only=True) == 0
    assert broker.topics.get("t").overrides == {}


@pytest.mark.parametrize(("name", "source"), [(NODE, 2), ("", 3)])
async def test_the_nodes_defaults_for_topics_are_changed_while_it_runs(
    ask: Ask, broker: Broker, name: str, source: int
) -> None:
    """C2: dynamic broker settings, for this node or for every node."""
    await broker.topics.create("t")
    assert await changed(ask, BROKER, name, (SET, "log.retention.ms", "77")) == 0
    assert broker.topics.get("t").partitions[0].settings.retention_ms == 77
    result = await described(ask, BROKER, name, keys=["log.retention.ms"])
    assert [(row.value, row.config_source) for row in result.configs] == [("77", source)]
    assert await changed(ask, BROKER, name, (DELETE, "log.retention.ms", None)) == 0
    assert broker.topics.get("t").settings.retention_ms == 604_800_000
    assert (await described(ask, BROKER, "")).configs == []


async def test_what_the_node_reads_at_start_cannot_be_changed(ask: Ask) -> None:
    """C12: refused, not pretended."""
    for name in (NODE, ""):
        assert await changed(ask, BROKER, name, (SET, "num.partitions", "7")) == INVALID_CONFIG
        assert await changed(ask, BROKER, name, (SET, "no.such", "7")) == INVALID_CONFIG
    change = (SET, "log.retention.ms", "7")
    assert await changed(ask, BROKER, "99", change) == INVALID_REQUEST
    assert await changed(ask, GROUP, "g", (SET, "x", "7")) == INVALID_CONFIG


async def test_log_levels_are_changed_while_the_node_runs(ask: Ask, quiet_module: str) -> None:
    """C15: levels per module through Kafka's API."""
    assert await changed(ask, BROKER_LOGGER, NODE, (SET, quiet_module, "ERROR")) == 0
    assert logging.getLogger(quiet_module).level == logging.ERROR
    rows = {row.name: row for row in (await described(ask, BROKER_LOGGER, NODE)).configs}
    assert (rows[quiet_module].value, rows[quiet_module].config_source) == ("ERROR", 6)
    assert await changed(ask, BROKER_LOGGER, NODE, (DELETE, quiet_module, None)) == 0
    assert logging.getLogger(quiet_module).level == logging.NOTSET


async def test_a_level_or_module_that_is_not_there_is_refused(ask: Ask, quiet_module: str) -> None:
    for change, code in (
        ((SET, quiet_module, "LOUD"), INVALID_CONFIG),
        ((SET, "no.such.module", "INFO"), INVALID_CONFIG),
        ((DELETE, "root", None), INVALID_CONFIG),
        ((APPEND, quiet_module, "INFO"), INVALID_REQUEST),
    ):
        assert await changed(ask, BROKER_LOGGER, NODE, change) == code


async def test_resources_with_settings_are_listed(ask: Ask, broker: Broker) -> None:
    """C2: ListConfigResources."""
    await broker.topics.create("t")
    answer = await ask(ListConfigResourcesRequest(resource_types=[TOPIC, BROKER]))
    found = {(row.resource_type, row.resource_name) for row in answer.config_resources}
    assert {(TOPIC, "t"), (BROKER, NODE)} <= found
    assert (await ask(ListConfigResourcesRequest(), 0)).config_resources == []
    answer = await ask(ListConfigResourcesRequest(resource_types=[99]))
    assert answer.error_code == UNSUPPORTED_VERSION
