import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Looks at a cluster of three nodes with Java's admin client, and moves a partition about. */
public class ClusterCheck {
    private static Admin admin;
    private static String topic;

    public static void main(String[] args) throws Exception {
        topic = args[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        admin = Admin.create(settings);
        Set<Integer> nodes = ids(admin.describeCluster().nodes().get().stream().toList());
        expect(nodes.equals(Set.of(1, 2, 3)), "nodes " + nodes);
        expect(nodes.contains(admin.describeCluster().controller().get().id()), "no controller");
        admin.createTopics(List.of(
            new NewTopic(topic, Map.of(0, List.of(2, 3)))
        )).all().get();
        await("replicas as assigned", () -> list(partition().replicas()).equals(List.of(2, 3))
            && ids(partition().isr()).equals(Set.of(2, 3)) && partition().leader().id() == 2);
        expect(partition().elr().isEmpty() && partition().lastKnownElr().isEmpty(), "elr");
        TopicPartition place = new TopicPartition(topic, 0);
        admin.alterPartitionReassignments(
            Map.of(place, Optional.of(new NewPartitionReassignment(List.of(1, 3))))).all().get();
        await("moved", () -> list(partition().replicas()).equals(List.of(1, 3))
            && ids(partition().isr()).equals(Set.of(1, 3))
            && admin.listPartitionReassignments().reassignments().get().isEmpty());
        if (partition().leader().id() != 1) {
            admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).all().get();
        }
        await("preferred leader", () -> partition().leader().id() == 1);
        try {
            admin.unregisterBroker(99).all().get();
            throw new AssertionError("node 99 was unregistered");
        } catch (ExecutionException refused) {
            expect(refused.getCause() instanceof BrokerIdNotRegisteredException, "" + refused);
        }
        admin.close();
    }

    private static TopicPartitionInfo partition() throws Exception {
        TopicDescription found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        return found.partitions().get(0);
    }

    private static Set<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.toSet());
    }

    private static List<Integer> list(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private interface Check {
        boolean holds() throws Exception;
    }

    private static void await(String what, Check check) throws Exception {
        long deadline = System.currentTimeMillis() + 60_000;
        while (!holds(check)) {
            expect(System.currentTimeMillis() < deadline, what);
            Thread.sleep(20);
        }
    }

    /** As with Kafka, a node may hear of a new topic a moment later than the one that made it. */
    private static boolean holds(Check check) throws Exception {
        try {
            return check.holds();
        } catch (ExecutionException early) {
            if (early.getCause() instanceof UnknownTopicOrPartitionException) {
                return false;
            }
            throw early;
        }
    }

    private static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
