"""Checks whole requests against the typed request models of the providers' own Python clients, and those
for Mistral against the validators and normalisers of mistral-common, too.

Reads JSON lines, `{"provider": .., "body": ..}`, from standard input. Prints how many of each provider it
checked and fails at the first that is refused; with `--all` it prints each that is, as JSON, and goes on. Nothing is sent anywhere, no key is needed, and unknown keys
are refused.
"""

import collections
import json
import sys
import typing

from anthropic.types import message_create_params
from google.genai import types as genai
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.normalize import get_normalizer
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from mistral_common.tokens.tokenizers.model_settings_builder import ModelSettingsBuilder
from mistralai.client import models as mistral
from ollama._types import ChatRequest
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from pydantic import TypeAdapter

from closed import closed


def of(*params):
    """The model of a client's request, streamed or not."""
    return TypeAdapter(closed(typing.Union[params]))


class Gemini:
    """The client has no model of a body, but one of each field."""

    FIELDS = {
        "contents": TypeAdapter(list[genai.Content]),
        "systemInstruction": TypeAdapter(genai.Content),
        "tools": TypeAdapter(list[genai.Tool]),
        "toolConfig": TypeAdapter(genai.ToolConfig),
        "generationConfig": TypeAdapter(genai.GenerationConfig),
    }

    def validate_json(self, text):
        for name, value in json.loads(text).items():
            self.FIELDS[name].validate_json(json.dumps(value))


class Top:
    """A pydantic model that refuses unknown fields at its top."""

    def __init__(self, model):
        self.model = model
        self.names = {f.alias or name for name, f in model.model_fields.items()} | set(model.model_fields)

    def validate_json(self, text):
        unknown = set(json.loads(text)) - self.names
        if unknown:
            raise ValueError(f"unknown: {unknown}")
        self.model.model_validate_json(text)


class Mistral:
    """The model of the client, and what Mistral itself checks with: its validators as they serve, of each
    generation that takes a text beside calls, and what turns a request into what is tokenised."""

    VERSIONS = [TokenizerVersion.v7, TokenizerVersion.v11, TokenizerVersion.v13, TokenizerVersion.v15]
    # mistral-common knows no documents: the API makes them texts before. Nor does it stream.
    DOCUMENTS = {"document_url", "file"}

    def __init__(self):
        self.client = Top(mistral.ChatCompletionRequest)
        self.checks = [
            (it, get_validator(it, ValidationMode.serving), self.normalizer(it)) for it in self.VERSIONS
        ]

    def normalizer(self, version):
        builder = ModelSettingsBuilder.none() if version >= TokenizerVersion.v15 else None
        return get_normalizer(version, builder)

    def known(self, message):
        content = message.get("content")
        if not isinstance(content, list):
            return message
        parts = [self.thought(part) for part in content if part["type"] not in self.DOCUMENTS]
        return {**message, "content": parts or "(a document)"}

    def thought(self, part):
        """The API's thoughts are lists of texts, those of mistral-common are texts."""
        if part["type"] != "thinking":
            return part
        return {"type": "thinking", "thinking": "".join(one["text"] for one in part["thinking"])}

    def validate_json(self, text):
        self.client.validate_json(text)
        body = json.loads(text)
        body.pop("stream", None)
        body["messages"] = [self.known(message) for message in body["messages"]]
        # Models that heard before had no system message, and none thought: what came from one that
        # thinks goes back to such a one.
        newer = "input_audio" in text or '"type": "thinking"' in json.dumps(body["messages"])
        for version, validator, normalizer in self.checks:
            if newer and version < TokenizerVersion.v13:
                continue
            request = ChatCompletionRequest.model_validate(body)
            normalizer.from_chat_completion_request(validator.validate_request(request))


chat = of(
    completion_create_params.CompletionCreateParamsNonStreaming,
    completion_create_params.CompletionCreateParamsStreaming,
)
claude = of(
    message_create_params.MessageCreateParamsNonStreaming,
    message_create_params.MessageCreateParamsStreaming,
)
MODELS = {
    "openai": chat,
    "strict_template": chat,
    "mistral": Mistral(),
    "openai_responses": of(
        response_create_params.ResponseCreateParamsNonStreaming,
        response_create_params.ResponseCreateParamsStreaming,
    ),
    "anthropic": claude,
    "gemini": Gemini(),
    "ollama": Top(ChatRequest),
}


REFUSED = (KeyError, ValueError, MistralCommonException)


def check(document):
    MODELS[document["provider"]].validate_json(json.dumps(document["body"]))


USER = {"role": "user", "content": "hi"}
CALL = {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
SEEN = {"role": "tool", "tool_call_id": "call00001", "content": "a cat"}


def messages(*messages):
    return {"model": "m", "max_tokens": 1, "messages": list(messages)}


# What must be refused: beside an unknown field at the top, and tools that are none.
WRONG = [
    ("openai", messages({**USER, "extra": 1})),
    ("openai", messages({"role": "tool", "content": "hi"})),
    ("openai", messages({"role": "user", "content": [{"type": "video", "url": "x"}]})),
    ("openai_responses", {"model": "m", "input": [{"role": "user", "content": 7}]}),
    ("anthropic", messages({"role": "system2", "content": "hi"})),
    ("anthropic", messages({"role": "user", "content": [{"type": "text", "txt": "hi"}]})),
    ("gemini", {"contents": [{"role": "user", "part": []}]}),
    ("gemini", {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": 7}}]}]}),
    ("ollama", messages({"role": "user", "content": ["hi"]})),
    ("ollama", messages({**CALLED, "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]})),
    ("mistral", messages({**USER, "name": "ada"})),
    ("mistral", messages()),
    ("mistral", messages(USER, {"role": "assistant", "content": "hi"})),
    ("mistral", messages(USER, SEEN, USER)),
    ("mistral", messages(USER, CALLED, USER)),
    ("mistral", messages(USER, CALLED, SEEN, SEEN)),
    ("mistral", messages(USER, {**CALLED, "tool_calls": [{**CALL, "id": "call_1"}]}, SEEN)),
    ("mistral", messages(USER, {**CALLED, "reasoning_content": "hm"}, SEEN)),
    ("mistral", messages({"role": "user", "content": [{"type": "video_url", "video_url": "x"}]})),
]


def self_test():
    """The models can refuse."""
    right = messages(USER, CALLED, SEEN)
    check({"provider": "openai", "body": right})
    check({"provider": "mistral", "body": right})
    wrong = [(it, {**messages(), **more}) for it in MODELS for more in [{"no_such_field": 1}, {"tools": 7}]]
    for provider, body in WRONG + wrong:
        try:
            check({"provider": provider, "body": body})
        except REFUSED:
            continue
        sys.exit(f"the models of {provider} accept {body}")


def main():
    self_test()
    counts = collections.Counter()
    for line in sys.stdin:
        document = json.loads(line)
        try:
            check(document)
        except REFUSED as error:
            if "--all" not in sys.argv:
                sys.exit(f"{error!r}\n{json.dumps(document)}")
            names = {key: document.get(key) for key in ("provider", "name")}
            print(json.dumps({**names, "error": str(error)[:600]}))
            continue
        counts[document["provider"]] += 1
    for provider, count in counts.items():
        print(f"{provider} {count}")


if __name__ == "__main__":
    main()
