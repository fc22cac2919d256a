import com.agentsflex.core.memory.DefaultChatMemory;
import com.agentsflex.core.message.AiMessage;
import com.agentsflex.core.message.Message;
import com.agentsflex.core.message.SystemMessage;
import com.agentsflex.core.message.ToolCall;
import com.agentsflex.core.message.ToolMessage;
import com.agentsflex.core.message.UserMessage;
import com.agentsflex.core.prompt.MemoryPrompt;
import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.ChatMessageDeserializer;
import dev.langchain4j.data.message.ChatMessageSerializer;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.memory.ChatMemory;
import dev.langchain4j.memory.chat.MessageWindowChatMemory;
import dev.langchain4j.memory.chat.TokenWindowChatMemory;
import dev.langchain4j.model.TokenCountEstimator;
import dev.langchain4j.store.memory.chat.ChatMemoryStore;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** The contestants in Java: Agents-Flex and LangChain4j. Each runs in a JVM of its own. */
public final class Peers {
    /** One conversation of a contestant, set up for one work. See Chat in contestant.rs. */
    interface Chat {
        void fill(List<String> texts) throws Exception;

        long step(int at, String[] texts, int from) throws Exception;

        List<String> texts() throws Exception;
    }

    record Work(String kind, int stored, int appends, String padding) {
        static Work of(String[] words) {
            String sample = words[3].equals("ascii")
                    ? "The quick brown fox jumps over the lazy dog. "
                    : "人人生而自由，在尊严和权利上一律平等。";
            int length = Integer.parseInt(words[4]) - 8;
            String padding = sample.repeat(length / sample.length() + 1).substring(0, length);
            return new Work(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[5]), padding);
        }

