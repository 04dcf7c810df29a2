import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Drives the unmodified Java share consumer against one broker.
 *
 * <p>Arguments: bootstrap address, a prefix that makes topic and group names unique, and the name of
 * the check. The process ends with 0 when the check holds and with a stack trace when not.
 */
public final class ShareCheck {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long DEADLINE_MS = 60_000;

    private final String bootstrap;
    private final String topic;
    private final String group;

    private ShareCheck(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.topic = prefix + "-shared";
        this.group = prefix + "-group";
    }

    public static void main(String[] arguments) throws Exception {
        ShareCheck check = new ShareCheck(arguments[0], arguments[1]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", check.bootstrap))) {
            admin.createTopics(List.of(new NewTopic(check.topic, 1, (short) 1))).all().get();
            check.set(admin, "share.auto.offset.reset", "earliest");
            switch (arguments[2]) {
                case "implicit" -> check.implicit();
                case "explicit" -> check.explicit();
                case "together" -> check.together();
                case "timeout" -> check.timeout(admin);
                case "renew" -> check.renew(admin);
                case "close" -> check.close();
                case "operator" -> check.operator(admin);
                default -> throw new IllegalArgumentException("no such check: " + arguments[2]);
            }
        }
    }

    /** Each poll accepts what the one before it gave; a new consumer gets only what comes later. */
    private void implicit() throws Exception {
        produce(0, 100);
        try (ShareConsumer<String, String> consumer = consumer("implicit")) {
            Set<Integer> found = new TreeSet<>();
            until("all records came", () -> found.addAll(values(consumer.poll(POLL))) && found.size() == 100);
            noErrors(consumer.commitSync());
        }
        produce(100, 110);
        try (ShareConsumer<String, String> consumer = consumer("implicit")) {
            Set<Integer> found = new TreeSet<>();
            until("the new records came", () -> found.addAll(values(consumer.poll(POLL))) && found.size() == 10);
            equal(100, found.iterator().next(), "first record after those accepted");
        }
    }

