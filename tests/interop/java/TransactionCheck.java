import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Drives the transactions of the unmodified Java client against one broker.
 *
 * <p>Arguments as for {@code ClientCheck}: bootstrap address, prefix for names, check.
 */
public final class TransactionCheck {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long DEADLINE_MS = 60_000;
    private static final int ROUNDS = 20;

    private final String bootstrap;
    private final String prefix;
    private final String topic;

    private TransactionCheck(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        this.topic = prefix + "-out";
    }

    public static void main(String[] arguments) throws Exception {
        TransactionCheck check = new TransactionCheck(arguments[0], arguments[1]);
        try (Admin admin = check.admin()) {
            admin.createTopics(List.of(new NewTopic(check.topic, 2, (short) 1))).all().get();
            switch (arguments[2]) {
                case "isolation" -> check.isolation(admin);
                case "transform" -> check.transform(admin);
                case "fencing" -> check.fencing();
                case "admin" -> check.administration(admin);
                default -> throw new IllegalArgumentException("no such check: " + arguments[2]);
            }
        }
    }

    /** Commits and aborts in turn: readers of committed records see half of all, in order. */
    private void isolation(Admin admin) throws Exception {
        List<String> committed = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer("isolation")) {
            producer.initTransactions();
            for (int round = 0; round < ROUNDS; round++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 2; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, "k", "r" + round)).get();
                }
                if (round % 2 == 0) {
                    producer.commitTransaction();
                    committed.add("r" + round);
                } else {
                    producer.abortTransaction();
                }
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "k", "open")).get();
            producer.flush();
            List<String> all = read(topic, 0, "read_uncommitted", ROUNDS + 1);
            equal("open", all.get(ROUNDS), "last record of a reader of everything");
            equal(committed, read(topic, 0, "read_committed", committed.size()), "committed records");
            equal(committed, read(topic, 1, "read_committed", committed.size()), "committed records");
            TopicPartition first = new TopicPartition(topic, 0);
            long stable = end(admin, first, IsolationLevel.READ_COMMITTED);
            equal(stable + 1, end(admin, first, IsolationLevel.READ_UNCOMMITTED), "end behind the open record");
            producer.commitTransaction();
        }
        committed.add("open");
        equal(committed, read(topic, 0, "read_committed", committed.size()), "records after the last commit");
    }

    /** Moves a group's offsets with the records that were made of its input. */
    private void transform(Admin admin) throws Exception {
        String input = prefix + "-in";
        admin.createTopics(List.of(new NewTopic(input, 1, (short) 1))).all().get();
        try (KafkaProducer<String, String> source = new KafkaProducer<>(common())) {
            for (int number = 0; number < ROUNDS; number++) {
                source.send(new ProducerRecord<>(input, "k", "i" + number));
            }
        }
        Properties properties = consumerProperties("read_committed");
        properties.put("group.id", prefix + "-group");
        TopicPartition place = new TopicPartition(input, 0);
        int moved = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties);
                KafkaProducer<String, String> producer = producer("transform")) {
            producer.initTransactions();
            consumer.subscribe(List.of(input));
            int attempt = 0;
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (moved < ROUNDS) {
                equal(true, System.currentTimeMillis() < deadline, "input read in time");
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    if (record.offset() != moved) {
                        continue;
                    }
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(topic, 0, "k", record.value()));
                    producer.sendOffsetsToTransaction(
                            Map.of(place, new OffsetAndMetadata(record.offset() + 1)), consumer.groupMetadata());
                    if (attempt++ % 3 == 2) {
                        producer.abortTransaction();
                        consumer.seek(place, moved);
                        break;
                    }
                    producer.commitTransaction();
                    moved++;
                }
            }
            equal((long) ROUNDS, consumer.committed(Set.of(place)).get(place).offset(), "committed offset");
        }
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < ROUNDS; number++) {
            expected.add("i" + number);
        }
        equal(expected, read(topic, 0, "read_committed", ROUNDS), "one result for each input");
    }

    /** Takes over a transactional id: the producer that had it can do no more. */
    private void fencing() throws Exception {
        try (KafkaProducer<String, String> zombie = producer("fencing");
                KafkaProducer<String, String> heir = producer("fencing")) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, 0, "k", "zombie")).get();
            heir.initTransactions();
            fenced(() -> zombie.send(new ProducerRecord<>(topic, 0, "k", "late")).get());
            fenced(zombie::commitTransaction);
            heir.beginTransaction();
            heir.send(new ProducerRecord<>(topic, 0, "k", "heir"));
            heir.commitTransaction();
        }
        equal(List.of("heir"), read(topic, 0, "read_committed", 1), "records");
    }

    /** Lists, describes, fences and aborts transactions as an administrator. */
    private void administration(Admin admin) throws Exception {
        String id = prefix + "-admin";
        TopicPartition place = new TopicPartition(topic, 1);
        try (KafkaProducer<String, String> producer = producer("admin")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 1, "k", "hanging")).get();
            var listed = admin.listTransactions(new ListTransactionsOptions()
                    .filterStates(Set.of(TransactionState.ONGOING))
                    .filterOnTransactionalIdPattern(prefix + ".*")).all().get();
            equal(List.of(id), listed.stream().map(t -> t.transactionalId()).toList(), "ongoing transactions");
            var described = admin.describeTransactions(List.of(id)).description(id).get();
            equal(TransactionState.ONGOING, described.state(), "state");
            equal(Set.of(place), described.topicPartitions(), "partitions");
            var active = admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers();
            equal(1, active.size(), "producers of the partition");
            var state = active.get(0);
            equal(0L, state.currentTransactionStartOffset().getAsLong(), "start of the transaction");
            admin.abortTransaction(new AbortTransactionSpec(
                    place, state.producerId(), (short) state.producerEpoch(), 0)).all().get();
            equal(end(admin, place, IsolationLevel.READ_UNCOMMITTED),
                    end(admin, place, IsolationLevel.READ_COMMITTED), "end once aborted");
            admin.fenceProducers(List.of(id)).all().get();
            fenced(producer::commitTransaction);
        }
        equal(List.of(), read(topic, 1, "read_committed", 0), "records");
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void fenced(Step step) throws Exception {
        try {
            step.run();
        } catch (Exception failure) {
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                if (cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException) {
                    return;
                }
            }
            if (failure instanceof KafkaException && failure.getMessage().contains("error state")) {
                return;
            }
            throw failure;
        }
        throw new AssertionError("a fenced producer went on");
    }

    /** Reads a partition to its end as the isolation level sees it; `wanted` records are there. */
    private List<String> read(String name, int partition, String isolation, int wanted) {
        List<String> values = new ArrayList<>();
        TopicPartition place = new TopicPartition(name, partition);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerProperties(isolation))) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (values.size() < wanted || consumer.position(place) < consumer.endOffsets(List.of(place)).get(place)) {
                equal(true, System.currentTimeMillis() < deadline, wanted + " records in time, not " + values);
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    values.add(record.value());
                }
            }
        }
        return values;
    }

    private static long end(Admin admin, TopicPartition place, IsolationLevel isolation) throws Exception {
        return admin.listOffsets(Map.of(place, OffsetSpec.latest()), new ListOffsetsOptions(isolation))
                .partitionResult(place).get().offset();
    }

    private Admin admin() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return Admin.create(properties);
    }

    private KafkaProducer<String, String> producer(String suffix) {
        Properties properties = common();
        properties.put("transactional.id", prefix + "-" + suffix);
        return new KafkaProducer<>(properties);
    }

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        return properties;
    }

    private Properties consumerProperties(String isolation) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        properties.put("isolation.level", isolation);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        return properties;
    }

    private static void equal(Object expected, Object found, String what) {
        if (!expected.equals(found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }
}
