"""The numbers of the service that looks after devices."""

from collections.abc import Iterator

from chordmq.iot.service import Devices
from chordmq.metrics import Metric, counter, gauge


def device_measures(service: Devices) -> Iterator[Metric]:
    """Yield what was read and done, and, where devices are looked after, how many there are."""
    yield counter("chordmq_iot_messages", "Messages of devices read.", service.messages)
    yield counter("chordmq_iot_steps", "Steps stored, each for many messages.", service.steps)
    yield counter("chordmq_iot_dead_letters", "Messages that made no sense.", service.dead_letters)
    desk = service.found
    if desk is None:
        return
    connected = sum(one.is_connected for one in desk.devices.values())
    yield gauge("chordmq_iot_devices", "Devices known.", len(desk.devices))
    yield gauge("chordmq_iot_devices_connected", "Devices connected.", connected)
    yield gauge("chordmq_iot_shadows", "Shadows kept.", len(desk.shadows))
    yield gauge("chordmq_iot_commands", "Commands kept.", sum(map(len, desk.commands.values())))
