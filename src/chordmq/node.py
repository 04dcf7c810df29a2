"""Builds the node from its configuration: what starts after what, and stops before what."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from chordmq.broker import extensions
from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher, exit_at_once
from chordmq.broker.measures import broker_measures, login_measures
from chordmq.broker.names import Names, read_rules
from chordmq.broker.payloads import Payloads
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.users import Users
from chordmq.broker.tracing import watch
from chordmq.clock import Clock
from chordmq.cluster.state import Endpoint
from chordmq.config import Config, knows_certificates
from chordmq.errors import BrokerIdTaken, CannotStart, ShuttingDown, sole_fault
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.connection import KafkaConnection
from chordmq.fronts.kafka.measures import kafka_measures
from chordmq.fronts.kafka.tracing import traced as traced_kafka
from chordmq.fronts.listener import Listener
from chordmq.fronts.lobby import Lobby
from chordmq.fronts.measures import listener_measures
from chordmq.fronts.mqtt.opening import MqttOpening
from chordmq.fronts.mqtt.settings import listeners as mqtt_listeners
from chordmq.fronts.obstacles import obstacle
from chordmq.fronts.opening import Connect, Opening
from chordmq.fronts.rpc.settings import RpcSettings
from chordmq.iot.opening import DevicesOpening
from chordmq.lag import LoopLag
from chordmq.loading import load_late
from chordmq.logs import get_logger
from chordmq.metrics import Metrics
from chordmq.storage.lock import DirectoryLock
from chordmq.storage.metadata.directory import boot_id, is_suspect, suspect, trust, uuid_of
from chordmq.version import VERSION

if TYPE_CHECKING:
    from chordmq.broker.clustering import Clustering
    from chordmq.topology.pipes import Pipes
    from chordmq.web import Web

HTTP_CLOSE_TIMEOUT_S = 1.0

FRONTS = {
    "framed": ("chordmq.fronts.framed.connection", "open_framed"),
    "provider": ("chordmq.fronts.provider.connection", "open_provider"),
    "capnp": ("chordmq.fronts.capnp.front", "open_capnp"),
    "grpc": ("chordmq.fronts.grpc.front", "open_grpc"),
    "amqp": ("chordmq.fronts.amqp_versions", "open_amqp_versions"),
}
"""What opens the fronts that have a listener and nothing else of the node's, by their settings."""

log = get_logger(__name__)


@asynccontextmanager
async def running(config: Config, clock: Clock) -> AsyncIterator["Node"]:
    """Run a node for the length of a block: ready when it begins, closed when it ends."""
    node = Node(config, clock)
    try:
        async with AsyncExitStack() as stack:
            await node.start(stack)
            yield node
    except ExceptionGroup as failures:
        raise sole_fault(failures) from None


