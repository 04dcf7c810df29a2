import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Reads a topic and writes what it makes of each record to another, exactly once; made to be killed.
 *
 * <p>Arguments: bootstrap address, source topic, target topic, number of the process. Whatever goes
 * wrong ends the process: its successor finds the truth in the log.
 */
public final class Transformer {
    private static final int PAUSE_MS_MAX = 50;

    private Transformer() {}

    public static void main(String[] arguments) throws Exception {
        String source = arguments[1];
        String target = arguments[2];
        Random pauses = new Random(Long.parseLong(arguments[3]));
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consuming(arguments[0], source));
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(producing(arguments[0], target + "-" + arguments[3]));
        producer.initTransactions();
        consumer.subscribe(List.of(source));
        while (true) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                producer.send(new ProducerRecord<>(target, record.key(), record.value()));
                ends.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            Thread.sleep(pauses.nextInt(PAUSE_MS_MAX));
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            Thread.sleep(pauses.nextInt(PAUSE_MS_MAX));
            commit(producer);
        }
    }

    private static void commit(KafkaProducer<String, String> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException later) {
                // Nobody knows how it went; asking again tells.
            }
        }
    }

    private static Properties consuming(String bootstrap, String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("session.timeout.ms", "1500");
        properties.put("heartbeat.interval.ms", "300");
        properties.put("max.poll.interval.ms", "10000");
        properties.put("max.poll.records", "5");
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        return properties;
    }

    private static Properties producing(String bootstrap, String transactionalId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", transactionalId);
        properties.put("transaction.timeout.ms", "3000");
        properties.put("max.block.ms", "10000");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        return properties;
    }
}
