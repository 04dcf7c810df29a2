"""One YAML file, the environment and the command line, read into the settings of each part.

Every setting has one dotted name, `kafka.port`; those under `broker.` are Kafka's own names. The
strongest source wins: `--set kafka.port=19092`, then the environment (`CHORDMQ_KAFKA_PORT`), then
the file, where `${NAME:default}` stands for a variable of the environment, then the default.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from chordmq.broker.audit.auditor import AuditSettings
from chordmq.broker.names import NamesSettings, read_rules
from chordmq.broker.payloads import EncryptionSettings
from chordmq.broker.security.auth_settings import AuthSettings
from chordmq.broker.security.permissions import AclSettings
from chordmq.broker.settings import BrokerSettings, broker_settings, topic_names
from chordmq.client.hosting_settings import AppsSettings
from chordmq.cluster.settings import ClusterSettings
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting
from chordmq.fronts.admin.settings import HttpSettings
from chordmq.fronts.amqp.settings import AmqpSettings
from chordmq.fronts.certificates import TlsSettings
from chordmq.fronts.framed.settings import FramedSettings
from chordmq.fronts.listener import ListenerSettings
from chordmq.fronts.mqtt.rules import read_rules as read_mqtt_rules
from chordmq.fronts.mqtt.settings import MqttSettings
from chordmq.fronts.peer.settings import PeerSettings
from chordmq.fronts.provider.settings import ProviderSettings
from chordmq.fronts.rpc.settings import CapnpSettings, GrpcSettings
from chordmq.fronts.websocket.settings import WebSocketSettings
from chordmq.iot.settings import IotSettings
from chordmq.logs import ROOT, LogsSettings, check_level
from chordmq.topology.settings import PipesSettings
from chordmq.tracing.settings import TracingSettings

if TYPE_CHECKING:
    import yaml
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)

ENVIRONMENT_PREFIX = "CHORDMQ_"
ENVIRONMENT_ALIASES = {
    "HTTP_PORT": "http.port",
    "TCP_PORT": "framed.port",
    "DELIVERY_MODE": "framed.delivery_mode",
    "MAX_CONSUMERS": "framed.consumers_max",
    "CONSUMER_CHANNEL_BUFFER_SIZE": "framed.consumer_buffer_size",
}
LEVELS_PREFIX = "logs.levels."
EXTENSION_PREFIX = "extension."
HTTP_SETTINGS = (
    "host",
    "port",
    "connections_max",
    "connections_per_address_max",
    "idle_timeout_s",
    "partial_frame_timeout_s",
    "memory_max",
    "body_size_max",
    "batch_records_max",
    "streams_per_client_max",
    "http3_port",
    "pipeline",
    "demo",
)
"""What a listener can be told that means something to HTTP."""
PEERS_LACK = ("memory_max", "idle_timeout_s")
"""What a listener can be told that means nothing to links: nodes bound what they ask for, and ask
each other for signs of life."""
PORT_MAX = 65535
PLACEHOLDER = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}")

Texts = dict[str, str]
"""Settings as written, by their dotted names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that a node can be told."""

    data_dir: Path = Path("data")
    """Where the node keeps everything that it stores."""
    shutdown_timeout_s: float = 10.0
    """How long requests under way may take to finish when the node is told to stop."""
    insecure: bool = False
    """Listen beyond this machine although nobody has to authenticate."""
    extensions: str = ""
    """Extensions to load, with commas; those of installed packages can be named."""
    extension: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of extensions, by name: `extension.<name>.<setting>`."""
    kafka: ListenerSettings = field(default_factory=ListenerSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    framed: FramedSettings = field(default_factory=FramedSettings)
    provider: ProviderSettings = field(default_factory=ProviderSettings)
    mqtt: MqttSettings = field(default_factory=MqttSettings)
    capnp: CapnpSettings = field(default_factory=CapnpSettings)
    grpc: GrpcSettings = field(default_factory=GrpcSettings)
    amqp: AmqpSettings = field(default_factory=AmqpSettings)
    websocket: WebSocketSettings = field(default_factory=WebSocketSettings)
    peer: PeerSettings = field(default_factory=PeerSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    names: NamesSettings = field(default_factory=NamesSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    encryption: EncryptionSettings = field(default_factory=EncryptionSettings)
    acl: AclSettings = field(default_factory=AclSettings)
    apps: AppsSettings = field(default_factory=AppsSettings)
    pipes: PipesSettings = field(default_factory=PipesSettings)
    iot: IotSettings = field(default_factory=IotSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    logs: LogsSettings = field(default_factory=LogsSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)


def load(
    file: Path | None = None,
    *,
    environment: Mapping[str, str],
    assignments: Iterable[str] = (),
) -> Config:
    """Read the configuration; raise InvalidSetting with the setting's name for what is wrong."""
    texts = {
        **(from_file(file, environment) if file else {}),
        **from_environment(environment),
        **from_assignments(assignments),
    }
    for name in texts:
        if name not in known() and not name.startswith((LEVELS_PREFIX, EXTENSION_PREFIX)):
            raise unknown(name)
    config = build(texts)
    refuse_exposure(config)
    return config


def from_file(file: Path, environment: Mapping[str, str]) -> Texts:
    """Return the settings of a YAML file, with its placeholders filled in."""
    # Most starts need no file, and the parser takes a while to load.
    import yaml

    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        leaves = list(flatten(root)) if root else []
    except OSError as error:
        raise InvalidSetting(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSetting(f"{file} is not YAML: {error}") from None
    texts: Texts = {}
    for name, text in leaves:
        if name in texts:
            raise InvalidSetting(f"{file}: {name} stands there twice")
        texts[name] = fill(name, text, environment)
    return texts


def flatten(node: "yaml.Node", name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of a YAML tree as dotted names and texts; an empty one says nothing."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from flatten(value, f"{name}.{key.value}" if name else str(key.value))
    elif not name:
        raise InvalidSetting("the file must hold settings by name, such as `kafka: {port: 9092}`")
    elif isinstance(node, yaml.SequenceNode):
        yield name, ",".join(str(item.value) for item in node.value)
    elif not node.tag.endswith(":null"):
        yield name, node.value


def fill(name: str, text: str, environment: Mapping[str, str]) -> str:
    """Replace `${NAME:default}` by the variable or its default; `$${` stands for `${`."""

    def value(found: re.Match[str]) -> str:
        escape, variable, default = found.groups()
        if escape:
            return found.group()[1:]
        if variable in environment:
            return environment[variable]
        if default is None:
            raise InvalidSetting(
                f"{name}: the environment has no {variable}, and no default is given"
            )
        return str(default)

    return PLACEHOLDER.sub(value, text)


def from_environment(environment: Mapping[str, str]) -> Texts:
    """Return the settings that the environment holds.

    Other variables with our prefix are let be: Kubernetes puts some into every container.
    """
    ours = (ENVIRONMENT_PREFIX, *ENVIRONMENT_ALIASES)
    given = {key: text for key, text in environment.items() if key.startswith(ours)}
    names = {variable(name): name for name in known()} | ENVIRONMENT_ALIASES if given else {}
    return {name: given[key] for key, name in reversed(names.items()) if key in given}


def from_assignments(assignments: Iterable[str]) -> Texts:
    """Return the settings written as `name=value`."""
    texts = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InvalidSetting(f"{assignment!r} is not of the form name=value")
        texts[name.strip()] = text.strip()
    return texts


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


@cache
def known() -> tuple[str, ...]:
    """Return the name of every setting, except the levels of single modules."""
    names = [*_plain(Config)]
    for front, kind in _fronts().items():
        names += (f"{front}.{name}" for name in _named(kind))
    names += (f"http.{name}" for name in HTTP_SETTINGS)
    names += (f"http.tls.{name}" for name in _plain(TlsSettings))
    names += (f"websocket.{name}" for name in _plain(WebSocketSettings))
    names += (f"peer.{name}" for name in _named(PeerSettings) if name not in PEERS_LACK)
    names += (f"cluster.{name}" for name in _plain(ClusterSettings))
    names += (f"names.{name}" for name in _plain(NamesSettings))
    names += (f"auth.{name}" for name in _named(AuthSettings))
    names += (f"audit.{name}" for name in _plain(AuditSettings))
    names += (f"encryption.{name}" for name in _plain(EncryptionSettings))
    names += (f"acl.{name}" for name in _plain(AclSettings))
    names += (f"apps.{name}" for name in _plain(AppsSettings))
    names += (f"pipes.{name}" for name in _plain(PipesSettings))
    names += (f"iot.{name}" for name in _plain(IotSettings))
    names += (f"logs.{name}" for name in _plain(LogsSettings))
    names += (f"tracing.{name}" for name in _plain(TracingSettings))
    names += (f"broker.{name}" for name in (*broker_settings(), *topic_names()))
    return tuple(names)


def unknown(name: str) -> InvalidSetting:
    """Return the error for a name that is not a setting, with the nearest one that is."""
    import difflib

    nearest = difflib.get_close_matches(name, known(), n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return InvalidSetting(f"no setting is called {name!r}{hint}")


def build(texts: Texts) -> Config:
    """Build the settings of every part from their texts."""
    defaults = Config()
    logs = dataclasses.replace(
        _changed(defaults.logs, "logs.", texts), levels=_below(LEVELS_PREFIX, texts)
    )
    for module, level in {ROOT: logs.level, **logs.levels}.items():
        check_level(module, level)
    config = dataclasses.replace(
        _changed(defaults, "", texts),
        **{name: _changed(getattr(defaults, name), f"{name}.", texts) for name in _fronts()},
        http=_changed(defaults.http, "http.", texts),
        websocket=_changed(defaults.websocket, "websocket.", texts),
        peer=_changed(defaults.peer, "peer.", texts),
        cluster=_changed(defaults.cluster, "cluster.", texts),
        names=_changed(defaults.names, "names.", texts),
        auth=_changed(defaults.auth, "auth.", texts),
        audit=_changed(defaults.audit, "audit.", texts),
        encryption=_changed(defaults.encryption, "encryption.", texts),
        extension=extension_settings(texts),
        acl=_changed(defaults.acl, "acl.", texts),
        apps=_changed(defaults.apps, "apps.", texts),
        pipes=_changed(defaults.pipes, "pipes.", texts),
        iot=_changed(defaults.iot, "iot.", texts),
        tracing=_changed(defaults.tracing, "tracing.", texts),
        broker=BrokerSettings.from_texts(_below("broker.", texts)),
        logs=logs,
    )
    for name, settings in listeners(config).items():
        settings.tls.check(f"{name}.tls")
    config.peer.check()
    config.cluster.check()
    read_rules(config.names.rules)
    read_mqtt_rules(config.mqtt.acl)
    config.auth.check()
    config.audit.check()
    config.pipes.check()
    config.tracing.check()
    _ = config.encryption.patterns
    return config


def extension_settings(texts: Texts) -> dict[str, dict[str, str]]:
    """Return the settings of each extension; the last part of a name is the setting."""
    found: dict[str, dict[str, str]] = {}
    for name, text in _below(EXTENSION_PREFIX, texts).items():
        extension, dot, setting = name.rpartition(".")
        if not dot:
            raise InvalidSetting(f"{EXTENSION_PREFIX}{name} names no setting of an extension")
        found.setdefault(extension, {})[setting] = text
    return found


def refuse_exposure(config: Config) -> None:
    """Refuse to listen beyond this machine where nobody has to authenticate."""
    for part, settings in listeners(config).items():
        if config.insecure or is_loopback(settings.host) or demands_login(config, settings):
            continue
        raise InvalidSetting(
            f"{part}.host {settings.host!r} can be reached from other machines, and nobody has "
            "to authenticate; listen on 127.0.0.1, have clients log in with "
            "auth.mechanisms=SCRAM-SHA-512, or accept the risk with --insecure"
        )
    if not (config.insecure or is_loopback(config.peer.host) or config.peer.tls.is_on):
        raise InvalidSetting(
            f"peer.host {config.peer.host!r} can be reached from other machines, and nodes do not "
            "prove who they are; give them certificates with peer.tls.certificate and "
            "peer.tls.client_ca, or accept the risk with --insecure"
        )


def demands_login(config: Config, settings: ListenerSettings) -> bool:
    """Say whether a listener's clients must prove who they are."""
    is_demanded = config.auth.required and (bool(config.auth.offered) or knows_certificates(config))
    return is_demanded or settings.tls.client_auth == "required"


def knows_certificates(config: Config) -> bool:
    """Say whether a client's certificate can prove who it is."""
    return any(one.tls.client_auth != "none" for one in listeners(config).values())


def listeners(config: Config) -> dict[str, ListenerSettings]:
    """Return where clients come in, by front."""
    return {name: getattr(config, name) for name in (*_fronts(), "http")}


@cache
def _fronts() -> dict[str, type]:
    """Return the fronts whose settings are those of a listener and more; HTTP's are fewer."""
    return {
        name: kind
        for name, kind in _kinds(Config)
        if isinstance(kind, type)
        and issubclass(kind, ListenerSettings)
        and kind not in (HttpSettings, PeerSettings)
    }


def is_loopback(host: str) -> bool:
    """Say whether only programs on this machine can reach the address."""
    if host in ("127.0.0.1", "localhost"):
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read(name: str, kind: Any, text: str) -> Any:
    """Return the value that a setting's text means for a field of this type."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if text not in choices:
            raise InvalidSetting(f"{name}: {text!r} is none of {', '.join(choices)}")
        return text
    reader, expected = READERS[kind]
    try:
        value = reader(text)
    except ValueError:
        raise InvalidSetting(f"{name}: {text!r} is not {expected}") from None
    limit = PORT_MAX if name.endswith("port") else math.inf
    if isinstance(value, int | float) and not 0 <= value <= limit:
        raise InvalidSetting(f"{name}: {text} is out of range")
    return value


def read_truth(text: str) -> bool:
    """Return the truth value of a word."""
    words = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}
    try:
        return words[text.lower()]
    except KeyError:
        raise ValueError(text) from None


READERS: dict[type, tuple[Callable[[str], Any], str]] = {
    bool: (read_truth, "true or false"),
    int: (int, "a whole number"),
    float: (float, "a number"),
    str: (str, "a text"),
    Path: (Path, "a path"),
}


def _changed(defaults: "Settings", prefix: str, texts: Texts) -> "Settings":
    values = {
        name: read(prefix + name, kind, texts[prefix + name])
        for name, kind in _plain(type(defaults)).items()
        if prefix + name in texts
    }
    for name in _groups(type(defaults)):
        group = getattr(defaults, name)
        if (changed := _changed(group, f"{prefix}{name}.", texts)) is not group:
            values[name] = changed
    return dataclasses.replace(defaults, **values) if values else defaults


def _named(settings: type) -> Iterator[str]:
    """Yield the names of the fields that one text can set, those of groups with the group's."""
    yield from _plain(settings)
    for group, kind in _groups(settings).items():
        yield from (f"{group}.{name}" for name in _plain(kind))


@cache
def _groups(settings: type) -> dict[str, type]:
    """Return the fields that hold settings of their own; those of the node are read one by one."""
    if settings is Config:
        return {}
    return {
        name: kind
        for name, kind in _kinds(settings)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    }


@cache
def _plain(settings: type) -> dict[str, Any]:
    """Return the fields that one text can set, with their types."""
    return {
        name: kind
        for name, kind in _kinds(settings)
        if kind in READERS or get_origin(kind) is Literal
    }


def _kinds(settings: type) -> Iterator[tuple[str, Any]]:
    """Yield the fields and their types; no settings name a type before it is there."""
    return ((one.name, one.type) for one in dataclasses.fields(settings))


def _below(prefix: str, texts: Texts) -> Texts:
    return {name[len(prefix) :]: text for name, text in texts.items() if name.startswith(prefix)}
