import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * One group member of the unmodified Java client that tells what happens to it.
 *
 * <p>Arguments: bootstrap address, topic or /pattern/, and settings of the consumer as name=value.
 * Prints {@code assigned}, {@code revoked} or {@code lost} with the partitions, and {@code read}
 * with each value. Ends, leaving its group, when its standard input does.
 */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        for (int index = 2; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            String topic = arguments[1];
            if (topic.startsWith("/")) {
                String pattern = topic.substring(1, topic.length() - 1);
                consumer.subscribe(new SubscriptionPattern(pattern), new GroupMember());
            } else {
                consumer.subscribe(List.of(topic), new GroupMember());
            }
            read(consumer);
        }
    }

    private static void read(KafkaConsumer<String, String> consumer) {
        AtomicBoolean isEnding = new AtomicBoolean();
        Thread ending = new Thread(() -> {
            try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
                while (input.readLine() != null) {
                    Thread.onSpinWait();
                }
            } catch (java.io.IOException error) {
                say("failed", List.of(error.toString()));
            }
            isEnding.set(true);
        });
        ending.setDaemon(true);
        ending.start();
        while (!isEnding.get()) {
            ConsumerRecords<String, String> records = consumer.poll(POLL);
            for (ConsumerRecord<String, String> record : records) {
                say("read", List.of(record.value()));
            }
            if (!records.isEmpty()) {
                try {
                    consumer.commitSync();
                } catch (RebalanceInProgressException
                        | org.apache.kafka.clients.consumer.CommitFailedException error) {
                    say("uncommitted", List.of(error.getClass().getSimpleName()));
                }
            }
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", names(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say("revoked", names(partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        say("lost", names(partitions));
    }

    private static List<String> names(Collection<TopicPartition> partitions) {
        List<String> names = new ArrayList<>();
        partitions.forEach(partition -> names.add(partition.toString()));
        Collections.sort(names);
        return names;
    }

    private static synchronized void say(String what, List<String> names) {
        System.out.println(what + " " + String.join(" ", names));
    }
}
