import java.util.List;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Qpid JMS does to a node what its users do: queues, topics, transactions, replies, durable subscriptions. */
public final class JmsCheck {
    private static final long WAIT_MS = 60_000;

    private JmsCheck() {}

    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory("amqp://127.0.0.1:" + arguments[0]);
        String name = arguments[1];
        try (Connection connection = factory.createConnection()) {
            connection.start();
            carryEverything(connection, name);
            acknowledge(connection, name + ".acknowledged");
            transact(connection, name + ".transacted");
            request(connection, name + ".requests");
            publish(connection, name + ".topic");
        }
        subscribeDurably(factory, name + ".durable");
    }

    private static void carryEverything(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        TextMessage text = session.createTextMessage("gr\u00fc\u00dfe");
        text.setStringProperty("text", "x");
        text.setLongProperty("long", 1L << 40);
        text.setBooleanProperty("truth", true);
        text.setJMSCorrelationID("correlated");
        text.setJMSType("kind");
        producer.send(text, DeliveryMode.PERSISTENT, 7, 0);
        TextMessage found = (TextMessage) next(consumer);
        expect("gr\u00fc\u00dfe", found.getText());
        expect("x", found.getStringProperty("text"));
        expect(1L << 40, found.getLongProperty("long"));
        expect(true, found.getBooleanProperty("truth"));
        expect("correlated", found.getJMSCorrelationID());
        expect("kind", found.getJMSType());
        expect(text.getJMSMessageID(), found.getJMSMessageID());
        expect(7, found.getJMSPriority());
        expect(DeliveryMode.PERSISTENT, found.getJMSDeliveryMode());
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, -1});
        producer.send(bytes);
        expect(3L, ((BytesMessage) next(consumer)).getBodyLength());
        MapMessage map = session.createMapMessage();
        map.setInt("number", 5);
        producer.send(map);
        expect(5, ((MapMessage) next(consumer)).getInt("number"));
        producer.send(session.createObjectMessage((java.io.Serializable) List.of("a", "b")));
        expect(List.of("a", "b"), ((ObjectMessage) next(consumer)).getObject());
        refused(() -> session.createBrowser(queue).getEnumeration());
        refused(() -> session.createConsumer(queue, "number = 1"));
        session.close();
    }

    private static void acknowledge(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        for (int number = 0; number < 4; number++) {
            producer.send(session.createTextMessage("m" + number));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        next(consumer);
        Message second = next(consumer);
        second.acknowledge();
        expect("m2", ((TextMessage) next(consumer)).getText());
        session.recover();
        Message again = next(consumer);
        expect("m2", ((TextMessage) again).getText());
        expect(true, again.getJMSRedelivered());
        session.close();
        Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer rest = other.createConsumer(queue);
        expect("m2", ((TextMessage) next(rest)).getText());
        expect("m3", ((TextMessage) next(rest)).getText());
        other.close();
    }

    private static void transact(Connection connection, String name) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("rolled back"));
        session.rollback();
        for (int number = 0; number < 3; number++) {
            producer.send(session.createTextMessage("c" + number));
        }
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        expect("c0", ((TextMessage) next(consumer)).getText());
        expect("c1", ((TextMessage) next(consumer)).getText());
        producer.send(session.createTextMessage("rolled back, too"));
        session.rollback();
        TextMessage again = (TextMessage) next(consumer);
        expect("c0", again.getText());
        expect(true, again.getJMSRedelivered());
        expect("c1", ((TextMessage) next(consumer)).getText());
        producer.send(session.createTextMessage("last"));
        session.commit();
        expect("c2", ((TextMessage) next(consumer)).getText());
        session.close(); // which undoes what was not committed
        Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer rest = other.createConsumer(queue);
        expect("c2", ((TextMessage) next(rest)).getText());
        expect("last", ((TextMessage) next(rest)).getText());
        other.close();
    }

    private static void request(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue requests = session.createQueue(name);
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer answers = session.createConsumer(replies);
        TextMessage question = session.createTextMessage("question");
        question.setJMSReplyTo(replies);
        session.createProducer(requests).send(question);
        Message asked = next(session.createConsumer(requests));
        session.createProducer(null).send(asked.getJMSReplyTo(), session.createTextMessage("answer"));
        expect("answer", ((TextMessage) next(answers)).getText());
        answers.close();
        replies.delete();
        session.close();
    }

    private static void publish(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(name);
        MessageConsumer one = session.createConsumer(topic);
        MessageConsumer other = session.createConsumer(topic);
        MessageProducer producer = session.createProducer(topic);
        for (int number = 0; number < 10; number++) {
            producer.send(session.createTextMessage("t" + number));
        }
        for (MessageConsumer consumer : List.of(one, other)) {
            for (int number = 0; number < 10; number++) {
                expect("t" + number, ((TextMessage) next(consumer)).getText());
            }
        }
        session.close();
    }

    private static void subscribeDurably(JmsConnectionFactory factory, String name) throws Exception {
        for (int round = 0; round < 3; round++) {
            try (Connection connection = factory.createConnection()) {
                connection.setClientID(name);
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                Topic topic = session.createTopic(name);
                MessageConsumer consumer = session.createDurableSubscriber(topic, "subscription");
                connection.start();
                if (round > 0) {
                    expect("while away " + round, ((TextMessage) next(consumer)).getText());
                }
                consumer.close();
                session.createProducer(topic).send(session.createTextMessage("while away " + (round + 1)));
                if (round == 2) {
                    session.unsubscribe("subscription");
                    refused(() -> session.unsubscribe("subscription"));
                }
            }
        }
    }

    private interface Act {
        void run() throws Exception;
    }

    private static void refused(Act act) throws Exception {
        try {
            act.run();
        } catch (JMSException expected) {
            return;
        }
        throw new AssertionError("nobody has refused");
    }

    private static Message next(MessageConsumer consumer) throws JMSException {
        Message found = consumer.receive(WAIT_MS);
        if (found == null) {
            throw new AssertionError("no message came");
        }
        return found;
    }

    private static void expect(Object wanted, Object found) {
        if (!wanted.equals(found)) {
            throw new AssertionError("expected " + wanted + ", found " + found);
        }
    }
}
