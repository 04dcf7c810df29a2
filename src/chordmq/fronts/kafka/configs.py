"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

from chordmq import logs
from chordmq.broker.security import acl
from chordmq.broker.setting import (
    Candidate,
    Change,
    Kind,
    Operation,
    Setting,
    Shown,
    Source,
    altered,
)
from chordmq.codecs.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from chordmq.codecs.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from chordmq.codecs.kafka.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from chordmq.codecs.kafka.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from chordmq.codecs.kafka.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, InvalidRequest, InvalidSetting, UnsupportedVersion
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import CODES, code_of, reason_of

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SOURCES = {
    Source.TOPIC: 1,
    Source.NODE_DYNAMIC: 2,
    Source.NODE: 4,
    Source.DEFAULT: 5,
    Source.GROUP: 8,
}
DYNAMIC_DEFAULT_BROKER, DYNAMIC_BROKER_LOGGER = 3, 6
KINDS = {
    Kind.BOOLEAN: 1,
    Kind.STRING: 2,
    Kind.INT: 3,
    Kind.LONG: 5,
    Kind.DOUBLE: 6,
    Kind.LIST: 7,
}
OPERATIONS = dict(enumerate(Operation))
EVERY_NODE = ""
MODULE_NAME_LENGTH_MAX = 200
LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARN",
    "error": "ERROR",
    "critical": "FATAL",
}
LEVELS_BY_KAFKA_NAME = {theirs: ours for ours, theirs in LEVELS.items()} | {"TRACE": "debug"}


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """List every setting of a topic, a node or its loggers, with defaults and sources."""
    rows = []
    for asked in request.resources:
        row = DescribeConfigsResult(
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )
        try:
            _check(call, acl.Operation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name)
            row.configs = _described(call, request, asked)
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return DescribeConfigsResponse(results=rows)


def _described(
    call: Call, request: DescribeConfigsRequest, asked: DescribeConfigsResource
) -> list[DescribeConfigsResourceResult]:
    rows = _resource(asked.resource_type).describe(call, asked.resource_name)
    wanted = asked.configuration_keys
    if wanted:
        rows = [row for row in rows if row.name in wanted]
    for row in rows:
        if not request.include_synonyms:
            row.synonyms = []
        if not request.include_documentation:
            row.documentation = None
    return rows


async def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all settings of topics or nodes; what is not named goes back to its default."""
    times = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)
    rows = []
    for asked in request.resources:
        key = asked.resource_type, asked.resource_name
        row = AlterConfigsResourceResponse(
            error_message=None, resource_type=key[0], resource_name=key[1]
        )
        try:
            _check(call, acl.Operation.ALTER_CONFIGS, *key)
            _check_once(times[key], [config.name for config in asked.configs])
            alter = _resource(asked.resource_type).replace
            texts = {config.name: _text(config.name, config.value) for config in asked.configs}
            await alter(call, asked.resource_name, texts, request.validate_only)
            if not request.validate_only:
                call.audit("settings.replace", _told(key, texts))
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return AlterConfigsResponse(responses=rows)


async def incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change single settings of topics, nodes or loggers; the others stay as they are."""
    times = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)
    rows = []
    for asked in request.resources:
        key = asked.resource_type, asked.resource_name
        row = IncrementalResourceResponse(
            error_message=None, resource_type=key[0], resource_name=key[1]
        )
        try:
            _check(call, acl.Operation.ALTER_CONFIGS, *key)
            _check_once(times[key], [config.name for config in asked.configs])
            alter = _resource(asked.resource_type).alter
            await alter(call, asked.resource_name, _changes(asked), request.validate_only)
            if not request.validate_only:
                call.audit("settings.change", _told(key, [one.name for one in asked.configs]))
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return IncrementalAlterConfigsResponse(responses=rows)


