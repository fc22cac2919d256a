"""Talks to the stub server of the tests with a provider's own Python client.

    clients.py CLIENT URL KEY

Nothing leaves the machine. The stub's script is in `tests/life/transport/clients.rs`: a text, the same
streamed, a call, the same streamed, an answer that comes after a 429 and a 500, and one more stream.
"""

import json
import sys

TEXT = "It is sunny in Oslo, 21 °C."
CALL = ("weather", {"city": "Oslo", "days": 2})
ASKED = [{"role": "user", "content": "What is the weather in Oslo?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}


def same(found, expected):
    if found != expected:
        sys.exit(f"expected {expected!r}, found {found!r}")


def openai(url, key):
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=2)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]

    def ask(**more):
        return client.chat.completions.create(model="m-1", messages=ASKED, tools=tools, **more)

    def streamed():
        chunks = list(ask(stream=True, stream_options={"include_usage": True}))
        same(chunks[-1].usage.total_tokens, 12)
        return [chunk.choices[0].delta for chunk in chunks if chunk.choices], chunks[-2].choices[0]

    answer = ask()
    same((answer.choices[0].message.content, answer.choices[0].finish_reason), (TEXT, "stop"))
    same((answer.usage.prompt_tokens, answer.usage.completion_tokens), (9, 3))
    deltas, last = streamed()
    same(("".join(delta.content or "" for delta in deltas), last.finish_reason), (TEXT, "stop"))
    answer = ask()
    (call,) = answer.choices[0].message.tool_calls
    same((call.function.name, json.loads(call.function.arguments)), CALL)
    same(answer.choices[0].finish_reason, "tool_calls")
    deltas, last = streamed()
    calls = [call for delta in deltas for call in delta.tool_calls or []]
    arguments = "".join(call.function.arguments for call in calls)
    same((calls[0].function.name, json.loads(arguments)), CALL)
    same((last.finish_reason, bool(calls[0].id)), ("tool_calls", True))
    same(ask().choices[0].message.content, TEXT)
    deltas, _ = streamed()
    same("".join(delta.content or "" for delta in deltas), TEXT)


def openai_responses(url, key):
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=2)
    tools = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    asked = {"model": "m-1", "input": ASKED, "tools": tools}

    def streamed():
        with client.responses.stream(**asked) as stream:
            events = list(stream)
            return events, stream.get_final_response()

    answer = client.responses.create(**asked)
    same((answer.output_text, answer.status, answer.usage.total_tokens), (TEXT, "completed", 12))
    events, answer = streamed()
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    same(("".join(deltas), answer.output_text), (TEXT, TEXT))
    (call,) = client.responses.create(**asked).output
    same((call.name, json.loads(call.arguments)), CALL)
    _, answer = streamed()
    same((answer.output[0].name, json.loads(answer.output[0].arguments)), CALL)
    same(client.responses.create(**asked).output_text, TEXT)
    same(streamed()[1].output_text, TEXT)


def anthropic(url, key):
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key=key, max_retries=2)
    tools = [{"name": "weather", "input_schema": SCHEMA}]
    asked = {"model": "m-1", "max_tokens": 100, "messages": ASKED, "tools": tools}

    def streamed():
        with client.messages.stream(**asked) as stream:
            events = list(stream)
            return events, stream.get_final_message()

    answer = client.messages.create(**asked)
    same((answer.content[0].text, answer.stop_reason), (TEXT, "end_turn"))
    same((answer.usage.input_tokens, answer.usage.output_tokens), (9, 3))
    events, answer = streamed()
    same("".join(event.text for event in events if event.type == "text"), TEXT)
    same((answer.content[0].text, answer.stop_reason, answer.usage.output_tokens), (TEXT, "end_turn", 3))
    answer = client.messages.create(**asked)
    same((answer.content[0].name, answer.content[0].input, answer.stop_reason), (*CALL, "tool_use"))
    _, answer = streamed()
    same((answer.content[0].name, answer.content[0].input, answer.stop_reason), (*CALL, "tool_use"))
    same(client.messages.create(**asked).content[0].text, TEXT)
    same(streamed()[1].content[0].text, TEXT)


def google_genai(url, key):
    from google import genai
    from google.genai import types

    retry = types.HttpRetryOptions(attempts=3, initial_delay=0.05, max_delay=0.1)
    options = types.HttpOptions(base_url=url, retry_options=retry)
    client = genai.Client(api_key=key, http_options=options)
    declared = types.FunctionDeclaration(name="weather", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    asked = {"model": "m-1", "contents": ASKED[0]["content"], "config": config}

    def streamed():
        return list(client.models.generate_content_stream(**asked))

    def called(answer):
        (call,) = answer.function_calls
        same((call.name, call.args), CALL)

    answer = client.models.generate_content(**asked)
    same((answer.text, answer.candidates[0].finish_reason), (TEXT, types.FinishReason.STOP))
    same(answer.usage_metadata.total_token_count, 12)
    same("".join(chunk.text for chunk in streamed()), TEXT)
    called(client.models.generate_content(**asked))
    called(streamed()[-1])
    same(client.models.generate_content(**asked).text, TEXT)
    same("".join(chunk.text for chunk in streamed()), TEXT)


def ollama(url, key):
    from ollama import Client, ResponseError

    client = Client(host=url)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    asked = {"model": "m-1", "messages": ASKED, "tools": tools}

    def streamed():
        return list(client.chat(**asked, stream=True))

    def called(answers):
        (call,) = [call for answer in answers for call in answer.message.tool_calls or []]
        same((call.function.name, dict(call.function.arguments)), CALL)

    answer = client.chat(**asked)
    same((answer.message.content, answer.done, answer.eval_count), (TEXT, True, 3))
    chunks = streamed()
    same(("".join(it.message.content for it in chunks), chunks[-1].done_reason), (TEXT, "stop"))
    called([client.chat(**asked)])
    called(streamed())
    for status in (429, 500):  # it asks but once
        try:
            client.chat(**asked)
            sys.exit(f"{status} was taken for an answer")
        except ResponseError as error:
            same(error.status_code, status)
    same(client.chat(**asked).message.content, TEXT)
    same("".join(it.message.content for it in streamed()), TEXT)


name, url, key = sys.argv[1:]
{it.__name__: it for it in (openai, openai_responses, anthropic, google_genai, ollama)}[name](url, key)
print(f"{name}: 8 requests")
