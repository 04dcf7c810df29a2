import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Drives the unmodified Java client against one broker.
 *
 * <p>Arguments: bootstrap address, a prefix that makes topic and group names unique, and the name of
 * the check. The process ends with 0 when the check holds and with a stack trace when not.
 */
public final class ClientCheck {
    private static final Duration POLL = Duration.ofMillis(500);
    private static final long DEADLINE_MS = 60_000;
    /** An hour ago: young enough for every retention. */
    private static final long FIRST_TIME_MS = System.currentTimeMillis() - 3_600_000;

    private final String bootstrap;
    private final String prefix;

    private ClientCheck(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
    }

    public static void main(String[] arguments) throws Exception {
        ClientCheck check = new ClientCheck(arguments[0], arguments[1]);
        switch (arguments[2]) {
            case "topics" -> check.topics();
            case "settings" -> check.settings();
            case "records" -> check.records();
            case "times" -> check.times();
            case "groups" -> check.groups();
            default -> throw new IllegalArgumentException("no such check: " + arguments[2]);
        }
    }

    /** Creates, describes, lists, grows and deletes topics; describes the cluster. */
    private void topics() throws Exception {
        String topic = prefix + "-topics";
        try (Admin admin = admin()) {
            var created = admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1)));
            equal(3, created.numPartitions(topic).get(), "partitions in the answer of createTopics");
            expect(TopicExistsException.class, admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all());

            var cluster = admin.describeCluster();
            equal(1, cluster.nodes().get().size(), "nodes");
            equal(cluster.nodes().get().iterator().next().id(), cluster.controller().get().id(), "controller");
            that(!cluster.clusterId().get().isEmpty(), "a cluster id");

            TopicDescription described = describe(admin, topic);
            equal(3, described.partitions().size(), "partitions described");
            equal(created.topicId(topic).get(), described.topicId(), "topic id");
            equal(1, described.partitions().get(0).isr().size(), "in-sync replicas");
            that(admin.listTopics().names().get().contains(topic), "the topic in the list");

            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            until("the topic has five partitions", () -> describe(admin, topic).partitions().size() == 5);

            int broker = cluster.controller().get().id();
            until("the log directories hold five replicas", () -> replicas(admin, broker, topic) == 5);
            that(admin.describeFeatures().featureMetadata().get() != null, "features");

            admin.deleteTopics(List.of(topic)).all().get();
            until("the topic is gone", () -> !admin.listTopics().names().get().contains(topic));
            expect(UnknownTopicOrPartitionException.class, admin.describeTopics(List.of(topic)).allTopicNames());
        }
    }

    /** Reads and changes settings of a topic and reads those of the broker. */
    private void settings() throws Exception {
        String topic = prefix + "-settings";
        try (Admin admin = admin()) {
            NewTopic wanted = new NewTopic(topic, 1, (short) 1).configs(Map.of("retention.ms", "3600000"));
            admin.createTopics(List.of(wanted)).all().get();
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Config before = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            equal("3600000", before.get("retention.ms").value(), "retention.ms");
            equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, before.get("retention.ms").source(), "its source");
            that(before.get("cleanup.policy").isDefault(), "cleanup.policy is a default");
            that(before.entries().size() > 10, "all settings are listed");

            alter(admin, resource, "max.message.bytes", "2000");
            Config after = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            equal("2000", after.get("max.message.bytes").value(), "max.message.bytes");
            equal("3600000", after.get("retention.ms").value(), "retention.ms after another change");
            try (Producer<String, String> producer = producer(Map.of("compression.type", "none"))) {
                producer.send(new ProducerRecord<>(topic, "small")).get();
                expect(RecordTooLargeException.class, producer.send(new ProducerRecord<>(topic, "x".repeat(3000))));
            }
            expect(InvalidConfigurationException.class,
                admin.incrementalAlterConfigs(Map.of(resource, List.of(set("retention.ms", "soon")))).all());
            expect(InvalidConfigurationException.class,
                admin.createTopics(List.of(new NewTopic(prefix + "-bad", 1, (short) 1)
                    .configs(Map.of("no.such.setting", "1")))).all());

            int id = admin.describeCluster().controller().get().id();
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(id));
            that(!admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().isEmpty(), "broker settings");
        }
    }

    /** Sends 1000 idempotent records with each compression and reads all back, unchanged and in order. */
    private void records() throws Exception {
        for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = prefix + "-" + compression;
            createTopic(topic, 1);
            try (Producer<String, String> producer = producer(Map.of("compression.type", compression))) {
                List<Future<RecordMetadata>> answers = new ArrayList<>();
                for (int i = 0; i < 1000; i++) {
                    ProducerRecord<String, String> record =
                        new ProducerRecord<>(topic, null, FIRST_TIME_MS + i, i % 10 == 0 ? null : "key-" + i, value(i));
                    record.headers().add("index", Integer.toString(i).getBytes());
                    record.headers().add("empty", null);
                    answers.add(producer.send(record));
                }
                for (int i = 0; i < 1000; i++) {
                    equal((long) i, answers.get(i).get().offset(), "offset of record " + i);
                }
            }
            List<ConsumerRecord<String, String>> records = readAll(topic, 1000);
            for (int i = 0; i < 1000; i++) {
                ConsumerRecord<String, String> record = records.get(i);
                equal((long) i, record.offset(), "offset");
                equal(i % 10 == 0 ? null : "key-" + i, record.key(), "key");
                equal(value(i), record.value(), "value");
                equal(FIRST_TIME_MS + i, record.timestamp(), "time");
                Header index = record.headers().lastHeader("index");
                equal(Integer.toString(i), new String(index.value()), "header");
                equal(null, record.headers().lastHeader("empty").value(), "null header");
            }
            describeProducers(topic);
        }
    }

    /** Finds offsets by time, by the consumer and by the admin client, and deletes records. */
    private void times() throws Exception {
        String topic = prefix + "-times";
        TopicPartition partition = new TopicPartition(topic, 0);
        createTopic(topic, 1);
        try (Producer<String, String> producer = producer(Map.of("linger.ms", "0"))) {
            for (int i = 0; i < 100; i++) {
                producer.send(new ProducerRecord<>(topic, 0, FIRST_TIME_MS + i * 1000L, "key", value(i))).get();
            }
        }
        try (Consumer<String, String> consumer = consumer(Map.of())) {
            var found = consumer.offsetsForTimes(Map.of(partition, FIRST_TIME_MS + 41_500));
            equal(42L, found.get(partition).offset(), "offset for a time between two records");
            equal(FIRST_TIME_MS + 42_000, found.get(partition).timestamp(), "time of the record found");
            equal(null, consumer.offsetsForTimes(Map.of(partition, FIRST_TIME_MS + 1_000_000)).get(partition), "the future");
            equal(0L, consumer.beginningOffsets(List.of(partition)).get(partition), "beginning");
            equal(100L, consumer.endOffsets(List.of(partition)).get(partition), "end");
        }
        try (Admin admin = admin()) {
            equal(0L, offset(admin, partition, OffsetSpec.earliest()), "earliest");
            equal(100L, offset(admin, partition, OffsetSpec.latest()), "latest");
            equal(99L, offset(admin, partition, OffsetSpec.maxTimestamp()), "maximal time");
            equal(7L, offset(admin, partition, OffsetSpec.forTimestamp(FIRST_TIME_MS + 7_000)), "exact time");
            var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(30))).lowWatermarks();
            equal(30L, deleted.get(partition).get().lowWatermark(), "low watermark");
            equal(30L, offset(admin, partition, OffsetSpec.earliest()), "earliest after deletion");
        }
        equal(30L, readAll(topic, 70).get(0).offset(), "first record left");
    }

    /** Consumes in a classic group, commits, resumes, and lists, describes and deletes the group. */
    private void groups() throws Exception {
        String topic = prefix + "-groups";
        String group = prefix + "-group";
        createTopic(topic, 4);
        try (Producer<String, String> producer = producer(Map.of())) {
            for (int i = 0; i < 400; i++) {
                producer.send(new ProducerRecord<>(topic, i % 4, "key", value(i)));
            }
        }
        Map<String, Object> member = Map.of("group.id", group, "auto.offset.reset", "earliest");
        TopicPartition first = new TopicPartition(topic, 0);
        try (Consumer<String, String> consumer = consumer(member); Admin admin = admin()) {
            consumer.subscribe(List.of(topic));
            equal(400, poll(consumer, 400).size(), "records in the group");
            consumer.commitSync();
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(60, Optional.of(0), "where I was")));
            equal("where I was", consumer.committed(Set.of(first)).get(first).metadata(), "commit metadata");

            var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            equal(GroupState.STABLE, described.groupState(), "state");
            equal(1, described.members().size(), "members");
            equal(4, described.members().iterator().next().assignment().topicPartitions().size(), "assignment");
            that(admin.listGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)), "group listed");
        }
        try (Consumer<String, String> consumer = consumer(member)) {
            consumer.subscribe(List.of(topic));
            List<ConsumerRecord<String, String>> again = poll(consumer, 40);
            equal(40, again.size(), "records after the commit");
            that(again.stream().allMatch(record -> record.partition() == 0 && record.offset() >= 60), "only those");
        }
        try (Admin admin = admin()) {
            var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            equal(100L, offsets.get(new TopicPartition(topic, 3)).offset(), "committed offset");
            admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
            equal(3, admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size(), "offsets left");
            admin.deleteConsumerGroups(List.of(group)).all().get();
            that(admin.listGroups().all().get().stream().noneMatch(each -> each.groupId().equals(group)), "group gone");
        }
    }

    private void describeProducers(String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Admin admin = admin()) {
            var producers = admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers();
            equal(1, producers.size(), "active producers");
            equal(999, producers.get(0).lastSequence(), "last sequence");
        }
    }

    private void createTopic(String topic, int partitions) throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    private List<ConsumerRecord<String, String>> readAll(String topic, int count) {
        try (Consumer<String, String> consumer = consumer(Map.of())) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            return poll(consumer, count);
        }
    }

    /** Polls until `count` records came, and once more to see that there are no others. */
    private static List<ConsumerRecord<String, String>> poll(Consumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (records.size() < count && System.currentTimeMillis() < end) {
            consumer.poll(POLL).forEach(records::add);
        }
        consumer.poll(POLL).forEach(records::add);
        equal(count, records.size(), "records read");
        return records;
    }

    private static TopicDescription describe(Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static long replicas(Admin admin, int broker, String topic) throws Exception {
        return admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).values().stream()
            .flatMap(directory -> directory.replicaInfos().keySet().stream())
            .filter(partition -> partition.topic().equals(topic))
            .count();
    }

    private static void alter(Admin admin, ConfigResource resource, String name, String value) throws Exception {
        admin.incrementalAlterConfigs(Map.of(resource, List.of(set(name, value)))).all().get();
    }

    private static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    private static long offset(Admin admin, TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    private static String value(int index) {
        return "value-" + index + "-" + "abcdefghij".repeat(10);
    }

    private Admin admin() {
        return Admin.create(properties(Map.of("request.timeout.ms", 60_000, "default.api.timeout.ms", 60_000)));
    }

    private Producer<String, String> producer(Map<String, Object> settings) {
        Properties all = properties(settings);
        all.put("enable.idempotence", true);
        all.put("acks", "all");
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private Consumer<String, String> consumer(Map<String, Object> settings) {
        Properties all = properties(settings);
        all.put("group.protocol", "classic");
        all.put("enable.auto.commit", false);
        all.put("session.timeout.ms", 30_000);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private Properties properties(Map<String, Object> settings) {
        Properties all = new Properties();
        all.putAll(new HashMap<>(settings));
        all.put("bootstrap.servers", bootstrap);
        return all;
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void until(String what, Condition condition) throws Exception {
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (!condition.holds()) {
            that(System.currentTimeMillis() < end, what);
            Thread.sleep(20);
        }
    }

    private static void expect(Class<? extends Exception> wanted, Future<?> answer) throws Exception {
        try {
            answer.get();
        } catch (ExecutionException error) {
            that(wanted.isInstance(error.getCause()), wanted.getSimpleName() + ", but was " + error.getCause());
            return;
        }
        throw new AssertionError("expected " + wanted.getSimpleName() + ", but it succeeded");
    }

    private static void equal(Object wanted, Object seen, String what) {
        that(wanted == null ? seen == null : wanted.equals(seen), what + ": wanted " + wanted + ", but was " + seen);
    }

    private static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