    /** Accepted and rejected records do not come again; released ones do, with a higher count. */
    private void explicit() throws Exception {
        produce(0, 9);
        try (ShareConsumer<String, String> consumer = consumer("explicit")) {
            Map<Integer, Short> counts = new HashMap<>();
            until("all are settled", () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    int value = Integer.parseInt(record.value());
                    short count = record.deliveryCount().get();
                    equal(counts.getOrDefault(value, (short) 0) + 1, (int) count, "deliveries of " + value);
                    counts.put(value, count);
                    consumer.acknowledge(record, type(value, count));
                }
                noErrors(consumer.commitSync());
                return counts.size() == 9 && counts.entrySet().stream().allMatch(this::isSettled);
            });
            equal(0, consumer.poll(POLL).count(), "records after all are settled");
        }
    }

    private static AcknowledgeType type(int value, short count) {
        return switch (value % 3) {
            case 0 -> AcknowledgeType.ACCEPT;
            case 1 -> AcknowledgeType.REJECT;
            default -> count < 3 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
        };
    }

    private boolean isSettled(Map.Entry<Integer, Short> entry) {
        return entry.getKey() % 3 < 2 || entry.getValue() == 3;
    }

    /** Two consumers share one partition: every record goes to one of them. */
    private void together() throws Exception {
        try (ShareConsumer<String, String> one = consumer("implicit");
             ShareConsumer<String, String> other = consumer("implicit")) {
            one.poll(POLL);
            other.poll(POLL);
            List<Integer> first = new ArrayList<>();
            List<Integer> second = new ArrayList<>();
            int[] produced = {0};
            until("both got some, and all came", () -> {
                if (produced[0] < 1000 || first.isEmpty() || second.isEmpty()) {
                    produce(produced[0], produced[0] += 50);
                }
                first.addAll(values(one.poll(POLL)));
                second.addAll(values(other.poll(POLL)));
                return first.size() + second.size() >= produced[0] && !first.isEmpty() && !second.isEmpty();
            });
            Set<Integer> all = new TreeSet<>(first);
            all.addAll(second);
            equal(produced[0], all.size(), "different records");
            equal(produced[0], first.size() + second.size(), "records in all");
        }
    }

    /** A record that is not settled in time goes to another consumer. */
    private void timeout(Admin admin) throws Exception {
        set(admin, "share.record.lock.duration.ms", "1000");
        produce(0, 1);
        try (ShareConsumer<String, String> slow = consumer("explicit");
             ShareConsumer<String, String> other = consumer("implicit")) {
            ConsumerRecord<String, String> late = next(slow, record -> true);
            ConsumerRecord<String, String> again = next(other, record -> true);
            equal(2, (int) again.deliveryCount().get(), "deliveries");
            slow.acknowledge(late, AcknowledgeType.ACCEPT);
            Optional<KafkaException> error = slow.commitSync().values().iterator().next();
            that(error.isPresent(), "an error for who comes too late");
            noErrors(other.commitSync());
        }
    }

    /** A consumer that asks for more time keeps its record. */
    private void renew(Admin admin) throws Exception {
        set(admin, "share.record.lock.duration.ms", "5000");
        produce(0, 1);
        try (ShareConsumer<String, String> slow = consumer("explicit");
             ShareConsumer<String, String> other = consumer("implicit")) {
            ConsumerRecord<String, String> record = next(slow, any -> true);
            long end = System.currentTimeMillis() + 8000;
            while (System.currentTimeMillis() < end) {
                slow.acknowledge(record, AcknowledgeType.RENEW);
                noErrors(slow.commitSync());
                equal(0, other.poll(POLL).count(), "records for the other");
                for (ConsumerRecord<String, String> renewed : slow.poll(POLL)) {
                    record = renewed;
                }
            }
            slow.acknowledge(record, AcknowledgeType.ACCEPT);
            noErrors(slow.commitSync());
        }
    }

    /** What a consumer has not settled when it closes goes to others at once. */
    private void close() throws Exception {
        produce(0, 10);
        try (ShareConsumer<String, String> other = consumer("implicit")) {
            try (ShareConsumer<String, String> closing = consumer("explicit")) {
                Set<Integer> held = new TreeSet<>();
                until("records came", () -> {
                    for (ConsumerRecord<String, String> record : closing.poll(POLL)) {
                        held.add(Integer.parseInt(record.value()));
                        consumed(closing, record);
                    }
                    return !held.isEmpty();
                });
            }
            Set<Integer> found = new TreeSet<>();
            until("the odd ones came again", () -> {
                found.addAll(values(other.poll(POLL)));
                return found.containsAll(Set.of(1, 3, 5, 7, 9));
            });
            that(!found.contains(0), "no record that was accepted before the close");
        }
    }

    private static void consumed(ShareConsumer<String, String> consumer, ConsumerRecord<String, String> record) {
        boolean isEven = Integer.parseInt(record.value()) % 2 == 0;
        consumer.acknowledge(record, isEven ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
    }

    /** Groups can be listed, described, moved and deleted. */
    private void operator(Admin admin) throws Exception {
        produce(0, 5);
        TopicPartition place = new TopicPartition(topic, 0);
        try (ShareConsumer<String, String> consumer = consumer("implicit")) {
            next(consumer, record -> record.value().equals("4"));
            noErrors(consumer.commitSync());
            var listed = admin.listGroups(ListGroupsOptions.forShareGroups()).all().get();
            that(listed.stream().anyMatch(row -> row.groupId().equals(group)), "the group in the list");
            var described = admin.describeShareGroups(List.of(group)).all().get().get(group);
            equal(GroupState.STABLE, described.groupState(), "state");
            equal(1, described.members().size(), "members");
            equal(Set.of(place), described.members().iterator().next().assignment().topicPartitions(), "assignment");
            expect(GroupNotEmptyException.class, () -> admin.deleteShareGroups(List.of(group)).all().get());
        }
        until("the group is empty", () -> {
            var described = admin.describeShareGroups(List.of(group)).all().get().get(group);
            return described.groupState() == GroupState.EMPTY;
        });
        // Apache Kafka stores the new start with the write after the one that settles its records.
        that(offset(admin, place) <= 5L, "no offset beyond the last record");
        admin.alterShareGroupOffsets(group, Map.of(place, 2L)).all().get();
        equal(2L, offset(admin, place), "offset after it was set");
        try (ShareConsumer<String, String> consumer = consumer("implicit")) {
            equal("2", next(consumer, record -> true).value(), "first record from the new offset");
        }
        admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get();
        equal(null, offset(admin, place), "offset after it was deleted");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        var config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        equal("earliest", config.get("share.auto.offset.reset").value(), "setting of the group");
        equal("30000", config.get("share.record.lock.duration.ms").value(), "default of a setting");
        try (ShareConsumer<String, String> consumer = consumer("implicit")) {
            next(consumer, record -> record.value().equals("4"));
        }
        admin.deleteShareGroups(List.of(group)).all().get();
        that(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.SHARE))).all().get().stream()
            .noneMatch(row -> row.groupId().equals(group)), "the group is gone");
    }

    private Long offset(Admin admin, TopicPartition place) throws Exception {
        var spec = new ListShareGroupOffsetsSpec().topicPartitions(List.of(place));
        var found = admin.listShareGroupOffsets(Map.of(group, spec)).partitionsToOffsetInfo(group).get().get(place);
        return found == null ? null : found.startOffset();
    }

    private void set(Admin admin, String name, String value) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        AlterConfigOp op = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(op))).all().get();
    }

    private ShareConsumer<String, String> consumer(String mode) {
        ShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
            Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "share.acknowledgement.mode", mode,
                "max.poll.records", "100"),
            new StringDeserializer(),
            new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private void produce(int first, int end) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "linger.ms", "0");
        try (Producer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int value = first; value < end; value++) {
                producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(value)));
            }
        }
    }

    private static List<Integer> values(Iterable<ConsumerRecord<String, String>> records) {
        List<Integer> found = new ArrayList<>();
        records.forEach(record -> found.add(Integer.parseInt(record.value())));
        return found;
    }

    /** Polls until a record is what is wanted; of an explicit consumer that must be the first. */
    private static ConsumerRecord<String, String> next(
            ShareConsumer<String, String> consumer, Predicate<ConsumerRecord<String, String>> wanted) {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                if (wanted.test(record)) {
                    return record;
                }
            }
        }
        throw new AssertionError("no record came");
    }

    private static void noErrors(Map<TopicIdPartition, Optional<KafkaException>> results) {
        results.values().forEach(result -> that(result.isEmpty(), "no error but " + result));
    }

    private interface Step {
        Object run() throws Exception;
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void expect(Class<? extends Exception> wanted, Step step) throws Exception {
        try {
            step.run();
        } catch (ExecutionException failure) {
            that(wanted.isInstance(failure.getCause()), wanted.getSimpleName() + " but " + failure.getCause());
            return;
        }
        throw new AssertionError("expected " + wanted.getSimpleName());
    }

    private static void until(String what, Condition condition) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (!condition.holds()) {
            that(System.currentTimeMillis() < deadline, what);
        }
    }

    private static void equal(Object expected, Object found, String what) {
        that(expected == null ? found == null : expected.equals(found), what + ": " + expected + ", not " + found);
    }

    private static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("expected " + what);
        }
    }
}
