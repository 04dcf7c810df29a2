"""Proves with paho that MQTT clients of different nodes meet, whoever leads what."""

import queue
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.cluster.running_cluster import CALM, RunningCluster, until
from tests.running_node import RunningNode

PATIENCE_S = 60


class MqttClient:
    """A client of one node that remembers what it got."""

    def __init__(self, node: RunningNode, name: str) -> None:
        self.got: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, name)
        self._client.on_message = lambda _, __, m: self.got.put((m.topic, bytes(m.payload)))
        self._client.connect(*node.mqtt_address)
        self._client.loop_start()
        until(self._client.is_connected)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        sent = self._client.publish(topic, payload, qos=1, retain=retain)
        sent.wait_for_publish(PATIENCE_S)
        assert sent.is_published()

    def find(self, wanted: str) -> set[tuple[str, bytes]]:
        """Subscribe (again), and return what is retained, or nothing if that is not here yet."""
        self._client.subscribe(wanted, qos=1)
        try:
            return {self.got.get(timeout=0.5)}
        except queue.Empty:
            return set()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def test_clients_of_different_nodes_publish_and_subscribe(tmp_path: Path) -> None:
    """A4: any node takes what is published, and tells its own subscribers of it."""
    with RunningCluster(tmp_path, settings=CALM) as cluster:
        clients = {n: MqttClient(node, f"client-{n}") for n, node in cluster.nodes.items()}
        try:
            clients[1].publish("plant/hall/1/state", b"on", retain=True)
            found = until(lambda: clients[2].find("plant/hall/#"))
            assert found == {("plant/hall/1/state", b"on")}
            for number, client in clients.items():
                client.publish(f"plant/hall/{number}/level", str(number).encode())
            levels = {(f"plant/hall/{n}/level", b"%d" % n) for n in clients}
            while levels:
                levels.discard(clients[2].got.get(timeout=PATIENCE_S))
        finally:
            for client in clients.values():
                client.close()
