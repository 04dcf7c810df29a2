import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** RabbitMQ's Java client does to a node what its users do: confirms, returns, consumers, dead letters, recovery. */
public final class RabbitCheck {
    private RabbitCheck() {}

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(Integer.parseInt(arguments[0]));
        String name = arguments[1];
        try (Connection connection = factory.newConnection("java"); Channel channel = connection.createChannel()) {
            publishAndConsume(channel, name);
            returnAndReject(channel, name + ".dead");
            transact(channel.getConnection().createChannel(), name + ".tx");
        }
    }

    private static void publishAndConsume(Channel channel, String name) throws Exception {
        channel.exchangeDeclare(name, "topic", true);
        channel.queueDeclare(name, true, false, false, Map.of("x-max-priority", 5));
        channel.queueBind(name, name, "a.#");
        channel.confirmSelect();
        for (int number = 0; number < 100; number++) {
            AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
                .deliveryMode(2).headers(Map.of("number", number, "long", 1L << 40, "text", "\u00fc")).build();
            channel.basicPublish(name, "a." + number, properties, bytes("m" + number));
        }
        channel.waitForConfirmsOrDie(60_000);
        channel.basicQos(10);
        BlockingQueue<String> found = new ArrayBlockingQueue<>(200);
        List<Object> headers = new ArrayList<>();
        DeliverCallback deliver = (tag, message) -> {
            headers.add(message.getProperties().getHeaders().get("long"));
            found.add(new String(message.getBody(), StandardCharsets.UTF_8));
            channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
        };
        String tag = channel.basicConsume(name, false, deliver, cancelled -> { });
        for (int number = 0; number < 100; number++) {
            expect("m" + number, found.poll(60, TimeUnit.SECONDS));
        }
        expect(1L << 40, headers.get(99));
        channel.basicCancel(tag);
        expect(0L, channel.messageCount(name));
    }

    private static void returnAndReject(Channel channel, String name) throws Exception {
        channel.queueDeclare(name, true, false, false, null);
        Map<String, Object> rules = Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", name);
        String queue = channel.queueDeclare("", false, true, true, rules).getQueue();
        BlockingQueue<Integer> returned = new ArrayBlockingQueue<>(1);
        channel.addReturnListener(message -> returned.add(message.getReplyCode()));
        channel.basicPublish("", "nowhere", true, MessageProperties.PERSISTENT_BASIC, bytes("lost"));
        channel.waitForConfirmsOrDie(60_000);
        expect(312, returned.poll(60, TimeUnit.SECONDS));
        channel.basicPublish("", queue, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("refused"));
        channel.waitForConfirmsOrDie(60_000);
        channel.basicReject(channel.basicGet(queue, false).getEnvelope().getDeliveryTag(), false);
        GetResponse dead = null;
        for (int attempt = 0; dead == null && attempt < 1000; attempt++) {
            dead = channel.basicGet(name, true);
        }
        expect("rejected", String.valueOf(dead.getProps().getHeaders().get("x-first-death-reason")));
    }

    private static void transact(Channel channel, String name) throws Exception {
        channel.queueDeclare(name, true, false, false, null);
        channel.txSelect();
        channel.basicPublish("", name, null, bytes("rolled back"));
        channel.txRollback();
        channel.basicPublish("", name, null, bytes("committed"));
        channel.txCommit();
        expect("committed", new String(channel.basicGet(name, true).getBody(), StandardCharsets.UTF_8));
        channel.txCommit();
        expect(null, channel.basicGet(name, true));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void expect(Object wanted, Object found) {
        if (wanted == null ? found != null : !wanted.equals(found)) {
            throw new AssertionError("expected " + wanted + ", found " + found);
        }
    }
}
