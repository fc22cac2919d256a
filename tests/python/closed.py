"""Makes the typed request models of the providers' clients refuse unknown keys.

The packages' request types are `TypedDict`s (openai, anthropic) and pydantic models (google-genai), and
pydantic reads both. A `TypedDict` lets unknown keys pass, so these are refused here: all of them are
rebuilt with `extra="forbid"`.
"""

import collections
import types as python_types
import typing

import typing_extensions
from pydantic import ConfigDict
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
