// Checks whole requests with the providers' own JavaScript clients.
//
// Reads JSON lines, {"provider": .., "body": ..}, from standard input; prints how many of each provider it
// checked and fails at the first that is refused. Nothing leaves the process and no key is needed.
//
// - @mistralai/mistralai and @google/genai turn what they are given into a body: its parts are handed to the
//   real client, and what that would send must be the body that was written. Their checks throw.
// - openai and @anthropic-ai/sdk send what they are given. They have types instead, so the bodies are written
//   into TypeScript, one a line, and the compiler refuses unknown fields, missing ones and wrong kinds.
//   So are those of @google/genai, where a client passes on what it doesn't know.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";

import { GoogleGenAI } from "@google/genai";
import { Mistral } from "@mistralai/mistralai";
import { HTTPClient } from "@mistralai/mistralai/lib/http.js";

// ---- what the clients send ------------------------------------------------------------------------

class Sent extends Error {
    constructor(body) {
        super("sent");
        this.body = body;
    }
}

/** Returns the body that a call of a client would send. */
async function sent(call) {
    try {
        await call();
    } catch (error) {
        for (let it = error; it; it = it.cause) if (it instanceof Sent) return it.body;
        throw error;
    }
    throw new Error("nothing was sent");
}

/** All that was written is in what is sent; a client may add what it knows to be the default. */
function holds(written, sent, path = "body") {
    if (Array.isArray(written) && Array.isArray(sent) && written.length === sent.length) {
        return written.forEach((it, i) => holds(it, sent[i], `${path}[${i}]`));
    }
    const isObject = (it) => it !== null && typeof it === "object" && !Array.isArray(it);
    if (isObject(written) && isObject(sent)) {
        return Object.keys(written).forEach((key) => holds(written[key], sent[key], `${path}.${key}`));
    }
    if (!isDeepStrictEqual(written, sent)) {
        throw new Error(`${path}: ${JSON.stringify(written)} was written, ${JSON.stringify(sent)} is sent`);
    }
}

/** The names that the client has for the fields: those of the application's own schemas stay. */
function camel(value) {
    if (Array.isArray(value)) return value.map(camel);
    if (value === null || typeof value !== "object") return value;
    const name = (key) => key.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
    return Object.fromEntries(
        Object.entries(value).map(([key, it]) => [name(key), key === "parameters" ? it : camel(it)]),
    );
}

const fetcher = async (request) => {
    throw new Sent(await request.json());
};
const mistral = new Mistral({ apiKey: "none", httpClient: new HTTPClient({ fetcher }) });

globalThis.fetch = async (_, { body }) => {
    throw new Sent(JSON.parse(body));
};
const google = new GoogleGenAI({ apiKey: "none" });

const CLIENTS = {
    async mistral(body) {
        const { stream, ...asked } = camel(body);
        const call = stream ? mistral.chat.stream(asked) : mistral.chat.complete(asked);
        holds(body, await sent(() => call));
    },
    async gemini({ contents, systemInstruction, tools, toolConfig, generationConfig }) {
        const config = { systemInstruction, tools, toolConfig, ...generationConfig };
        const asked = { model: "m", contents, config };
        const body = await sent(() => google.models.generateContent(asked));
        const written = { contents, systemInstruction, tools, toolConfig, generationConfig };
        for (const key in written) if (written[key] !== undefined) holds(written[key], body[key], key);
    },
};

// ---- the types of the clients ---------------------------------------------------------------------

const TYPES = {
    openai: ["openai/resources/chat/completions", "ChatCompletionCreateParams"],
    openai_responses: ["openai/resources/responses/responses", "ResponseCreateParams"],
    anthropic: ["@anthropic-ai/sdk/resources/messages", "MessageCreateParams"],
    gemini: [
        "@google/genai",
        "Content, GenerationConfig, Tool, ToolConfig",
        // Its enums are names of strings, and JSON has the strings.
        "Plain<{ contents: Content[]; systemInstruction?: Content; tools?: Tool[]; toolConfig?: ToolConfig; " +
            "generationConfig?: GenerationConfig }>; type Plain<T> = T extends string ? `${T}` : " +
            "T extends object ? { [K in keyof T]: Plain<T[K]> } : T",
    ],
};
const A_FILE = 500;

/** A line of TypeScript a body. */
function typed(provider, bodies) {
    const [module, names, type] = TYPES[provider];
    const lines = bodies.map((body) => `(${JSON.stringify(body)}) satisfies Body;`);
    return `import type { ${names} } from "${module}"; type Body = ${type ?? names};\n${lines.join("\n")}\n`;
}

/** Returns what the compiler says of these, by name. */
function compiled(folder, files) {
    mkdirSync(folder, { recursive: true });
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, `${name}.ts`), text);
    const options = { strict: true, noEmit: true, skipLibCheck: true, module: "nodenext", target: "es2022" };
    const project = { compilerOptions: { ...options, types: [] }, include: ["*.ts"] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(project));
    writeFileSync(join(folder, "package.json"), '{"type": "module"}');
    const tsc = join(import.meta.dirname, "node_modules/typescript/bin/tsc");
    try {
        execFileSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8", maxBuffer: 1 << 28 });
        return "";
    } catch (error) {
        return error.stdout;
    }
}

