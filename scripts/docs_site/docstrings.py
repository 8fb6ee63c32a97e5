"""Extensions of griffe: our docstrings are plain text with lines such as ``name: what it is``; the site makes a list of
them. Everything else in them is Markdown already. And the client's methods are functions of a context, bound in a line
each; the site shows them as the methods they are."""

from __future__ import annotations

import re
from typing import Any

import griffe

# A parameter, several of them, or a state; what follows it may go on in lines that are indented.
_ITEM = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*)( \.\.\.)?: ")


class Operations(griffe.Extension):
    """Shows ``name = Operation(module.function)`` in a class as a method."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        client = pkg["control.client.StreamUpdateClient"]
        for name, member in list(client.members.items()):
            value = member.value if member.is_attribute else None
            if isinstance(value, griffe.ExprCall) and str(value.function) == "Operation":
                client.set_member(name, _method(member, loader.modules_collection[value.arguments[0].canonical_path]))


def _method(line: Any, function: Any) -> griffe.Function:
    context, *parameters = function.parameters
    assert context.name == "context"
    return griffe.Function(
        line.name,
        lineno=line.lineno,
        endlineno=line.endlineno,
        parameters=griffe.Parameters(griffe.Parameter("self"), *parameters),
        returns=function.returns,
        docstring=function.docstring,
    )


class Lists(griffe.Extension):
    """Turns such lines into Markdown's lists."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """The docstring with its ``name: what it is`` lines as a list."""
    lines: list[str] = []
    listed = False
    for line in text.splitlines():
        if found := _ITEM.match(line):
            if not listed and lines and lines[-1]:
                lines.append("")  # Markdown begins a list after an empty line
            listed = True
            names = ", ".join(f"`{name}`" for name in found[1].split(", "))
            lines.append(f"- {names}{found[2] or ''}: {line[found.end() :]}")
        else:
            if listed and line and not line.startswith(" "):
                lines.append("")
            listed = listed and line.startswith(" ")
            lines.append(line)
    return "\n".join(lines)