        String text(int i) {
            String number = Integer.toString(i);
            return "0".repeat(8 - number.length()) + number + padding;
        }
    }

    /** A contestant answers a work with how to begin its conversation, or with the reason why it can't. */
    interface Contestant {
        Object make(Work work);

        List<String> faults() throws Exception;
    }

    record Entry(String name, Class<?> from, Contestant contestant) {
        /** The version, as the name of the jar has it. */
        String version() {
            String jar = Path.of(from.getProtectionDomain().getCodeSource().getLocation().getPath())
                    .getFileName().toString();
            return jar.replaceFirst("^[a-z0-9-]*?-(?=\\d+\\.)", "").replace(".jar", "");
        }
    }

    static final Map<String, Entry> CONTESTANTS = new LinkedHashMap<>();

    static {
        CONTESTANTS.put("agents-flex",
                new Entry("Agents-Flex", MemoryPrompt.class, new AgentsFlex(false)));
        CONTESTANTS.put("agents-flex-copy",
                new Entry("Agents-Flex, memory handing out copies", MemoryPrompt.class, new AgentsFlex(true)));
        CONTESTANTS.put("langchain4j",
                new Entry("LangChain4j", ChatMemory.class, new Window(Integer.MAX_VALUE)));
        CONTESTANTS.put("langchain4j-10",
                new Entry("LangChain4j, window of 10", ChatMemory.class, new Window(10)));
        CONTESTANTS.put("langchain4j-tokens",
                new Entry("LangChain4j, token window", ChatMemory.class, new Tokens()));
        CONTESTANTS.put("langchain4j-json",
                new Entry("LangChain4j, JSON in SQLite", ChatMemory.class, new Json(Integer.MAX_VALUE)));
        CONTESTANTS.put("langchain4j-json-10",
                new Entry("LangChain4j, window of 10, JSON in SQLite", ChatMemory.class, new Json(10)));
    }

    // Agents-Flex

    record AgentsFlex(boolean copies) implements Contestant {
        @Override
        public Object make(Work work) {
            if (List.of("plain", "truncated").contains(work.kind) || work.kind.equals("memory") && !copies) {
                return (Supplier<Chat>) () -> new AgentsFlexChat(work, copies);
            }
            return copies ? "" : work.kind.equals("store") ? "no embedded store" : "no token window";
        }

        @Override
        public List<String> faults() {
            List<String> faults = new ArrayList<>();
            MemoryPrompt prompt = new MemoryPrompt();
            AiMessage call = new AiMessage();
            call.setToolCalls(List.of(new ToolCall("call_1", "weather", "{}")));
            ToolMessage result = new ToolMessage();
            result.setToolCallId("call_1");
            result.setContent("sunny");
            prompt.addMessage(call);
            prompt.addMessage(result);
            for (int i = 0; i < 9; i++) {
                prompt.addMessage(new UserMessage("later"));
            }
            if (prompt.getMessages().get(0) instanceof ToolMessage) {
                faults.add("plain truncated|opens on a tool result without its call");
            }
            prompt = new MemoryPrompt(copies ? new Copies() : new DefaultChatMemory());
            for (int i = 0; i < 11; i++) {
                prompt.addMessage(new UserMessage("question"));
            }
            List<Message> composed = prompt.getMessages();
            prompt.addMessage(new AiMessage("answer"));
            try {
                composed.get(0);
            } catch (ConcurrentModificationException e) {
                faults.add("plain truncated|hands out a view of the history, which can't be read once the next message is added");
            }
            prompt = new MemoryPrompt(copies ? new Copies() : new DefaultChatMemory());
            prompt.setHistoryMessageTruncateEnable(true);
            for (int i = 0; i < 11; i++) {
                prompt.addMessage(new UserMessage("x" + "👩‍👩‍👧".repeat(1001)));
            }
            String cut = prompt.getMessages().get(9).getTextContent();
            if (!cut.endsWith("👩‍👩‍👧")) {
                boolean half = Character.isHighSurrogate(cut.charAt(cut.length() - 1));
                faults.add("truncated|cuts a character in two" + (half ? ", here in the middle of a surrogate pair" : ""));
            }
            if (prompt.getMemory().getMessages(1).get(0).getTextContent().length() == 1000) {
                faults.add("truncated|writes the cut text over what is stored");
            }
            prompt.addMessage(new AiMessage("x".repeat(20_000)));
            if (prompt.getMessages().get(9).getTextContent().length() == 20_000) {
                faults.add("truncated|does not cut an assistant's message (so all messages are the user's where this table truncates)");
            }
            prompt.setSystemMessage(new SystemMessage("Be brief."));
            prompt.addMessageTemporary(new UserMessage("once"));
            prompt.getMessages();
            if (prompt.getMemory().getMessages(100).size() != 12) {
                faults.add("plain truncated|writes the system message and temporary messages into the history");
            }
            return faults;
        }
    }

    /** What it takes to keep {@code MemoryPrompt} from writing into the history: its own memory hands out a view. */
    static final class Copies extends DefaultChatMemory {
        @Override
        public List<Message> getMessages(int count) {
            return new ArrayList<>(super.getMessages(count));
        }
    }

    static final class AgentsFlexChat implements Chat {
        private final MemoryPrompt prompt;
        private final int appends;
        private final boolean allUser;

        AgentsFlexChat(Work work, boolean copies) {
            prompt = new MemoryPrompt(copies ? new Copies() : new DefaultChatMemory());
            appends = work.appends;
            allUser = work.kind.equals("truncated");
            prompt.setHistoryMessageTruncateEnable(allUser);
        }

        private Message message(int i, String text) {
            return allUser || i % 2 == 0 ? new UserMessage(text) : new AiMessage(text);
        }

        @Override
        public void fill(List<String> texts) {
            for (int i = 0; i < texts.size(); i++) {
                prompt.addMessage(message(i, texts.get(i)));
            }
        }

        @Override
        public long step(int at, String[] texts, int from) {
            for (int i = 0; i < appends; i++) {
                prompt.addMessage(message(at + i, texts[from + i]));
            }
            List<Message> messages = prompt.getMessages();
            composed = messages;
            long length = 0;
            for (Message message : messages) {
                length += message.getTextContent().length();
            }
            return length;
        }

        @Override
        public List<String> texts() {
            return prompt.getMessages().stream().map(Message::getTextContent).toList();
        }
    }

    // LangChain4j

    static ChatMessage message(int i, String text) {
        return i % 2 == 0
                ? dev.langchain4j.data.message.UserMessage.from(text)
                : dev.langchain4j.data.message.AiMessage.from(text);
    }

    static String text(ChatMessage message) {
        return message instanceof dev.langchain4j.data.message.UserMessage user
                ? user.singleText()
                : ((dev.langchain4j.data.message.AiMessage) message).text();
    }

    /** The last messages of a memory that holds so many. */
    record Last(ChatMemory memory, int holds, int last, int appends, boolean reads) implements Chat {
        @Override
        public void fill(List<String> texts) {
            // At once, and no more than is kept: one by one, each append copies what is there.
            List<ChatMessage> messages = new ArrayList<>();
            for (int i = Math.max(0, texts.size() - holds); i < texts.size(); i++) {
                messages.add(message(i, texts.get(i)));
            }
            ChatMessage newest = messages.remove(messages.size() - 1);
            memory.set(messages);
            memory.add(newest); // as each append leaves it
        }

        private List<ChatMessage> composed() {
            List<ChatMessage> messages = memory.messages();
            return messages.subList(messages.size() - last, messages.size());
        }

        @Override
        public long step(int at, String[] texts, int from) {
            for (int i = 0; i < appends; i++) {
                memory.add(message(at + i, texts[from + i]));
            }
            if (!reads) {
                return 0;
            }
            List<ChatMessage> messages = composed();
            composed = messages;
            long length = 0;
            for (ChatMessage message : messages) {
                length += text(message).length();
            }
            return length;
        }

        @Override
        public List<String> texts() {
            return composed().stream().map(Peers::text).toList();
        }
    }

    static List<String> langChain4jFaults(int max) {
        ChatMemory memory = MessageWindowChatMemory.withMaxMessages(10);
        memory.add(dev.langchain4j.data.message.AiMessage.from(
                ToolExecutionRequest.builder().id("call_1").name("weather").arguments("{}").build()));
        memory.add(ToolExecutionResultMessage.from("call_1", "weather", "sunny"));
        for (int i = 0; i < 9; i++) {
            memory.add(message(i, "later"));
        }
        List<String> faults = new ArrayList<>();
        if (memory.messages().get(0) instanceof ToolExecutionResultMessage) {
            faults.add("plain store|opens on a tool result without its call");
        }
        faults.add("plain store|" + (max == 10
                ? "keeps 10 messages: what was before them is gone, so there are never more stored"
                : "hands out the whole history, of which the last 10 are taken"));
        return faults;
    }

    record Window(int max) implements Contestant {
        @Override
        public Object make(Work work) {
            if (max == 10 && (!work.kind.equals("plain") || work.stored > 100)) {
                return "";
            }
            if (!List.of("plain", "memory").contains(work.kind)) {
                return work.kind.equals("truncated") ? "no truncation" : "";
            }
            return (Supplier<Chat>) () ->
                    new Last(MessageWindowChatMemory.withMaxMessages(max), max, 10, work.appends, true);
        }

        @Override
        public List<String> faults() {
            return langChain4jFaults(max);
        }
    }

    record Tokens() implements Contestant {
        @Override
        public Object make(Work work) {
            if (!List.of("window", "tokens").contains(work.kind)) {
                return "";
            }
            boolean reads = work.kind.equals("tokens");
            return (Supplier<Chat>) () -> {
                ChatMemory memory = TokenWindowChatMemory.withMaxTokens(1000 * 300 / 4, new Quarter());
                return new Last(memory, 1000, 1000, work.appends, reads);
            };
        }

        @Override
        public List<String> faults() {
            return List.of();
        }
    }

    static final class Quarter implements TokenCountEstimator {
        @Override
        public int estimateTokenCountInText(String text) {
            return text.length() / 4;
        }

        @Override
        public int estimateTokenCountInMessage(ChatMessage message) {
            return text(message).length() / 4;
        }

        @Override
        public int estimateTokenCountInMessages(Iterable<ChatMessage> messages) {
            int sum = 0;
            for (ChatMessage message : messages) {
                sum += estimateTokenCountInMessage(message);
            }
            return sum;
        }
    }

    record Json(int max) implements Contestant {
        @Override
        public Object make(Work work) {
            if (!work.kind.equals("store")) {
                return "";
            }
            return (Supplier<Chat>) () -> {
                ChatMemory memory = MessageWindowChatMemory.builder().id("support:u1001:c2002").maxMessages(max)
                        .chatMemoryStore(new JsonStore(max == 10 ? "langchain4j-10.db" : "langchain4j.db")).build();
                return new Last(memory, max, 10, work.appends, true);
            };
        }

        @Override
        public List<String> faults() {
            List<String> faults = langChain4jFaults(max);
            faults.add("store|one row a conversation, read and written whole by each message");
            return faults;
        }
    }

    /** A store as LangChain4j's documentation shows it: the messages as JSON, under the id of the memory. */
    static final class JsonStore implements ChatMemoryStore {
        private final PreparedStatement select;
        private final PreparedStatement update;

        JsonStore(String path) {
            try {
                Connection connection =
                        DriverManager.getConnection("jdbc:sqlite:" + path + "?journal_mode=WAL&synchronous=FULL");
                try (Statement create = connection.createStatement()) {
                    create.execute("CREATE TABLE IF NOT EXISTS memory (id TEXT PRIMARY KEY, json TEXT)");
                }
                select = connection.prepareStatement("SELECT json FROM memory WHERE id = ?");
                update = connection.prepareStatement("INSERT OR REPLACE INTO memory VALUES (?, ?)");
            } catch (SQLException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public List<ChatMessage> getMessages(Object id) {
            try {
                select.setString(1, id.toString());
                try (ResultSet rows = select.executeQuery()) {
                    return rows.next() ? ChatMessageDeserializer.messagesFromJson(rows.getString(1)) : List.of();
                }
            } catch (SQLException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void updateMessages(Object id, List<ChatMessage> messages) {
            try {
                update.setString(1, id.toString());
                update.setString(2, ChatMessageSerializer.messagesToJson(messages));
                update.executeUpdate();
            } catch (SQLException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void deleteMessages(Object id) {
            throw new UnsupportedOperationException("nothing here deletes");
        }
    }

    // The clock and the answers; as in contestant.rs

    static final class Run {
        private final Work work;
        private final Supplier<Chat> make;
        private Chat chat;
        private int at;
        private int block = 1;

        Run(Work work, Supplier<Chat> make) {
            this.work = work;
            this.make = make;
        }

        Chat chat() throws Exception {
            if (chat == null) {
                chat = make.get();
                List<String> texts = new ArrayList<>(work.stored);
                for (int i = 0; i < work.stored; i++) {
                    texts.add(work.text(i));
                }
                chat.fill(texts);
                at = work.stored;
            }
            return chat;
        }

        long steps(int steps) throws Exception {
            int appends = work.appends;
            if ((long) at + (long) steps * appends > 2L * work.stored) {
                chat = null;
            }
            Chat chat = chat();
            String[] texts = new String[steps * appends];
            for (int i = 0; i < texts.length; i++) {
                texts[i] = work.text(at + i);
            }
            int from = at;
            at += texts.length;
            long start = System.nanoTime();
            long length = loop(chat, steps, from, texts, appends);
            long took = System.nanoTime() - start;
            sink += length;
            return took;
        }

        /** Apart, so that the JVM compiles it as a method and not only in the middle of one. */
        static long loop(Chat chat, int steps, int at, String[] texts, int appends) throws Exception {
            long length = 0;
            for (int i = 0; i < steps; i++) {
                length += chat.step(at + i * appends, texts, i * appends);
            }
            return length;
        }

        String prepare(long warmMillis) throws Exception {
            long before = hash(chat().texts());
            long first = steps(1);
            long after = hash(chat().texts());
            if (first < warmMillis * 1_000_000) {
                measure(warmMillis);
            }
            return String.format("{\"check\": \"%016x %016x\"}", before, after);
        }

        String measure(long millis) throws Exception {
            long spent = 0;
            long calls = 0;
            while (calls == 0 || spent < millis * 1_000_000) {
                long took = steps(block);
                spent += took;
                calls += block;
                if (took < 100_000) {
                    block = Math.min(Math.min(block * 2, work.stored), 4096);
                }
            }
            return "{\"value\": " + (double) spent / calls + "}";
        }

        String memory() throws Exception {
            long before = used();
            chat();
            return "{\"value\": " + (double) (used() - before) / work.stored + "}";
        }
    }

    /** What was composed last is handed out, as it is to whoever sends it: the JVM can't leave it out. */
    static Object composed;

    static volatile long sink;

    /** What is still in use when everything else has been collected. */
    static long used() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(50);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    static long hash(List<String> texts) {
        long hash = 0xcbf29ce484222325L;
        for (String text : texts) {
            for (byte b : (text + "\0").getBytes(StandardCharsets.UTF_8)) {
                hash = (hash ^ (b & 0xff)) * 0x100000001b3L;
            }
        }
        return hash;
    }

    static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] args) throws Exception {
        if (args[0].equals("list")) {
            CONTESTANTS.forEach((id, entry) -> System.out.printf("{\"id\": %s, \"name\": %s, \"version\": %s}%n",
                    quoted(id), quoted(entry.name), quoted(entry.version())));
            return;
        }
        Contestant contestant = CONTESTANTS.get(args[0]).contestant;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Run run = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            String answer = switch (words[0]) {
                case "faults" -> "{\"faults\": [" + String.join(", ",
                        contestant.faults().stream().map(Peers::quoted).toList()) + "]}";
                case "prepare", "memory" -> {
                    Work work = Work.of(words);
                    if (contestant.make(work) instanceof Supplier<?> make) {
                        run = new Run(work, (Supplier<Chat>) make);
                        yield words[0].equals("memory") ? run.memory() : run.prepare(Long.parseLong(words[6]));
                    }
                    yield "{\"cannot\": " + quoted((String) contestant.make(work)) + "}";
                }
                case "measure" -> run.measure(Long.parseLong(words[1]));
                default -> {
                    run = null;
                    System.gc();
                    yield "{}";
                }
            };
            System.out.println(answer);
        }
    }
}
