import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Drives the ACL and quota calls of the unmodified Java admin client as two users.
 *
 * <p>Arguments: bootstrap address, a prefix that makes names unique, and the passwords of `admin`
 * and `alice`. The process ends with 0 when all holds and with a stack trace when not.
 */
public final class AclCheck {
    private final String bootstrap;
    private final String topic;

    private AclCheck(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.topic = prefix + "-java";
    }

    public static void main(String[] arguments) throws Exception {
        AclCheck check = new AclCheck(arguments[0], arguments[1]);
        try (Admin admin = check.as("admin", arguments[2]);
                Admin alice = check.as("alice", arguments[3])) {
            admin.createTopics(List.of(new NewTopic(check.topic, 1, (short) 1))).all().get();
            check.acls(admin, alice);
            check.quotas(admin);
        }
    }

    private Admin as(String user, String password) {
        String module = "org.apache.kafka.common.security.scram.ScramLoginModule";
        return Admin.create(
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "security.protocol", "SASL_PLAINTEXT",
                        "sasl.mechanism", "SCRAM-SHA-512",
                        "sasl.jaas.config",
                                module + " required username=" + user + " password=" + password + ";"));
    }

    private void acls(Admin admin, Admin alice) throws Exception {
        refused(() -> alice.describeAcls(AclBindingFilter.ANY).values().get());
        ResourcePattern prefix =
                new ResourcePattern(ResourceType.TOPIC, topic.substring(0, 6), PatternType.PREFIXED);
        AclBinding read = binding(prefix, AclOperation.READ, AclPermissionType.ALLOW);
        AclBinding write = binding(prefix, AclOperation.WRITE, AclPermissionType.DENY);
        refused(() -> alice.createAcls(List.of(read)).all().get());
        admin.createAcls(List.of(read, write)).all().get();

        AclBindingFilter about =
                new AclBindingFilter(
                        new ResourcePatternFilter(ResourceType.TOPIC, topic, PatternType.MATCH),
                        AccessControlEntryFilter.ANY);
        equal(Set.of(read, write), Set.copyOf(admin.describeAcls(about).values().get()));
        var description =
                alice.describeTopics(
                                List.of(topic),
                                new DescribeTopicsOptions().includeAuthorizedOperations(true))
                        .allTopicNames()
                        .get()
                        .get(topic);
        equal(Set.of(AclOperation.READ, AclOperation.DESCRIBE), description.authorizedOperations());
        var operations =
                alice.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        equal(Set.of(), operations.authorizedOperations().get());

        Collection<AclBinding> removed = admin.deleteAcls(List.of(about)).all().get();
        equal(Set.of(read, write), Set.copyOf(removed));
        equal(Set.of(), Set.copyOf(admin.describeAcls(about).values().get()));
    }

    private AclBinding binding(
            ResourcePattern pattern, AclOperation operation, AclPermissionType permission) {
        return new AclBinding(
                pattern, new AccessControlEntry("User:alice", "*", operation, permission));
    }

    private void quotas(Admin admin) throws Exception {
        ClientQuotaEntity both =
                new ClientQuotaEntity(Map.of("user", topic, "client-id", "java"));
        ClientQuotaEntity each =
                new ClientQuotaEntity(java.util.Collections.singletonMap("client-id", null));
        alter(admin, both, "producer_byte_rate", 1e9);
        alter(admin, each, "request_percentage", 10_000.0);
        ClientQuotaFilter ofUser =
                ClientQuotaFilter.contains(
                        List.of(ClientQuotaFilterComponent.ofEntity("user", topic)));
        equal(
                Map.of(both, Map.of("producer_byte_rate", 1e9)),
                admin.describeClientQuotas(ofUser).entities().get());
        ClientQuotaFilter onlyDefault =
                ClientQuotaFilter.containsOnly(
                        List.of(ClientQuotaFilterComponent.ofDefaultEntity("client-id")));
        equal(
                Map.of(each, Map.of("request_percentage", 10_000.0)),
                admin.describeClientQuotas(onlyDefault).entities().get());
        alter(admin, both, "producer_byte_rate", null);
        alter(admin, each, "request_percentage", null);
        equal(Map.of(), admin.describeClientQuotas(ofUser).entities().get());
    }

    private void alter(Admin admin, ClientQuotaEntity entity, String key, Double value)
            throws Exception {
        var change = new ClientQuotaAlteration.Op(key, value);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change))))
                .all()
                .get();
    }

    private interface Attempt {
        void run() throws Exception;
    }

    private static void refused(Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof ClusterAuthorizationException) {
                return;
            }
            throw failure;
        }
        throw new AssertionError("it was not refused");
    }

    private static void equal(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }
}
