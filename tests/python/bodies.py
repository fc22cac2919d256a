"""Checks whole requests against the typed request models of the providers' own Python clients.

Reads JSON lines, `{"provider": .., "body": ..}`, from standard input. Prints how many it checked and fails
at the first that a model refuses. As in validate.py nothing is sent, and unknown keys are refused.
"""

import json
import sys
import typing

from anthropic.types import message_create_params
from google.genai import types as genai
from mistralai.client import models as mistral
from ollama._types import ChatRequest
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from pydantic import TypeAdapter

from validate import closed


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


chat = of(
    completion_create_params.CompletionCreateParamsNonStreaming,
    completion_create_params.CompletionCreateParamsStreaming,
)
MODELS = {
    "openai": chat,
    "strict_template": chat,
    "mistral": Top(mistral.ChatCompletionRequest),
    "openai_responses": of(
        response_create_params.ResponseCreateParamsNonStreaming,
        response_create_params.ResponseCreateParamsStreaming,
    ),
    "anthropic": of(
        message_create_params.MessageCreateParamsNonStreaming,
        message_create_params.MessageCreateParamsStreaming,
    ),
    "gemini": Gemini(),
    "ollama": Top(ChatRequest),
}


def check(document):
    MODELS[document["provider"]].validate_json(json.dumps(document["body"]))


def self_test():
    """The models can refuse: an unknown field, and a choice that there is not."""
    for provider in MODELS:
        for wrong in [{"no_such_field": 1}, {"tools": 7}]:
            try:
                check({"provider": provider, "body": {"model": "m", "messages": [], "max_tokens": 1, **wrong}})
            except (KeyError, ValueError):
                continue
            sys.exit(f"the models of {provider} accept {wrong}")


def main():
    self_test()
    count = 0
    for line in sys.stdin:
        document = json.loads(line)
        try:
            check(document)
        except (KeyError, ValueError) as error:
            sys.exit(f"{json.dumps(document, indent=1)}\n{error!r}")
        count += 1
    print(f"{count} requests")


if __name__ == "__main__":
    main()
