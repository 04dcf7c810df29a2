"""Every error the broker can answer with, named by the fault and free of protocol codes."""


class DecodeError(Exception):
    """The peer sent bytes that do not follow the protocol; its connection is closed."""


class ChordMQError(Exception):
    """A request that the broker refuses; each front maps it to its own code."""


class UnknownTopic(ChordMQError):
    """No topic has this name, or it has no such partition."""


class UnknownTopicId(ChordMQError):
    """No topic has this id."""


class TopicExists(ChordMQError):
    """A topic with this name is there already."""


class TopicDeletionDisabled(ChordMQError):
    """The node's settings forbid deleting topics."""


class ConcurrentChange(ChordMQError):
    """Others change the same thing at the same time; try again."""


class InvalidTopicName(ChordMQError):
    """The name is empty, too long, or has characters that a topic name must not have."""


class InvalidPartitionCount(ChordMQError):
    """The number of partitions is not positive, too large, or would shrink the topic."""


class InvalidReplicationFactor(ChordMQError):
    """More replicas were asked for than there are nodes, or fewer than one."""


class InvalidReplicaAssignment(ChordMQError):
    """A manual replica assignment names nodes or partitions that do not fit."""


class InvalidSetting(ChordMQError):
    """A topic or node setting is unknown, or its value is out of range."""


class InvalidRequest(ChordMQError):
    """The request is well formed but makes no sense, or asks for a part that is not there."""


class PolicyViolation(ChordMQError):
    """The request is valid but the node's policy forbids it."""


class OffsetOutOfRange(ChordMQError):
    """The offset lies before the first or after the last record of the partition."""


class CorruptBatch(ChordMQError):
    """A batch fails its checksum or its own lengths."""


class BatchTooLarge(ChordMQError):
    """A batch is larger than the topic's `max.message.bytes`."""


class InvalidRecord(ChordMQError):
    """A record breaks a rule of its topic, such as a missing key under compaction."""


class InvalidTimestamp(ChordMQError):
    """A record's time is further from now than the topic allows."""


class UnsupportedFormat(ChordMQError):
    """The batch has a format version older or newer than the log's."""


class UnsupportedCompression(ChordMQError):
    """The batch names a compression that this request version or node does not know."""


class InvalidAcks(ChordMQError):
    """A producer asked for an acknowledgement other than 0, 1 or all."""


class OutOfOrderSequence(ChordMQError):
    """An idempotent producer skipped a sequence number: an earlier batch is missing."""


class DuplicateSequence(ChordMQError):
    """A batch repeats records so old that their first offset is no longer known."""


class StaleProducerEpoch(ChordMQError):
    """A newer incarnation of this producer has taken over."""


class UnknownProducer(ChordMQError):
    """The producer id is not known in this partition any more."""


class ProducerFenced(ChordMQError):
    """A newer producer with the same transactional id has taken over."""


class ProducerIdMismatch(ChordMQError):
    """The transactional id is not known, or belongs to another producer id."""


class InvalidTransactionState(ChordMQError):
    """The transaction is not in a state that allows this."""


class ConcurrentTransactions(ChordMQError):
    """The transaction before this one is not finished yet; try again shortly."""


class CoordinatorFenced(ChordMQError):
    """A newer transaction coordinator has written here."""


class TransactionalIdNotFound(ChordMQError):
    """No producer has used this transactional id."""


class UnstableOffset(ChordMQError):
    """A transaction that would move this offset is not finished yet."""


class InvalidPattern(ChordMQError):
    """The regular expression cannot be understood."""


class InvalidTransactionTimeout(ChordMQError):
    """The transaction time-out is longer than the node allows."""


class DiskFull(ChordMQError):
    """The disk is too full to take writes; reads go on."""


class StorageFailed(ChordMQError):
    """The disk refused to read or write."""


class Elsewhere(ChordMQError):
    """Another node has to be asked."""

    def __init__(self, reason: str, node: int = -1) -> None:
        super().__init__(reason)
        self.node = node
        """Its number, where that is known."""


class UnknownRoute(ChordMQError):
    """No routing rule has this filter."""


class NotLeader(Elsewhere):
    """Another node leads this partition."""


class NotEnoughReplicas(ChordMQError):
    """Fewer replicas are in sync than the topic demands; nothing was written."""


class NotEnoughReplicasAfterAppend(ChordMQError):
    """The record was written, but too few replicas got it in time; it may or may not stay."""


class NotCommittedInTime(ChordMQError):
    """The record was written, but not committed within the time that the client gave."""


class OffsetNotAvailable(ChordMQError):
    """This replica cannot yet say what lies at the offset; another, or later, can."""


class ElectionNotNeeded(ChordMQError):
    """The partition is led by the replica that should lead it."""


class NoReassignment(ChordMQError):
    """No move of the partition's replicas is under way."""


class FencedLeaderEpoch(ChordMQError):
    """The client's leader epoch is older than the partition's."""


class UnknownLeaderEpoch(ChordMQError):
    """The client's leader epoch is newer than any this node has seen."""


class InvalidGroupId(ChordMQError):
    """The group id is empty where one is needed."""


class UnknownMember(ChordMQError):
    """The group has no such member."""


class IllegalGeneration(ChordMQError):
    """The member speaks of a generation that is not the group's current one."""


class InconsistentProtocol(ChordMQError):
    """The member's assignment protocols have none in common with the group's."""


class RebalanceInProgress(ChordMQError):
    """The group is forming its next generation; the member must rejoin."""


class InvalidSessionTimeout(ChordMQError):
    """The session time-out lies outside the range that the node allows."""


