"""YAML that means one thing: PyYAML's safe loader, which also refuses a key given twice."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from pytest_frt.errors import SpecError

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML built without libyaml: the same loader in Python, five times slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]


class _StrictLoader(_SafeLoader):
    """The safe loader with duplicate keys and merge keys refused."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 (PyYAML's signature)
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable) or key in seen:
                raise yaml.constructor.ConstructorError(
                    "while reading a mapping", node.start_mark, f"key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read_yaml(data: bytes, where: str) -> Any:  # noqa: ANN401 (the schema gives it its type)
    """Parse one YAML document.

    Args:
        data: The file's bytes, UTF-8.
        where: What to call the file in a message.

    Raises:
        SpecError: not UTF-8, not YAML, or a key stands twice; the message holds the line.
    """
    try:
        return yaml.load(data.decode(), Loader=_StrictLoader)  # noqa: S506 (derives from SafeLoader)
    except UnicodeDecodeError as fault:
        raise SpecError(f"{where}: not UTF-8: {fault}", hint="save the file as UTF-8") from fault
    except (yaml.YAMLError, RecursionError) as fault:
        raise SpecError(f"{where}: not readable as YAML: {fault}", hint="correct the named line") from fault