def list_config_resources(
    call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Name what can have settings: version 0 asks for client metrics only, and there are none."""
    try:
        call.check(acl.Operation.DESCRIBE_CONFIGS, acl.Kind.CLUSTER)
    except ChordMQError as error:
        return ListConfigResourcesResponse(error_code=code_of(error))
    if call.version == 0:
        return ListConfigResourcesResponse()
    wanted = request.resource_types or [TOPIC, BROKER, BROKER_LOGGER, GROUP]
    if not set(wanted) <= {TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP}:
        return ListConfigResourcesResponse(error_code=CODES[UnsupportedVersion])
    node = str(call.broker.node_id)
    names = {TOPIC: [topic.name for topic in call.broker.topics]}
    names |= {BROKER: [node], BROKER_LOGGER: [node], GROUP: call.broker.group_settings.groups()}
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in names.get(kind, [])
        ]
    )


def _told(key: tuple[int, str], settings: Iterable[str]) -> str:
    """Return what the audit trail says of a change: which settings of what, not their values."""
    kinds = {TOPIC: "topic", BROKER: "node", BROKER_LOGGER: "logger", GROUP: "group"}
    return f"{kinds.get(key[0], key[0])} {key[1]}: {', '.join(settings)}"


def _check(call: Call, operation: acl.Operation, kind: int, name: str) -> None:
    """Refuse unless the client may do this with the settings of a topic, a group or the node."""
    if kind == TOPIC:
        call.check(operation, acl.Kind.TOPIC, name)
    elif kind == GROUP:
        call.check(operation, acl.Kind.GROUP, name)
    else:
        call.check(operation, acl.Kind.CLUSTER)


def _check_once(times: int, names: Sequence[str]) -> None:
    if times > 1:
        raise InvalidRequest("Each resource must appear at most once.")
    if len(set(names)) < len(names):
        raise InvalidRequest("A setting stands in the request twice.")


def _text(name: str, value: str | None) -> str:
    if value is None:
        raise InvalidRequest(f"Null value not supported for : {name}")
    return value


def _changes(asked: AlterConfigsResource) -> list[Change]:
    changes = []
    for config in asked.configs:
        operation = OPERATIONS.get(config.config_operation)
        if operation is None:
            raise InvalidRequest(f"There is no operation {config.config_operation} on settings.")
        value = "" if operation is Operation.DELETE else _text(config.name, config.value)
        changes.append(Change(config.name, operation, value))
    return changes


def _describe_topic(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    topics = call.broker.topics
    return [
        _row(shown, is_read_only=False)
        for shown in topics.settings.shown_for_topic(topics.get(name).overrides)
    ]


async def _replace_topic(call: Call, name: str, texts: dict[str, str], validate_only: bool) -> None:
    await call.broker.topics.alter_settings(name, lambda _: texts, validate_only=validate_only)


async def _alter_topic(
    call: Call, name: str, changes: Sequence[Change], validate_only: bool
) -> None:
    topics = call.broker.topics
    await topics.alter_settings(
        name,
        lambda given: altered(given, changes, topics.settings.shown_for_topic(given)),
        validate_only=validate_only,
    )


def _describe_node(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    # With one node, what is set for it and what is set for every node is the same.
    _check_node(call, name, or_every=True)
    shown = call.broker.topics.settings.shown()
    if name == EVERY_NODE:
        rows = [_row(s, is_read_only=False) for s in shown if s.source is Source.NODE_DYNAMIC]
        for row in rows:
            row.config_source = DYNAMIC_DEFAULT_BROKER
        return rows
    return [_row(s, is_read_only=not s.setting.dynamic) for s in [*_facts(call), *shown]]


def _facts(call: Call) -> list[Shown]:
    """Return what the node knows of itself and nobody can set over the wire."""
    host, port = call.advertised
    directory = str(call.broker.topics.directory.absolute())
    facts = {
        "log.dirs": (directory, "Directory that holds the partitions."),
        "advertised.listeners": (f"PLAINTEXT://{host}:{port}", "Address that clients are given."),
    }
    return [
        Shown(
            Setting(name=name, kind=Kind.STRING, default="", help=about),
            (Candidate(name, value, Source.NODE),),
        )
        for name, (value, about) in facts.items()
    ]


async def _replace_node(call: Call, name: str, texts: dict[str, str], validate_only: bool) -> None:
    _check_node(call, name, or_every=True)
    await call.broker.topics.alter_node_settings(lambda _: texts, validate_only=validate_only)


async def _alter_node(
    call: Call, name: str, changes: Sequence[Change], validate_only: bool
) -> None:
    _check_node(call, name, or_every=True)
    topics = call.broker.topics
    await topics.alter_node_settings(
        lambda given: altered(given, changes, topics.settings.shown()),
        validate_only=validate_only,
    )


def _check_node(call: Call, name: str, *, or_every: bool = False) -> None:
    node = str(call.broker.node_id)
    if name != node and not (or_every and name == EVERY_NODE):
        raise InvalidRequest(f"There is no node {name!r}; this one is {node}.")


def _describe_loggers(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    # Each module of the node has a level; changes last until the node stops.
    _check_node(call, name)
    return [
        DescribeConfigsResourceResult(
            name=module,
            value=LEVELS.get(level, level.upper()),
            config_source=DYNAMIC_BROKER_LOGGER,
            config_type=KINDS[Kind.STRING],
            documentation=f"How much {module} logs.",
        )
        for module, level in logs.levels().items()
    ]


async def _replace_loggers(
    call: Call, name: str, texts: dict[str, str], validate_only: bool
) -> None:
    raise InvalidRequest("Log levels are changed one by one: use IncrementalAlterConfigs.")


async def _alter_loggers(
    call: Call, name: str, changes: Sequence[Change], validate_only: bool
) -> None:
    _check_node(call, name)
    levels: dict[str, str | None] = {}
    for change in changes:
        if change.operation not in (Operation.SET, Operation.DELETE):
            raise InvalidRequest("A log level can be set or deleted, nothing else.")
        level = None
        if change.operation is Operation.SET:
            level = LEVELS_BY_KAFKA_NAME.get(change.value)
            if level is None:
                raise InvalidSetting(
                    f"{change.name}: no level {change.value}; "
                    f"there are {', '.join(LEVELS_BY_KAFKA_NAME)}"
                )
        if len(change.name) > MODULE_NAME_LENGTH_MAX:
            raise InvalidSetting("No module has a name that long.")
        logs.check_level(change.name, level)
        levels[change.name] = level
    if not validate_only:
        for module, level in levels.items():
            logs.set_level(module, level)


def _describe_group(call: Call, name: str) -> list[DescribeConfigsResourceResult]:
    _check_group(name)
    return [_row(shown, is_read_only=False) for shown in call.broker.group_settings.shown(name)]


async def _replace_group(call: Call, name: str, texts: dict[str, str], validate_only: bool) -> None:
    _check_group(name)
    _check_dead_letters(call, texts)
    await call.broker.group_settings.alter(name, lambda _: texts, validate_only=validate_only)


async def _alter_group(
    call: Call, name: str, changes: Sequence[Change], validate_only: bool
) -> None:
    _check_group(name)
    _check_dead_letters(call, [change.name for change in changes])
    settings = call.broker.group_settings
    await settings.alter(
        name,
        lambda given: altered(given, changes, settings.shown(name)),
        validate_only=validate_only,
    )


def _check_group(name: str) -> None:
    if not name:
        raise InvalidRequest("Group name must not be empty.")


def _check_dead_letters(call: Call, names: Iterable[str]) -> None:
    # The broker itself writes there, so it is not for everybody to say where.
    if "errors.deadletterqueue.topic.name" in names:
        call.check(acl.Operation.ALTER, acl.Kind.CLUSTER)


def _row(shown: Shown, *, is_read_only: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=shown.setting.name,
        value=shown.value,
        read_only=is_read_only,
        config_source=SOURCES[shown.source],
        synonyms=[
            DescribeConfigsSynonym(name=c.name, value=c.value, source=SOURCES[c.source])
            for c in shown.candidates
        ],
        config_type=KINDS[shown.setting.kind],
        documentation=shown.setting.help,
    )


@dataclass(frozen=True, slots=True)
class Resource:
    """How one kind of resource shows and takes settings."""

    describe: Callable[[Call, str], list[DescribeConfigsResourceResult]]
    replace: Callable[[Call, str, dict[str, str], bool], Awaitable[None]]
    alter: Callable[[Call, str, Sequence[Change], bool], Awaitable[None]]


RESOURCES = {
    TOPIC: Resource(_describe_topic, _replace_topic, _alter_topic),
    BROKER: Resource(_describe_node, _replace_node, _alter_node),
    BROKER_LOGGER: Resource(_describe_loggers, _replace_loggers, _alter_loggers),
    GROUP: Resource(_describe_group, _replace_group, _alter_group),
}


def _resource(kind: int) -> Resource:
    if kind not in RESOURCES:
        raise InvalidRequest(f"Resources of type {kind} have no settings here.")
    return RESOURCES[kind]
