"""Checks requests against the typed request models of the providers' own Python clients.

Reads JSON lines, `{"provider": .., "body": ..}`, from the files that are named, or from standard input.
Prints how many of each provider it checked and fails at the first document that a model refuses. Nothing
is sent anywhere: importing the clients opens no connection, and no key is needed.

The packages' request types are `TypedDict`s (openai, anthropic) and pydantic models (google-genai), and
pydantic reads both. A `TypedDict` lets unknown keys pass, so these are refused here: all of them are
rebuilt with `extra="forbid"`.
"""

import collections
import json
import sys
import types as python_types
import typing

import typing_extensions
from anthropic.types import message_create_params
from google.genai import types as genai
from openai.types.chat import completion_create_params
from openai.types.responses import ResponseInputParam
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

FORBID = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def closed(kind, seen=None):
    """Marks every TypedDict that can be reached from this type: no unknown keys, lists for iterables."""
    seen = set() if seen is None else seen
    if is_typeddict(kind):
        if kind not in seen:
            seen.add(kind)
            kind.__pydantic_config__ = FORBID
            hints = typing_extensions.get_type_hints(kind, include_extras=True)
            kind.__annotations__ = {name: closed(hint, seen) for name, hint in hints.items()}
        return kind
    origin, arguments = typing_extensions.get_origin(kind), typing_extensions.get_args(kind)
    if origin is None or origin is typing.Literal or origin is typing_extensions.Literal:
        return kind
    if origin is typing_extensions.Annotated:
        return closed(arguments[0], seen)
    arguments = tuple(closed(argument, seen) for argument in arguments)
    if origin in (typing.Union, python_types.UnionType):
        return typing.Union[arguments]
    if origin in (typing_extensions.Required, typing_extensions.NotRequired):
        return origin[arguments[0]]
    if origin in (collections.abc.Iterable, collections.abc.Sequence):
        return list[arguments]
    if origin is list:
        return list[arguments]
    return kind


def required(hint):
    """A hint without the `Required[..]` around it."""
    if typing_extensions.get_origin(hint) is typing_extensions.Required:
        return typing_extensions.get_args(hint)[0]
    return hint


def adapters(create_params, *fields):
    """The types of these fields of a client's request."""
    hints = typing_extensions.get_type_hints(create_params, include_extras=True)
    return {field: TypeAdapter(closed(required(hints[field]))) for field in fields}


MODELS = {
    "openai": adapters(completion_create_params.CompletionCreateParamsBase, "messages"),
    "openai_responses": {
        "input": TypeAdapter(closed(ResponseInputParam)),
        "instructions": TypeAdapter(typing.Optional[str]),
    },
    "anthropic": adapters(message_create_params.MessageCreateParamsBase, "messages", "system"),
    "gemini": {
        "contents": TypeAdapter(list[genai.Content]),
        "systemInstruction": TypeAdapter(typing.Optional[genai.Content]),
    },
}


def check(document):
    provider, body = document["provider"], document["body"]
    for field, model in MODELS[provider].items():
        if field == "system" and body.get(field) is None:
            continue
        value = body[field]
        if provider == "gemini":
            # Its models read bytes from base64 where they read JSON.
            model.validate_json(json.dumps(value))
        else:
            model.validate_python(value)
    return provider


def self_test():
    """The models can refuse: an unknown key, a missing one, and a part of the wrong kind."""
    wrong = [
        ("openai", {"messages": [{"role": "user", "content": "hi", "extra": 1}]}),
        ("openai", {"messages": [{"role": "tool", "content": "hi"}]}),
        ("openai", {"messages": [{"role": "user", "content": [{"type": "video", "url": "x"}]}]}),
        ("openai_responses", {"instructions": None, "input": [{"role": "user", "content": 7}]}),
        ("anthropic", {"system": None, "messages": [{"role": "system2", "content": "hi"}]}),
        ("anthropic", {"system": None, "messages": [
            {"role": "user", "content": [{"type": "text", "txt": "hi"}]}]}),
        ("gemini", {"systemInstruction": None, "contents": [{"role": "user", "part": []}]}),
        ("gemini", {"systemInstruction": None, "contents": [
            {"role": "user", "parts": [{"inlineData": {"mimeType": 7}}]}]}),
    ]
    for provider, body in wrong:
        try:
            check({"provider": provider, "body": body})
        except ValidationError:
            continue
        sys.exit(f"the models of {provider} accept {body}")


def main():
    self_test()
    counts = collections.Counter()
    lines = (line for name in sys.argv[1:] for line in open(name, encoding="utf-8"))
    for line in lines if len(sys.argv) > 1 else sys.stdin:
        document = json.loads(line)
        try:
            counts[check(document)] += 1
        except ValidationError as error:
            sys.exit(f"{json.dumps(document, indent=1)}\n{error}")
    for provider in MODELS:
        print(f"{provider} {counts[provider]}")


if __name__ == "__main__":
    main()