class Node:
    """One broker with its listeners.

    HTTP opens first and closes last, so that it can say why the node does not serve clients.
    """

    def __init__(self, config: Config, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.kafka = Listener(config.kafka, clock, "kafka")
        self.http = Listener(config.http, clock, "http")
        self.peer = Listener(config.peer, clock, "peer")
        self.fronts = {name: Listener(getattr(config, name), clock, name) for name in FRONTS}
        self.fronts |= {
            name: Listener(settings, clock, name)
            for name, settings in mqtt_listeners(config.mqtt).items()
        }
        self.mqtt: MqttOpening | None = None
        self.names = Names(read_rules(config.names.rules))
        self.web: Web | None = None
        self.metrics = Metrics()
        self.tracing = config.tracing.open()
        self.broker: Broker
        self.devices: DevicesOpening | None = None
        self.extensions = extensions.Extensions()
        self.authenticator: Authenticator | None = None
        self._tasks: asyncio.TaskGroup
        self.pipes: Pipes | None = None
        self._stands_in_the_way = "the node is starting"
        self._started_ms = clock.now_ms()

    async def start(self, stack: AsyncExitStack) -> None:
        """Open every part; the stack closes them in the reverse order."""
        stack.callback(DirectoryLock(self.config.data_dir).release)
        self._tasks = await stack.enter_async_context(asyncio.TaskGroup())
        await self._open_http(stack)
        self._load_extensions()
        await self._open_broker(stack)
        self._open_authenticator(stack)
        await self._open_audit(stack)
        await self._open_permissions()
        await self._open_kafka(stack)
        self._open_queues(stack)
        for name in FRONTS:
            await self._open_front(name, stack)
        await self._open_mqtt(stack)
        self._open_devices(stack)
        self._follow_changes(stack)
        await self._open_fronts(stack)
        await self._appear(stack)
        self._open_apps(stack)
        self._open_pipes(stack)
        self._stands_in_the_way = ""
        stack.callback(self._begin_to_stop)

    def _open_apps(self, stack: AsyncExitStack) -> None:
        """Run the applications that are named; they stop while clients are still served."""
        if not self.config.apps.names:
            return
        from chordmq.client.hosting import Hosting

        host, port = self.kafka.advertised
        hosting = Hosting(self.config.apps, f"{host}:{port}", self.tracing)
        task = self._tasks.create_task(hosting.run())

        async def end() -> None:
            hosting.stop()
            await asyncio.wait([task], timeout=self.config.shutdown_timeout_s)
            task.cancel()

        stack.push_async_callback(end)

    def _open_pipes(self, stack: AsyncExitStack) -> None:
        """Copy from other nodes, where this one has a place in a tree of nodes."""
        if not self.config.pipes.is_on:
            return
        from chordmq.topology.pipes import Pipes

        host, port = self.http.advertised
        scheme = "https" if self.config.http.tls.is_on else "http"
        address = f"{scheme}://{host}:{port}"
        self.pipes = pipes = Pipes(self.config.pipes, self.broker, self.config.data_dir, address)
        if self.web is not None:
            self.web.shared.pipes = pipes
        self.metrics.add(pipes.measures)
        self._run(pipes.run(), stack)

    def waiting(self) -> list[str]:
        """Return why clients cannot be served; nothing when they can."""
        return [self._stands_in_the_way] if self._stands_in_the_way else []

    def info(self) -> dict[str, Any]:
        """Return who this node is, where it listens and what it holds."""
        host, port = self.kafka.advertised
        about = {
            "version": VERSION,
            "data_dir": str(self.config.data_dir.resolve()),
            "kafka": f"{host}:{port}",
            "http": f"{self.config.http.host}:{self.http.port}",
            **{name: f"{one.settings.host}:{one.port}" for name, one in self.fronts.items()},
            "uptime_ms": self.clock.now_ms() - self._started_ms,
        }
        if self.waiting():
            return about
        return about | {
            "cluster_id": self.broker.cluster_id,
            "node_id": self.broker.node_id,
            "topics": len(self.broker.topics),
            "partitions": sum(len(topic.partitions) for topic in self.broker.topics),
        }

    def serving_broker(self) -> Broker:
        """Return the broker, or raise ShuttingDown with the reason why clients are not served."""
        if self._stands_in_the_way:
            raise ShuttingDown(self._stands_in_the_way)
        return self.broker

    async def reload(self) -> None:
        """Read the files again that may change while the node runs: its certificates."""
        await self.kafka.reload_certificates()
        await self.http.reload_certificates()
        for listener in self.fronts.values():
            await listener.reload_certificates()

    async def _open_http(self, stack: AsyncExitStack) -> None:
        lag = LoopLag(self.clock)
        self._run(lag.run(), stack)
        self.metrics.add(lag.measures)
        peers = [self.peer] if self.config.cluster.is_on else []
        listeners = [self.kafka, self.http, *self.fronts.values(), *peers]
        self.metrics.add(lambda: listener_measures(listeners))
        has_http3 = bool(self.config.http.http3_port)
        await self._listen_late(self.http, self._open_web, at_once=has_http3)
        stack.push_async_callback(self.http.close, HTTP_CLOSE_TIMEOUT_S)
        if has_http3:
            assert self.web is not None
            http3 = self.web.http3()
            self._tasks.create_task(http3.run())
            stack.callback(http3.close)

    async def _open_web(self) -> Connect:
        await load_late("chordmq.web")
        from chordmq.web import Web

        self.web = Web(self)
        if self.devices is not None:
            await self.devices.opened()
        return self.web.connect

    async def _open_broker(self, stack: AsyncExitStack) -> None:
        self._stands_in_the_way = "the logs are being recovered"
        config = self.config
        # In a thread, so that HTTP can answer while a long log is read.
        clustering = await self._join(stack) if config.cluster.is_on else None
        flusher = Flusher() if clustering is None else Flusher(self._flush_failed)
        self.broker = await asyncio.to_thread(
            Broker, config.data_dir, config.broker, self.clock, flusher, config.acl, clustering
        )
        self.broker.routing.follow(self.names)
        if config.encryption.keys:
            self.broker.shared.payloads = Payloads(config.encryption, self.clock)
        if self.extensions.interceptors:
            from chordmq.broker.interceptors import Interceptors

            intercept = Interceptors(self.extensions.interceptors)
            self.broker.shared.intercept = intercept.publish
            self.broker.shared.deliver = intercept.deliver
        if self.tracing is not None:
            watch(self.broker, self.tracing)
            self.metrics.add(self.tracing.measures)
            stack.push_async_callback(self.tracing.close)
        # On the event loop, which owns the logs; nobody is left to be kept waiting.
        stack.callback(self.broker.close)
        self.metrics.add(lambda: broker_measures(self.broker))
        if clustering is not None:
            await self._open_peer(clustering, stack)
        self._stands_in_the_way = "the groups are being loaded"
        self._run(self.broker.run(), stack)
        await self.broker.groups.loaded.wait()
        await self.broker.cursors.loaded.wait()

    async def _join(self, stack: AsyncExitStack) -> "Clustering":
        """Register with the cluster, before anything of this node's data is used."""
        from chordmq.broker.clustering import Seat, join

        config, settings = self.config, self.config.cluster
        self._stands_in_the_way = "the cluster's store is asked"
        listeners = {"kafka": self.kafka, "http": self.http, "peer": self.peer}
        endpoints = {name: _endpoint(listener) for name, listener in listeners.items()}
        if not all(endpoint.port for endpoint in endpoints.values()):
            raise CannotStart("In a cluster, kafka.port, http.port and peer.port must be given.")
        seat = Seat(
            uuid=await asyncio.to_thread(uuid_of, config.data_dir),
            boot=boot_id(),
            is_suspect=is_suspect(config.data_dir),
            endpoints=endpoints,
            guard=config.peer.context,
        )
        store = settings.open()
        stack.push_async_callback(store.close)
        try:
            clustering = await join(store, seat, config.broker, settings, self.clock)
        except BrokerIdTaken as error:
            raise CannotStart(f"This node cannot join its cluster: {error}.") from None
        trust(config.data_dir)
        stack.push_async_callback(clustering.registration.end)
        self._stands_in_the_way = "the logs are being recovered"
        return clustering

    def _flush_failed(self, error: BaseException) -> None:
        suspect(self.config.data_dir)
        exit_at_once(error)

    async def _open_peer(self, clustering: "Clustering", stack: AsyncExitStack) -> None:
        from chordmq.fronts.peer.connection import PeerConnection

        assert self.web is not None  # for in a cluster no front is opened late
        clustering.carry(self.web.shared.deputy)
        self._run(clustering.run(), stack)
        self.metrics.add(clustering.measures)
        await self._listen(
            self.peer, lambda: PeerConnection(clustering.links, self.peer, self.config.peer)
        )
        stack.push_async_callback(self.peer.close, 0)

    async def _appear(self, stack: AsyncExitStack) -> None:
        """Count as living from when clients can be served until they no longer can."""
        clustering = self.broker.clustering
        if clustering is None:
            return
        self._stands_in_the_way = "the cluster is asked to count this node in"
        await clustering.registration.appear()
        self._run(clustering.stay(), stack)
        stack.push_async_callback(clustering.registration.leave)

    def _open_authenticator(self, stack: AsyncExitStack) -> None:
        authenticator = Authenticator(
            self.config.auth,
            Users(self.broker.image, self.clock),
            self.clock,
            knows_certificates=knows_certificates(self.config),
        )
        stack.callback(authenticator.close)
        self.metrics.add(lambda: login_measures(authenticator))
        authenticator.backends += self.extensions.authentication.values()
        self.authenticator = authenticator

    def _load_extensions(self) -> None:
        names = [name.strip() for name in self.config.extensions.split(",")]
        self.extensions = extensions.load([*filter(None, names)], self.config.extension)

    async def _open_fronts(self, stack: AsyncExitStack) -> None:
        for name, front in self.extensions.fronts.items():
            try:
                await front.open(self.broker)
            except Exception as error:  # whatever a foreign package does wrong is its own fault
                raise CannotStart(f"Extension {name!r} cannot serve: {error}") from error
            stack.push_async_callback(front.close)

    async def _open_audit(self, stack: AsyncExitStack) -> None:
        """Write the audit trail from now until after the last client has gone."""
        assert self.authenticator is not None
        audit, enabled = self.broker.audit, self.config.audit.enabled
        if enabled == "off" or (enabled == "auto" and not self.authenticator.is_on):
            return
        await audit.open(self.config.audit)
        writing = self._tasks.create_task(audit.run())

        async def end() -> None:
            audit.record_own("node.stop", f"node {self.broker.node_id}")
            audit.close()
            await asyncio.wait([writing])

        stack.push_async_callback(end)
        audit.record_own("node.start", f"node {self.broker.node_id}, version {VERSION}")
        self.authenticator.watchers.append(audit.login)
        self.broker.permissions.watchers.append(audit.permission)
        self.broker.permissions.acl.on_denied = audit.denied

    async def _open_permissions(self) -> None:
        permissions = self.broker.permissions
        assert self.authenticator is not None
        permissions.is_enforced = self.authenticator.is_on
        for listener in (self.kafka, self.http, *self.fronts.values()):
            listener.connection_wait_s = self._connection_wait_s
        permissions.acl.is_super = self.authenticator.is_super
        await permissions.load_file()

    def _connection_wait_s(self, address: str) -> float:
        quotas = self.broker.permissions.quotas
        return quotas.connection_wait_s(address, self.clock.monotonic_s())

    async def _open_kafka(self, stack: AsyncExitStack) -> None:
        self._stands_in_the_way = "the listeners are closed"
        answer = traced_kafka(self.tracing, self.clock)
        front = KafkaFront(self.broker, self.kafka, self.authenticator, answer=answer)
        self.metrics.add(lambda: kafka_measures(front))
        await self._listen(self.kafka, lambda: KafkaConnection(front))
        stack.push_async_callback(self.kafka.close, self.config.shutdown_timeout_s)

    def _open_queues(self, stack: AsyncExitStack) -> None:
        """Look after queues, also while nobody comes to them."""
        self.broker.serve_queues(self.names, self.config.amqp.vhosts)
        stack.push_async_callback(self.broker.settle_queues)

    async def _open_front(self, name: str, stack: AsyncExitStack) -> None:
        listener = self.fronts[name]
        if isinstance(listener.settings, RpcSettings) and not listener.settings.is_wanted(name):
            del self.fronts[name]
            return
        late = await stack.enter_async_context(AsyncExitStack())
        opening = Opening(
            self.broker, listener, self.authenticator, self.metrics, self.names, closing=late
        )

        async def open_front() -> Connect:
            module, function = FRONTS[name]
            loaded = await load_late(module)
            connect: Connect = getattr(loaded, function)(opening)
            return connect

        await self._listen_late(listener, open_front, name == "amqp" and self.broker.has_queues)
        stack.push_async_callback(listener.close, self.config.shutdown_timeout_s)

    async def _open_mqtt(self, stack: AsyncExitStack) -> None:
        """Serve MQTT with and without TLS; sessions are read before the first client comes."""
        broker, settings = self.broker, self.config.mqtt
        await broker.sessions.loaded.wait()
        await broker.retained.loaded.wait()
        self.mqtt = MqttOpening(
            broker, settings, self.names, self.authenticator, self.metrics, self._tasks
        )
        stack.push_async_callback(self.mqtt.close)
        has_messages = len(broker.retained.tree) > 0 or any(broker.cursors.groups())
        at_once = has_messages or broker.sessions.is_any_unclaimed
        for name in mqtt_listeners(settings):
            listener = self.fronts[name]
            await self._listen_late(listener, partial(self.mqtt.listen, listener), at_once)
            stack.push_async_callback(listener.close, self.config.shutdown_timeout_s)

    def _open_devices(self, stack: AsyncExitStack) -> None:
        """Look after devices for as long as their clients can reach the node."""
        retained_max = self.config.mqtt.retained_max
        self.devices = DevicesOpening(
            self.broker, self.config.iot, self.names, retained_max, self.metrics
        )
        if self.web is not None:
            self.devices.open()
        self._run(self.devices.run(), stack)

    def _follow_changes(self, stack: AsyncExitStack) -> None:
        """Tell WebSockets of changes; their clients leave before the broker does."""
        self.broker.topics.watchers.append(self._look_again)
        self.broker.permissions.listeners.append(self._look_again)
        stack.callback(self._part_from_websockets)

    def _look_again(self, *_: object) -> None:
        if self.web is not None:
            self.web.websocket.look_again()

    def _part_from_websockets(self) -> None:
        if self.web is not None:
            self.web.websocket.close()

    async def _listen_late(
        self,
        listener: Listener,
        open_front: Callable[[], Awaitable[Connect]],
        at_once: bool = False,
    ) -> None:
        """Listen; what serves clients is opened when the first one comes, or else at once."""
        connect = Lobby(listener, open_front).connect
        if at_once or self.config.cluster.is_on:
            connect = await open_front()
        await self._listen(listener, connect)

    async def _listen(self, listener: Listener, connect: Connect) -> None:
        self._tasks.create_task(listener.run())
        await asyncio.sleep(0)  # until it runs: a client may come as soon as there is a socket
        try:
            await listener.open(connect)
        except OSError as error:
            await listener.close(0)
            raise CannotStart(obstacle(listener, error)) from None

    def _run(self, work: Coroutine[None, None, None], stack: AsyncExitStack) -> None:
        """Run work in the background; it ends before the parts that it needs are closed."""
        task = self._tasks.create_task(work)

        async def end() -> None:
            task.cancel()
            await asyncio.wait([task])

        stack.push_async_callback(end)

    def _begin_to_stop(self) -> None:
        self._stands_in_the_way = "the node is shutting down"
        log.info("shutting down", connections=len(self.kafka.connections))


def _endpoint(listener: Listener) -> Endpoint:
    host, port = listener.advertised
    return Endpoint(host=host, port=port, tls=listener.settings.tls.is_on)
