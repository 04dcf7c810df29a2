"""Writes the Grafana dashboards from short lists of panels, so that all of them look alike."""

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "deploy" / "grafana"
WIDTH, HEIGHT, COLUMNS = 8, 7, 24

Panel = tuple[str, str, str]
"""Title, unit, and the query."""

BOARDS: dict[str, tuple[str, list[Panel]]] = {
    "node": (
        "ChordMQ: nodes",
        [
            ("Records in", "cps", "sum by (instance) (rate(chordmq_records_in_total[1m]))"),
            ("Bytes in", "Bps", "sum by (instance) (rate(chordmq_bytes_in_total[1m]))"),
            ("Bytes out", "Bps", "sum by (instance) (rate(chordmq_bytes_out_total[1m]))"),
            ("Connections", "short", "chordmq_connections"),
            ("Processor", "percentunit", "rate(process_cpu_seconds_total[1m])"),
            ("Memory", "bytes", "process_resident_memory_bytes"),
            ("Event loop late by", "s", "chordmq_loop_lag_last_seconds"),
            ("Log on disk", "bytes", "chordmq_log_bytes"),
            ("Room on disk", "bytes", "chordmq_disk_free_bytes"),
            ("Flushes", "cps", "rate(chordmq_flushes_total[1m])"),
            ("Not flushed yet", "short", "chordmq_log_unflushed_records"),
            ("Logins", "cps", "sum by (mechanism, outcome) (rate(chordmq_logins_total[5m]))"),
        ],
    ),
    "kafka": (
        "ChordMQ: Kafka clients",
        [
            ("Requests", "cps", "rate(chordmq_kafka_requests_total[1m])"),
            ("Bytes in", "Bps", "rate(chordmq_kafka_bytes_in_total[1m])"),
            ("Bytes out", "Bps", "rate(chordmq_kafka_bytes_out_total[1m])"),
            (
                "Requests that ended a connection",
                "cps",
                "rate(chordmq_kafka_request_failures_total[5m])",
            ),
            ("Event loop's share", "percentunit", "rate(chordmq_kafka_busy_seconds_total[1m])"),
            ("Groups", "short", "chordmq_groups"),
            ("Lag of share groups", "short", "chordmq_cursor_lag"),
            ("In consumers' hands", "short", "chordmq_cursor_in_flight"),
        ],
    ),
    "iot": (
        "ChordMQ: devices and browsers",
        [
            ("MQTT clients", "short", "chordmq_mqtt_clients"),
            ("MQTT in", "cps", "rate(chordmq_mqtt_messages_in_total[1m])"),
            ("MQTT out", "cps", "rate(chordmq_mqtt_messages_out_total[1m])"),
            ("MQTT sessions", "short", "chordmq_mqtt_sessions"),
            ("Retained messages", "short", "chordmq_mqtt_retained"),
            ("WebSocket clients", "short", "chordmq_websocket_clients"),
            ("WebSocket out", "cps", "rate(chordmq_websocket_messages_out_total[1m])"),
            ("AMQP clients", "short", "chordmq_amqp_clients"),
            ("AMQP waiting in queues", "short", "chordmq_amqp_messages_ready"),
        ],
    ),
    "cluster": (
        "ChordMQ: cluster",
        [
            ("Nodes that live", "short", "chordmq_live_nodes"),
            ("Nodes that are registered", "short", "chordmq_ring_members"),
            ("Controller", "short", "chordmq_controller"),
            ("Elections", "cps", "rate(chordmq_elections_total[5m])"),
            ("Partitions without leader", "short", "chordmq_partitions_without_leader"),
            ("Partitions with copies behind", "short", "chordmq_under_replicated_partitions"),
            ("Partitions on the move", "short", "chordmq_moving_partitions"),
            ("Slowest copy behind by", "short", "chordmq_replica_lag_records"),
            ("Changes of in-sync sets", "cps", "rate(chordmq_in_sync_changes_total[5m])"),
            ("Links that are up", "short", "sum by (instance) (chordmq_link_up)"),
            ("Successors on the ring", "short", "chordmq_ring_successors"),
            ("Suspects on the ring", "short", "chordmq_ring_suspects"),
            (
                "Nodes asked for a look-up",
                "short",
                "rate(chordmq_ring_hops_total[5m]) / rate(chordmq_ring_lookups_total[5m])",
            ),
        ],
    ),
    "pipeline": (
        "ChordMQ: data pipeline",
        [
            ("Lag", "short", "chordmq_pipeline_lag_records"),
            ("Rows processed", "cps", "chordmq_pipeline_processed_rows_per_second"),
            ("Rows arriving", "cps", "chordmq_pipeline_input_rows_per_second"),
            ("Duration of a batch", "ms", "chordmq_pipeline_batch_duration_milliseconds"),
            ("Rows remembered", "short", "chordmq_pipeline_state_rows"),
            ("Failures", "short", "chordmq_pipeline_failures_total"),
        ],
    ),
}


def board(name: str, title: str, panels: list[Panel]) -> dict[str, Any]:
    """Return one dashboard as Grafana reads it."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "uid": f"chordmq-{name}",
        "title": title,
        "tags": ["chordmq"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [
            {
                "id": place + 1,
                "type": "timeseries",
                "title": text,
                "datasource": source,
                "gridPos": {
                    "x": place * WIDTH % COLUMNS,
                    "y": place * WIDTH // COLUMNS * HEIGHT,
                    "w": WIDTH,
                    "h": HEIGHT,
                },
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "targets": [{"refId": "A", "expr": query, "datasource": source}],
            }
            for place, (text, unit, query) in enumerate(panels)
        ],
    }


def texts() -> dict[Path, str]:
    """Return every file and what it should hold."""
    return {
        FOLDER / f"{name}.json": json.dumps(board(name, *rest), indent=2) + "\n"
        for name, rest in BOARDS.items()
    }


def main() -> int:
    """Write the files, or with --check say which of them are old."""
    old = [path for path, text in texts().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        print(*(f"{path.name} is old; run scripts/dashboards.py" for path in old), sep="\n")
        return bool(old)
    for path, text in texts().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
