import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.ChatMessageDeserializer;
import dev.langchain4j.data.message.ChatMessageSerializer;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Reads conversations as LangChain4j does, one a line, and writes each again. Ends at the first that it
 * can't read, and says why.
 */
class Reader {
    public static void main(String[] none) throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            try {
                List<ChatMessage> messages = ChatMessageDeserializer.messagesFromJson(line);
                out.write(ChatMessageSerializer.messagesToJson(messages));
            } catch (RuntimeException error) {
                out.write("refused: " + String.valueOf(error).replaceAll("\\s+", " "));
            }
            out.newLine();
        }
        out.flush();
    }
}
