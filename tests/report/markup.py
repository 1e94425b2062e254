"""Reads a page without a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

INLINE = {"a", "b", "code", "i", "span", "strong", "style", "script"}
"""What is read on without a pause."""
VOID = {"meta", "br", "img", "link", "input", "hr"}


@dataclass
class Node:
    """One element with its text and what it stands in."""

    tag: str
    attrs: dict[str, str]
    above: list[Node] = field(default_factory=list)
    below: list[Node] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str:
        return self.attrs.get(name, "")

    def inside(self, tag: str) -> bool:
        return any(node.tag == tag for node in self.above)

    def find(self, tag: str) -> list[Node]:
        return [node for node in self.below if node.tag == tag]


class Markup(HTMLParser):
    """Every element of a page, in order; unclosed or crossed ones are refused."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.open: list[Node] = []
        self.nodes: list[Node] = []
        self.feed(page.decode())
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs}, list(self.open))
        self.nodes.append(node)
        for above in self.open:
            above.below.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag
        if tag not in INLINE:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        for node in self.open:
            node.text += data

    def find(self, tag: str) -> list[Node]:
        return [node for node in self.nodes if node.tag == tag]

    def by_id(self, name: str) -> Node:
        (found,) = (node for node in self.nodes if node.get("id") == name)
        return found

    def section(self, name: str) -> str:
        """Return the text from one second-level heading to the next."""
        heads = [node for node in self.nodes if node.tag == "h2"]
        at = next(index for index, node in enumerate(heads) if node.get("id") == name)
        begin = self.nodes.index(heads[at])
        end = self.nodes.index(heads[at + 1]) if at + 1 < len(heads) else len(self.nodes)
        level = len(heads[at].above)
        return " ".join(" ".join(n.text.split()) for n in self.nodes[begin:end] if len(n.above) == level)
