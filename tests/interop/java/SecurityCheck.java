import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Lets the unmodified Java client log in, once for each file of client settings.
 *
 * <p>Prints one line per file: its name and {@code ok} when a topic could be created, written and read,
 * or else the class of the exception that says why not. With {@code check.seconds} in a file it goes on
 * writing for as long, over the re-authentications of one connection.
 */
public final class SecurityCheck {
    private static final Duration POLL = Duration.ofMillis(500);

    private SecurityCheck() {}

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties settings = new Properties();
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                settings.load(reader);
            }
            System.out.println(Path.of(file).getFileName() + " " + outcome(settings));
        }
    }

    private static String outcome(Properties settings) {
        try {
            work(settings);
            return "ok";
        } catch (Exception failure) {
            Throwable cause = failure;
            while (cause.getCause() != null && cause.getClass().getName().startsWith("java.util")) {
                cause = cause.getCause();
            }
            if (System.getenv("CHECK_TRACE") != null) {
                failure.printStackTrace();
            }
            return cause.getClass().getSimpleName();
        }
    }

    private static void work(Properties settings) throws Exception {
        String topic = settings.getProperty("check.topic");
        int seconds = Integer.parseInt(settings.getProperty("check.seconds", "0"));
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            long end = System.nanoTime() + seconds * 1_000_000_000L;
            do {
                producer.send(new ProducerRecord<>(topic, "key", "value")).get();
                if (seconds > 0) {
                    Thread.sleep(20);
                }
            } while (System.nanoTime() < end);
        }
        StringDeserializer read = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, read, read)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(Set.of(partition));
            consumer.seekToBeginning(Set.of(partition));
            int found = 0;
            for (int polls = 0; found == 0 && polls < 120; polls++) {
                found = consumer.poll(POLL).count();
            }
            if (found == 0) {
                throw new IllegalStateException("nothing to read");
            }
        }
    }

    /** Hands the client the token that its login options name. */
    public static final class Tokens implements AuthenticateCallbackHandler {
        private String value;

        @Override
        public void configure(
                Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
            value = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback) {
                    ((OAuthBearerTokenCallback) callback).token(new Token(value));
                } else if (!(callback instanceof SaslExtensionsCallback)) {
                    throw new UnsupportedCallbackException(callback);
                }
            }
        }

        @Override
        public void close() {}
    }

    private static final class Token implements OAuthBearerToken {
        private final String value;
        private final long start = System.currentTimeMillis();

        private Token(String value) {
            this.value = value;
        }

        @Override
        public String value() {
            return value;
        }

        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return start + 600_000;
        }

        @Override
        public String principalName() {
            return "client";
        }

        @Override
        public Long startTimeMs() {
            return start;
        }
    }
}