class MemberIdRequired(ChordMQError):
    """A new member must join again with the id it was just given."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as {member_id}")
        self.member_id = member_id


class FencedInstance(ChordMQError):
    """Another process has taken over this static member's instance id."""


class GroupFull(ChordMQError):
    """The group has as many members as the node allows."""


class GroupNotEmpty(ChordMQError):
    """The group still has members."""


class GroupNotFound(ChordMQError):
    """No group has this id."""


class GroupSubscribed(ChordMQError):
    """The group's members still subscribe to this topic."""


class CoordinatorLoading(ChordMQError):
    """The coordinator is still reading its log; try again shortly."""


class CoordinatorNotAvailable(ChordMQError):
    """No coordinator can be named now; try again shortly."""


class NotCoordinator(Elsewhere):
    """Another node looks after this group or transactional id."""


class OffsetMetadataTooLarge(ChordMQError):
    """The text stored with a committed offset is too long."""


class UnsupportedSaslMechanism(ChordMQError):
    """No such SASL mechanism is enabled on this listener."""


class IllegalSaslState(ChordMQError):
    """The client authenticates where this is not the next step."""


class AuthenticationFailed(ChordMQError):
    """The client has not proved who it is; the text never says which part was wrong."""


class ClusterAccessDenied(ChordMQError):
    """The client may not do this to the cluster."""


class TopicAccessDenied(ChordMQError):
    """The client may not do this to the topic."""


class GroupAccessDenied(ChordMQError):
    """The client may not do this to the group."""


class TransactionalIdAccessDenied(ChordMQError):
    """The client may not use this transactional id."""


class UnknownRole(ChordMQError):
    """No role has this name."""


class MutationQuotaExceeded(ChordMQError):
    """The client has created or deleted too many partitions lately; try again later."""


class InvalidEnvelope(ChordMQError):
    """The envelope of a message is not what it must be."""


class QuotaExceeded(ChordMQError):
    """The client has used more than its quota lets it; it may go on after `wait_s`."""

    def __init__(self, reason: str, wait_s: float) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class UnacceptableCredential(ChordMQError):
    """The credential is too weak, too strong or not complete."""


class UnknownUser(ChordMQError):
    """No user has this name, or it has no such credential."""


class UserExists(ChordMQError):
    """A user with this name is there already."""


class UnknownToken(ChordMQError):
    """The user has no such token."""


class UnsupportedVersion(ChordMQError):
    """The request's version, or a feature it needs, is not supported."""


class ShuttingDown(ChordMQError):
    """The node is stopping and takes no new work."""


class CannotStart(Exception):
    """The node cannot start; the message says what is in the way and what to change."""


class StaleMemberEpoch(ChordMQError):
    """The member has been told a newer epoch than the one it speaks of."""


class UnreleasedInstance(ChordMQError):
    """Another process holds this static member's instance id and has not left."""


class UnsupportedAssignor(ChordMQError):
    """The node does not offer the assignor that the member wants."""


class FencedMemberEpoch(ChordMQError):
    """The member speaks of an epoch that is not its own; it must join again."""


class ShareSessionNotFound(ChordMQError):
    """The share consumer has no session on this node; it must begin one."""


class InvalidShareSessionEpoch(ChordMQError):
    """The share consumer's session has seen more or fewer requests than it says."""


class ShareSessionLimitReached(ChordMQError):
    """The node has as many share sessions as it allows."""


class InvalidRecordState(ChordMQError):
    """A consumer settles records that it does not hold."""


class EligibleLeadersNotAvailable(ChordMQError):
    """No replica that may lead the partition lives."""


class PreferredLeaderNotAvailable(ChordMQError):
    """The preferred replica cannot lead the partition now."""


class UnknownBroker(ChordMQError):
    """No node with this number is registered."""


class BrokerIsLive(ChordMQError):
    """The node lives, so that it cannot be unregistered."""


class BrokerIdTaken(ChordMQError):
    """Another node, or another data directory, has this node's number."""


class StoreUnavailable(ChordMQError):
    """The cluster's metadata store cannot be reached; nothing was changed."""


class UnknownOutcome(ChordMQError):
    """The cluster's metadata store did not answer in time; the change may have been made."""


class StaleBrokerEpoch(ChordMQError):
    """An earlier life of a node has sent this; the node has registered again since."""


class UnknownQueue(ChordMQError):
    """No queue of this name is declared."""


class UnknownExchange(ChordMQError):
    """No exchange of this name is declared."""


class QueueLocked(ChordMQError):
    """The queue belongs to one connection, or one consumer has it for itself."""


class DeclaredOtherwise(ChordMQError):
    """A queue or exchange is there, but not as it was asked for."""


class UnknownDevice(ChordMQError):
    """Nothing is known of a device of this id."""


class InvalidShadow(ChordMQError):
    """A shadow cannot be changed like this."""


class ShadowTooLarge(ChordMQError):
    """The shadow would get larger than shadows may be."""


class StaleVersion(ChordMQError):
    """The shadow has changed since the version that the change was made for."""


class UnknownCommand(ChordMQError):
    """The device has no command of this id."""


class CommandExists(ChordMQError):
    """The device has another command of this id."""


class CommandEnded(ChordMQError):
    """The command has ended already, so that nothing can be done about it."""


class CommandQueueFull(ChordMQError):
    """As many commands wait for the device as may."""


def sole_fault(failure: Exception) -> Exception:
    """Return the one fault inside nested groups of one; several stay together."""
    while isinstance(failure, ExceptionGroup) and len(failure.exceptions) == 1:
        failure = failure.exceptions[0]
    return failure
