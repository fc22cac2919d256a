"""The contestants in Python: LangChain, LlamaIndex and the OpenAI Agents SDK. Each runs in a process of its own."""

import asyncio
import gc
import importlib.metadata
import json
import sys
import time


class Work:
    """What is to be done. See Work in contestant.rs."""

    def __init__(self, kind, stored, script, length, appends, *_):
        self.kind, self.stored, self.appends = kind, int(stored), int(appends)
        sample = "The quick brown fox jumps over the lazy dog. "
        if script != "ascii":
            sample = "人人生而自由，在尊严和权利上一律平等。"
        length = int(length) - 8
        self.padding = (sample * (length // len(sample) + 1))[:length]

    def text(self, i):
        return f"{i:0>8}{self.padding}"


class LangChain:
    """A list of messages, trimmed by `trim_messages`."""

    name, package = "LangChain", "langchain-core"

    @staticmethod
    def cannot(work):
        return {"window": "counts when it is read", "truncated": "no truncation", "store": "no embedded store"}.get(work.kind)

    def __init__(self, work):
        from langchain_core.messages import AIMessage, HumanMessage, trim_messages

        self.history = []  # as an agent's state holds it
        self.kinds = HumanMessage, AIMessage
        self.trim = trim_messages
        self.limit, self.count = 10, len
        if work.kind == "tokens":
            self.limit, self.count = 1000 * 300 // 4, quarter
        self.appends = work.appends

    def fill(self, texts):
        self.history = [self.kinds[i % 2](text) for i, text in enumerate(texts)]

    def composed(self):
        return self.trim(self.history, max_tokens=self.limit, token_counter=self.count, strategy="last")

    def step(self, at, texts):
        for i, text in enumerate(texts, at):
            self.history.append(self.kinds[i % 2](text))
        return sum(len(message.content) for message in self.composed())

    def texts(self):
        return [message.content for message in self.composed()]

    @staticmethod
    def faults():
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages

        call = {"id": "call_1", "name": "weather", "args": {}}
        history = [AIMessage("", tool_calls=[call]), ToolMessage("sunny", tool_call_id="call_1")]
        history += [HumanMessage("later")] * 9
        opening = trim_messages(history, max_tokens=10, token_counter=len, strategy="last")[0]
        return ["plain tokens|opens on a tool result without its call, unless told where to start"] * (opening.type == "tool")


def quarter(messages):
    return sum(len(message.content) // 4 for message in messages)


class LlamaIndex:
    """`ChatMemoryBuffer`, whose window is of tokens only: for ten messages it is given the tokens of ten."""

    name, package = "LlamaIndex", "llama-index-core"

    @staticmethod
    def cannot(work):
        if work.kind == "plain" and (work.stored > 10_000 or work.stored > 1000 and not work.appends):
            return "quadratic: see the append at 10,000"
        return {"window": "counts when it is read", "truncated": "no truncation", "store": "no embedded store"}.get(work.kind)

    def __init__(self, work):
        from llama_index.core.base.llms.types import ChatMessage
        from llama_index.core.memory import ChatMemoryBuffer

        messages = 1000 if work.kind == "tokens" else 10
        # It counts the texts joined by a space; this is the count of so many and no more.
        limit = (messages * 300 + messages - 1) // 4
        self.buffer = ChatMemoryBuffer.from_defaults(
            token_limit=limit, tokenizer_fn=lambda text: range(len(text) // 4)
        )
        self.message = ChatMessage
        self.appends = work.appends

    def fill(self, texts):
        self.buffer.set([self.message(role=ROLES[i % 2], content=text) for i, text in enumerate(texts)])

    def step(self, at, texts):
        for i, text in enumerate(texts, at):
            self.buffer.put(self.message(role=ROLES[i % 2], content=text))
        return sum(len(message.content) for message in self.buffer.get())

    def texts(self):
        return [message.content for message in self.buffer.get()]

    @staticmethod
    def faults():
        chat = LlamaIndex(Work("plain", 11, "ascii", 300, 1))
        chat.fill([Work("plain", 11, "ascii", 300, 1).text(i) for i in range(11)])
        return ["plain tokens|never opens on an assistant's message: sends one less every other time"] * (len(chat.texts()) == 9)


ROLES = "user", "assistant"


class OpenAiAgents:
    """`SQLiteSession`, in a file."""

    name, package = "OpenAI Agents", "openai-agents"

    @staticmethod
    def cannot(work):
        return None if work.kind == "store" else ""

    def __init__(self, work):
        from agents import SQLiteSession

        self.session = SQLiteSession("support:u1001:c2002", "openai-agents.db")
        self.loop = asyncio.new_event_loop()
        self.appends = work.appends

    def fill(self, texts):
        self.loop.run_until_complete(self.session.clear_session())
        items = [{"role": ROLES[i % 2], "content": text} for i, text in enumerate(texts)]
        self.loop.run_until_complete(self.session.add_items(items))

    def step(self, at, texts):
        return self.loop.run_until_complete(self.astep(at, texts))

    async def astep(self, at, texts):
        if texts:
            await self.session.add_items([{"role": ROLES[i % 2], "content": text} for i, text in enumerate(texts, at)])
        return sum(len(item["content"]) for item in await self.session.get_items(limit=10))

    def texts(self):
        items = self.loop.run_until_complete(self.session.get_items(limit=10))
        return [item["content"] for item in items]

    @staticmethod
    def faults():
        from agents import SQLiteSession

        async def opening():
            session = SQLiteSession("tools")  # in memory
            items = [
                {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
            ]
            await session.add_items(items + [{"role": "user", "content": "later"}] * 9)
            return (await session.get_items(limit=10))[0]

        orphan = asyncio.run(opening()).get("type") == "function_call_output"
        return ["store|opens on a tool result without its call"] * orphan


CONTESTANTS = {"langchain": LangChain, "llama-index": LlamaIndex, "openai-agents": OpenAiAgents}


class Run:
    """The clock and the answers; as in contestant.rs."""

    def __init__(self, kind, work):
        self.kind, self.work = kind, work
        self.chat, self.at, self.block = None, 0, 1

    def begin(self):
        if self.chat is None:
            self.chat = self.kind(self.work)
            self.chat.fill([self.work.text(i) for i in range(self.work.stored)])
            self.at = self.work.stored
        return self.chat

    def steps(self, steps):
        appends = self.work.appends
        if self.at + steps * appends > 2 * self.work.stored:
            self.chat = None
        step = self.begin().step
        batches = []
        for _ in range(steps):
            batches.append((self.at, [self.work.text(self.at + i) for i in range(appends)]))
            self.at += appends
        start = time.perf_counter_ns()
        for at, texts in batches:
            step(at, texts)
        return time.perf_counter_ns() - start

    def prepare(self, warm):
        before = fnv(self.begin().texts())
        first = self.steps(1)
        after = fnv(self.chat.texts())
        if first < warm:
            self.measure(warm)
        return {"check": f"{before:016x} {after:016x}"}

    def measure(self, nanos):
        spent = calls = 0
        while calls == 0 or spent < nanos:
            took = self.steps(self.block)
            spent += took
            calls += self.block
            if took < 100_000:
                self.block = min(self.block * 2, self.work.stored, 4096)
        return {"value": spent / calls}

    def memory(self):
        self.work.stored = min(self.work.stored, 100_000)
        gc.collect()
        before = resident()
        self.begin()
        gc.collect()
        return {"value": (resident() - before) / self.work.stored, "note": f"of {self.work.stored:,}"}


def fnv(texts):
    value = 0xCBF29CE484222325
    for byte in "".join(text + "\0" for text in texts).encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def resident():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def main():
    if sys.argv[1] == "list":
        for name, kind in CONTESTANTS.items():
            version = importlib.metadata.version(kind.package)
            print(json.dumps({"id": name, "name": kind.name, "version": version}))
        return
    kind = CONTESTANTS[sys.argv[1]]
    run = None
    for line in sys.stdin:
        verb, *words = line.split()
        answer = {}
        if verb == "faults":
            answer = {"faults": kind.faults()}
        elif verb in ("prepare", "memory"):
            run = Run(kind, Work(*words))
            reason = kind.cannot(run.work)
            if reason is not None:
                answer = {"cannot": reason}
            else:
                kind(run.work)  # so that no import is measured
                answer = run.memory() if verb == "memory" else run.prepare(int(words[5]) * 1_000_000)
        elif verb == "measure":
            answer = run.measure(int(words[0]) * 1_000_000)
        else:
            run = None
            gc.collect()
        print(json.dumps(answer), flush=True)


main()
