"""The table of Kafka APIs that have a codec; scripts/generate_messages.py writes it."""

from typing import NamedTuple


class Api(NamedTuple):
    """One API: its name, the module with its messages, and its versions."""

    name: str
    module: str
    versions: range
    flexible_since: int | None


APIS: dict[int, Api] = {
    0: Api("Produce", "produce", range(3, 14), 9),
    1: Api("Fetch", "fetch", range(4, 19), 12),
    2: Api("ListOffsets", "list_offsets", range(1, 12), 6),
    3: Api("Metadata", "metadata", range(14), 9),
    8: Api("OffsetCommit", "offset_commit", range(2, 11), 8),
    9: Api("OffsetFetch", "offset_fetch", range(1, 11), 6),
    10: Api("FindCoordinator", "find_coordinator", range(7), 3),
    11: Api("JoinGroup", "join_group", range(10), 6),
    12: Api("Heartbeat", "heartbeat", range(5), 4),
    13: Api("LeaveGroup", "leave_group", range(6), 4),
    14: Api("SyncGroup", "sync_group", range(6), 4),
    15: Api("DescribeGroups", "describe_groups", range(7), 5),
    16: Api("ListGroups", "list_groups", range(6), 3),
    17: Api("SaslHandshake", "sasl_handshake", range(2), None),
    18: Api("ApiVersions", "api_versions", range(5), 3),
    19: Api("CreateTopics", "create_topics", range(2, 8), 5),
    20: Api("DeleteTopics", "delete_topics", range(1, 7), 4),
    21: Api("DeleteRecords", "delete_records", range(3), 2),
    22: Api("InitProducerId", "init_producer_id", range(6), 2),
    23: Api("OffsetForLeaderEpoch", "offset_for_leader_epoch", range(2, 5), 4),
    24: Api("AddPartitionsToTxn", "add_partitions_to_txn", range(6), 3),
    25: Api("AddOffsetsToTxn", "add_offsets_to_txn", range(5), 3),
    26: Api("EndTxn", "end_txn", range(6), 3),
    27: Api("WriteTxnMarkers", "write_txn_markers", range(1, 3), 1),
    28: Api("TxnOffsetCommit", "txn_offset_commit", range(6), 3),
    29: Api("DescribeAcls", "describe_acls", range(1, 4), 2),
    30: Api("CreateAcls", "create_acls", range(1, 4), 2),
    31: Api("DeleteAcls", "delete_acls", range(1, 4), 2),
    32: Api("DescribeConfigs", "describe_configs", range(1, 5), 4),
    33: Api("AlterConfigs", "alter_configs", range(3), 2),
    35: Api("DescribeLogDirs", "describe_log_dirs", range(1, 6), 2),
    36: Api("SaslAuthenticate", "sasl_authenticate", range(3), 2),
    37: Api("CreatePartitions", "create_partitions", range(4), 2),
    42: Api("DeleteGroups", "delete_groups", range(3), 2),
    43: Api("ElectLeaders", "elect_leaders", range(3), 2),
    44: Api("IncrementalAlterConfigs", "incremental_alter_configs", range(2), 1),
    45: Api("AlterPartitionReassignments", "alter_partition_reassignments", range(2), 0),
    46: Api("ListPartitionReassignments", "list_partition_reassignments", range(1), 0),
    47: Api("OffsetDelete", "offset_delete", range(1), None),
    48: Api("DescribeClientQuotas", "describe_client_quotas", range(2), 1),
    49: Api("AlterClientQuotas", "alter_client_quotas", range(2), 1),
    50: Api("DescribeUserScramCredentials", "describe_user_scram_credentials", range(1), 0),
    51: Api("AlterUserScramCredentials", "alter_user_scram_credentials", range(1), 0),
    55: Api("DescribeQuorum", "describe_quorum", range(3), 0),
    57: Api("UpdateFeatures", "update_features", range(3), 0),
    60: Api("DescribeCluster", "describe_cluster", range(3), 0),
    61: Api("DescribeProducers", "describe_producers", range(1), 0),
    64: Api("UnregisterBroker", "unregister_broker", range(1), 0),
    65: Api("DescribeTransactions", "describe_transactions", range(1), 0),
    66: Api("ListTransactions", "list_transactions", range(3), 0),
    68: Api("ConsumerGroupHeartbeat", "consumer_group_heartbeat", range(2), 0),
    69: Api("ConsumerGroupDescribe", "consumer_group_describe", range(2), 0),
    71: Api("GetTelemetrySubscriptions", "get_telemetry_subscriptions", range(1), 0),
    72: Api("PushTelemetry", "push_telemetry", range(1), 0),
    74: Api("ListConfigResources", "list_config_resources", range(2), 0),
    75: Api("DescribeTopicPartitions", "describe_topic_partitions", range(1), 0),
    76: Api("ShareGroupHeartbeat", "share_group_heartbeat", range(1, 2), 0),
    77: Api("ShareGroupDescribe", "share_group_describe", range(1, 2), 0),
    78: Api("ShareFetch", "share_fetch", range(1, 3), 0),
    79: Api("ShareAcknowledge", "share_acknowledge", range(1, 3), 0),
    90: Api("DescribeShareGroupOffsets", "describe_share_group_offsets", range(2), 0),
    91: Api("AlterShareGroupOffsets", "alter_share_group_offsets", range(1), 0),
    92: Api("DeleteShareGroupOffsets", "delete_share_group_offsets", range(1), 0),
}
