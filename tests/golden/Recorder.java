// Reads Kafka messages as kafka-clients does and prints them: proof that the recorded bytes are Kafka's own.
//
// One message per input line: "<api key> <request|response> <version> <hex>". One line of output for each:
// the bytes that kafka-clients writes for what it read, a space, and the fields as JSON.
// Needs kafka-clients, jackson-core, jackson-databind, jackson-annotations and slf4j-api on the class path.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

public class Recorder {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(words[0]));
            short version = Short.parseShort(words[2]);
            ApiMessage message = words[1].equals("request") ? type.newRequest() : type.newResponse();
            ByteBuffer input = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            message.read(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) {
                throw new IllegalArgumentException(input.remaining() + " bytes follow: " + line);
            }
            ByteBufferAccessor output = MessageUtil.toByteBufferAccessor(message, version);
            byte[] bytes = new byte[output.buffer().remaining()];
            output.buffer().get(bytes);
            Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
            Object json = converter.getMethod("write", message.getClass(), short.class).invoke(null, message, version);
            System.out.println(HexFormat.of().formatHex(bytes) + " " + json);
        }
    }
}