// ---- what must be refused -------------------------------------------------------------------------

const USER = { role: "user", content: "hi" };
const chat = (...messages) => ({ model: "m", max_tokens: 1, messages });
const turn = (...parts) => ({ contents: [{ role: "user", parts }] });
const CALL = { type: "function", id: "call00001", function: { name: "look", arguments: "{}" } };

const WRONG = [
    ["mistral", chat({ ...USER, name: "ada" })],
    ["mistral", chat({ role: "user", content: [{ type: "text", text: 7 }] })],
    ["mistral", chat({ role: "assistant", tool_calls: [{ ...CALL, function: { name: "look" } }] })],
    ["mistral", chat({ role: "assistant", content: "hi", reasoning_content: "hm" })],
    ["mistral", { ...chat(USER), tool_choice: 7 }],
    ["openai", chat({ ...USER, extra: 1 })],
    ["openai", chat({ role: "tool", content: "hi" })],
    ["openai", chat({ role: "user", content: [{ type: "video", url: "x" }] })],
    ["openai", chat({ role: "assistant", tool_calls: [{ ...CALL, function: { name: "look", arguments: {} } }] })],
    ["openai_responses", { model: "m", input: [{ type: "function_call", call_id: "c", name: "look" }] }],
    ["openai_responses", { model: "m", input: [{ role: "user", content: [{ type: "input_text" }] }] }],
    ["openai_responses", { model: "m", input: [{ type: "reasoning", id: "r", summary: "hm" }] }],
    ["anthropic", chat({ role: "user", content: [{ type: "text", txt: "hi" }] })],
    ["anthropic", chat({ role: "user", content: [{ type: "tool_result", content: "x" }] })],
    ["anthropic", { model: "m", messages: [USER] }],
    ["gemini", turn({ txt: "hi" })],
    ["gemini", turn({ inlineData: { mimeType: 7 } })],
    ["gemini", { ...turn({ text: "hi" }), toolConfig: { functionCallingConfig: { names: [] } } }],
];
const RIGHT = [
    ["mistral", chat(USER, { role: "assistant", content: "", tool_calls: [CALL] })],
    ["openai", chat(USER, { role: "assistant", tool_calls: [CALL] })],
    ["openai_responses", { model: "m", input: [USER] }],
    ["anthropic", chat(USER)],
    ["gemini", turn({ text: "hi" })],
];

async function selfTest(folder) {
    for (const [provider, body] of RIGHT) await CLIENTS[provider]?.(body);
    const refused = async (call) => call.then(() => false, () => true);
    const files = {};
    for (const [i, [provider, body]] of WRONG.entries()) {
        if (provider in TYPES) files[`wrong${i}`] = typed(provider, [body]);
        else if (!(await refused(CLIENTS[provider](body)))) fail(`${provider} accepts`, body);
    }
    for (const [i, [provider, body]] of RIGHT.entries()) {
        if (provider in TYPES) files[`right${i}`] = typed(provider, [body]);
    }
    const told = compiled(join(folder, "wrong"), files);
    for (const name in files) {
        if (told.includes(`${name}.ts(`) !== name.startsWith("wrong")) fail(`the types of ${name}`, files[name], told);
    }
}

function fail(what, body, why = "") {
    console.log(`${what}: ${why}\n${JSON.stringify(body)}`);
    process.exit(1);
}

async function main() {
    const folder = mkdtempSync(join(import.meta.dirname, "typed-"));
    process.on("exit", () => rmSync(folder, { recursive: true }));
    await selfTest(folder);
    const counts = {};
    const waiting = {};
    const files = {};
    const flush = (provider) => {
        const bodies = waiting[provider].splice(0);
        if (bodies.length) files[`${provider}_${counts[provider]}`] = typed(provider, bodies);
    };
    for await (const line of createInterface({ input: process.stdin })) {
        const { provider, body } = JSON.parse(line);
        try {
            await CLIENTS[provider]?.(body);
        } catch (error) {
            fail(provider, body, error);
        }
        counts[provider] = (counts[provider] ?? 0) + 1;
        if (provider in TYPES) {
            (waiting[provider] ??= []).push(body);
            if (waiting[provider].length === A_FILE) flush(provider);
        }
    }
    Object.keys(waiting).forEach(flush);
    const told = Object.keys(files).length ? compiled(join(folder, "right"), files) : "";
    if (told) {
        const [, name, line] = /(\w+)\.ts\((\d+),/.exec(told) ?? [];
        fail("the types refuse", files[name]?.split("\n")[line - 1], told.slice(0, 2000));
    }
    for (const [provider, count] of Object.entries(counts)) console.log(`${provider} ${count}`);
}

await main();
