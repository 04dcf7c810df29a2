// Writes the same records in every compression as kafka-clients does, and reads batches that others wrote.
//
// Without input: prints "<compression> <hex of a batch>" for each compression. With lines of hex on standard
// input (argument "read"): prints each record as "offset timestamp key value header=value,...".
// Needs kafka-clients, lz4-java, snappy-java, zstd-jni and slf4j-api on the class path.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;

public class Batches {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            write();
        } else {
            read();
        }
    }

    private static void write() {
        SimpleRecord[] records = new SimpleRecord[4];
        records[0] = new SimpleRecord(1_700_000_000_000L, bytes("key"), bytes("value"));
        records[1] = new SimpleRecord(1_700_000_000_500L, null, bytes("x".repeat(300)));
        records[2] = new SimpleRecord(1_699_999_999_000L, bytes("gone"), null);
        Header[] headers = {new RecordHeader("trace", bytes("1")), new RecordHeader("nothing", (byte[]) null)};
        records[3] = new SimpleRecord(1_700_000_000_001L, bytes(""), bytes(""), headers);
        for (CompressionType type : CompressionType.values()) {
            ByteBuffer buffer = MemoryRecords.withRecords(40L, Compression.of(type).build(), records).buffer();
            byte[] batch = new byte[buffer.remaining()];
            buffer.get(batch);
            System.out.println(type.name + " " + HexFormat.of().formatHex(batch));
        }
    }

    private static void read() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            MemoryRecords batches = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(line)));
            batches.batches().forEach(batch -> batch.ensureValid());
            for (Record record : batches.records()) {
                StringBuilder out = new StringBuilder();
                out.append(record.offset()).append(' ').append(record.timestamp());
                out.append(' ').append(text(record.key())).append(' ').append(text(record.value()));
                for (Header header : record.headers()) {
                    byte[] value = header.value();
                    out.append(' ').append(header.key()).append('=').append(value == null ? null : text(ByteBuffer.wrap(value)));
                }
                System.out.println(out);
            }
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(ByteBuffer buffer) {
        return buffer == null ? "null" : "'" + StandardCharsets.UTF_8.decode(buffer) + "'";
    }
}
