"""Our errors as the codes of the Kafka protocol."""

from chordmq import errors
from chordmq.errors import ChordMQError

UNKNOWN_SERVER_ERROR = -1
NONE = 0
UNSUPPORTED_VERSION = 35
NOT_ENOUGH_REPLICAS = 19
OPERATION_NOT_ATTEMPTED = 55
TRANSACTION_ABORTABLE = 120
REASON_LENGTH_MAX = 500

CODES: dict[type[ChordMQError], int] = {
    errors.OffsetOutOfRange: 1,
    errors.CorruptBatch: 2,
    errors.UnknownTopic: 3,
    errors.NotLeader: 6,
    errors.NotCommittedInTime: 7,
    errors.StoreUnavailable: 7,
    errors.UnknownOutcome: 7,
    errors.ConcurrentChange: 7,
    errors.BatchTooLarge: 10,
    errors.OffsetMetadataTooLarge: 12,
    errors.CoordinatorLoading: 14,
    errors.CoordinatorNotAvailable: 15,
    errors.NotCoordinator: 16,
    errors.InvalidTopicName: 17,
    errors.NotEnoughReplicas: NOT_ENOUGH_REPLICAS,
    errors.NotEnoughReplicasAfterAppend: 20,
    errors.InvalidAcks: 21,
    errors.IllegalGeneration: 22,
    errors.InconsistentProtocol: 23,
    errors.InvalidGroupId: 24,
    errors.UnknownMember: 25,
    errors.InvalidSessionTimeout: 26,
    errors.RebalanceInProgress: 27,
    errors.ClusterAccessDenied: 31,
    errors.TopicAccessDenied: 29,
    errors.GroupAccessDenied: 30,
    errors.InvalidTimestamp: 32,
    errors.UnsupportedSaslMechanism: 33,
    errors.IllegalSaslState: 34,
    errors.UnsupportedVersion: UNSUPPORTED_VERSION,
    errors.TopicExists: 36,
    errors.InvalidPartitionCount: 37,
    errors.InvalidReplicationFactor: 38,
    errors.InvalidReplicaAssignment: 39,
    errors.InvalidSetting: 40,
    errors.InvalidRequest: 42,
    errors.UnsupportedFormat: 43,
    errors.PolicyViolation: 44,
    errors.OutOfOrderSequence: 45,
    errors.DuplicateSequence: 46,
    errors.StaleProducerEpoch: 47,
    errors.InvalidTransactionState: 48,
    errors.ProducerIdMismatch: 49,
    errors.InvalidTransactionTimeout: 50,
    errors.ConcurrentTransactions: 51,
    errors.CoordinatorFenced: 52,
    errors.TransactionalIdAccessDenied: 53,
    errors.DiskFull: 56,
    errors.StorageFailed: 56,
    errors.AuthenticationFailed: 58,
    errors.UnknownProducer: 59,
    errors.GroupNotEmpty: 68,
    errors.GroupNotFound: 69,
    errors.UnknownQueue: 69,
    errors.UnknownExchange: 69,
    errors.QueueLocked: 42,
    errors.DeclaredOtherwise: 42,
    errors.TopicDeletionDisabled: 73,
    errors.FencedLeaderEpoch: 74,
    errors.UnknownLeaderEpoch: 75,
    errors.UnsupportedCompression: 76,
    errors.OffsetNotAvailable: 78,
    errors.MemberIdRequired: 79,
    errors.GroupFull: 81,
    errors.PreferredLeaderNotAvailable: 80,
    errors.EligibleLeadersNotAvailable: 83,
    errors.FencedInstance: 82,
    errors.ElectionNotNeeded: 84,
    errors.NoReassignment: 85,
    errors.GroupSubscribed: 86,
    errors.InvalidRecord: 87,
    errors.UnstableOffset: 88,
    errors.MutationQuotaExceeded: 89,
    errors.QuotaExceeded: 89,
    errors.InvalidEnvelope: 87,
    errors.UnknownDevice: 69,
    errors.InvalidShadow: 87,
    errors.ShadowTooLarge: 10,
    errors.StaleVersion: 42,
    errors.UnknownCommand: 69,
    errors.CommandExists: 42,
    errors.CommandEnded: 42,
    errors.CommandQueueFull: 89,
    errors.ProducerFenced: 90,
    errors.BrokerIdTaken: 101,
    errors.UnknownBroker: 102,
    errors.BrokerIsLive: 42,
    errors.UnknownRole: 91,
    errors.UnknownUser: 91,
    errors.UnknownToken: 91,
    errors.UserExists: 92,
    errors.UnacceptableCredential: 93,
    errors.UnknownTopicId: 100,
    errors.TransactionalIdNotFound: 105,
    errors.InvalidPattern: 128,
    errors.FencedMemberEpoch: 110,
    errors.UnreleasedInstance: 111,
    errors.UnsupportedAssignor: 112,
    errors.StaleMemberEpoch: 113,
    errors.InvalidRecordState: 121,
    errors.ShareSessionNotFound: 122,
    errors.InvalidShareSessionEpoch: 123,
    errors.ShareSessionLimitReached: 133,
    errors.ShuttingDown: 15,
}


def code_of(error: ChordMQError) -> int:
    """Return the protocol's code for the error."""
    return CODES.get(type(error), UNKNOWN_SERVER_ERROR)


def reason_of(error: ChordMQError) -> str:
    """Return what the client is told; old versions have no room for a text of its own length."""
    return str(error)[:REASON_LENGTH_MAX]
