"""Which call of a file constructs a given layer."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from stethoscope.diagnosis.syntax import Source, assigned, constant, is_self, unwrapped

MAX_DEPTH = 16  # of nested containers and classes: a class that holds itself ends the search

_SEQUENCES = frozenset({"Sequential", "ModuleList"})
_DICTIONARIES = frozenset({"Sequential", "ModuleDict", "OrderedDict"})
_WRAPPERS = frozenset({"Bidirectional", "TimeDistributed", "SpectralNormalization", "RNN"})
_REGISTERING = frozenset({"add_module", "register_module", "setattr"})


@dataclasses.dataclass(frozen=True)
class Element:
    """A written element of a list of layers; `open` when it may be there 0 or several times."""

    node: ast.AST
    open: bool


class Constructions:
    """The calls of the classes `names` in one file.

    Args:
        source: The file.
        names: Class names; any of them will do.
    """

    def __init__(self, source: Source, names: frozenset[str]) -> None:
        self._source = source
        self._names = names

    def under(self, root: ast.AST) -> list[ast.Call]:
        """All of them below `root`, as written."""
        return [c for c in self._source.calls(root) if self._source.name(c) in self._names]

    def named(self, name: str) -> ast.AST | None:
        """The one with `name="..."`."""
        found = [
            call
            for call in self.under(self._source.tree)
            if any(k.arg == "name" and name and constant(k.value) == name for k in call.keywords)
        ]
        return found[0] if len(found) == 1 else None

    def in_module(self, path: str) -> ast.AST | None:
        """The one at `path` from a variable of the file, or from its only fitting container."""
        parts = path.split(".") if path else []
        if not parts:
            return None
        if parts[0].isdigit():
            containers = [c for c in self._source.calls() if self._source.name(c) in _SEQUENCES]
            return _one(self._descend(container, parts) for container in containers)
        return _one(
            self._descend(value, parts[1:]) for value in self._values(self._source.tree, parts[0])
        )

    def in_class(self, cls: ast.AST, parts: Sequence[str], depth: int = 0) -> ast.AST | None:
        """The one at `parts` from `self` of a class, or of its bases in this file."""
        if depth > MAX_DEPTH or not parts:
            return None
        values = list(self._attribute(cls, parts[0]))
        if values:
            return _one(self._descend(v, parts[1:], depth + 1, (cls, parts[0])) for v in values)
        for base in getattr(cls, "bases", ()):
            for parent in self._source.classes(self._source.dotted(base).rpartition(".")[2]):
                return self.in_class(parent, parts, depth + 1)
        return None

    def counted(self, root: ast.AST, index: int, total: int | None) -> ast.AST | None:
        """Number `index` of them, where one model accounts for them all."""
        groups: dict[tuple[ast.AST, str], list[Element]] = {}
        for call in self.under(root):
            model = self._model(call)
            if model is not None:
                element = Element(call, self._source.open_count(call))
                groups.setdefault((self._source.scope(call), model), []).append(element)
        if total is None and len(groups) > 1:
            return None
        written = [g for g in groups.values() if len(g) == total and not any(e.open for e in g)]
        return _one(_nth(group, index, total) for group in written or groups.values())

    def _model(self, call: ast.Call) -> str | None:
        """What a layer is given to; "" where it is called at once; None inside another layer."""
        node: ast.AST = call
        listed = False
        while not isinstance(node, ast.stmt):
            parent = self._source.parents[node]
            if isinstance(parent, ast.Call) and node is not parent.func:
                name = self._source.name(parent)
                if name in _WRAPPERS:
                    return None
                if name == "add" and isinstance(parent.func, ast.Attribute):
                    return ast.unparse(parent.func.value)
                listed = listed or name in _SEQUENCES
            node = parent
        if not listed:
            return ""
        targets = [ast.unparse(target) for target, _ in assigned(node)]
        return targets[0] if targets else f"line {node.lineno}"

    def _values(self, scope: ast.AST, name: str) -> list[ast.AST]:
        """What is assigned to the variable `name` within `scope`."""
        return [
            value
            for node in self._source.in_order(scope)
            for target, value in assigned(node)
            if isinstance(target, ast.Name) and target.id == name
        ]

    def _attribute(self, cls: ast.AST, name: str) -> Iterator[ast.AST]:
        """What is assigned to `self.name`, or registered under that name."""
        open_names = []
        for node in self._source.in_order(cls):
            for target, value in assigned(node):
                if is_self(target, name):
                    yield value
            if isinstance(node, ast.Call) and self._source.name(node) in _REGISTERING:
                first, second = [None, None, *node.args][-2:]
                if first is None or second is None:
                    continue
                if constant(first) == name:
                    yield second
                elif isinstance(first, ast.JoinedStr) and _could_be(first, name):
                    open_names.append(second)
        if len(open_names) == 1:
            yield open_names[0]

    def _descend(
        self,
        value: ast.AST | None,
        parts: Sequence[str],
        depth: int = 0,
        owner: tuple[ast.AST, str] | None = None,
    ) -> ast.AST | None:
        """What stands at `parts` below the expression `value`.

        `owner` is the class and the attribute that the value is assigned to.
        """
        if depth > MAX_DEPTH or value is None:
            return None
        value = unwrapped(value)
        if isinstance(value, ast.Name):
            values = self._values(self._source.scope(value), value.id)
            return self._descend(values[0], parts, depth + 1) if len(values) == 1 else None
        if not parts:
            return self._constructed(value, depth)
        if not isinstance(value, ast.Call):
            return None
        name = self._source.name(value)
        if name in _DICTIONARIES:
            entry = _entry(value, parts[0])
            if entry is not None:
                return self._descend(entry, parts[1:], depth + 1)
        if name in _SEQUENCES and parts[0].isdigit():
            elements = list(self._elements(value))
            if owner is not None:
                cls, attribute = owner
                elements += self._added(cls, lambda node: is_self(node, attribute))
            return self._pick(elements, int(parts[0]), parts[1:], depth)
        for cls in self._source.classes(name):
            return self.in_class(cls, parts, depth + 1)
        return None

    def _pick(
        self, elements: Sequence[Element], index: int, rest: Sequence[str], depth: int
    ) -> ast.AST | None:
        first = next((i for i, e in enumerate(elements) if e.open), len(elements))
        if index < first:
            return self._descend(elements[index].node, rest, depth + 1)
        # In or after a loop: certain when only one element can be meant.
        return _one(self._descend(e.node, rest, depth + 1) for e in elements[first:])

    def _elements(self, call: ast.Call) -> Iterator[Element]:
        """What a Sequential or ModuleList is given, in order."""
        scope = self._source.scope(call)
        for argument in call.args:
            if isinstance(argument, ast.Starred):
                yield from self._unpacked(argument.value, scope)
            elif len(call.args) == 1 and self._is_list(argument, scope):
                yield from self._unpacked(argument, scope)
            else:
                yield Element(argument, False)

    def _is_list(self, node: ast.AST, scope: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            values = self._values(scope, node.id)
            return bool(values) and all(self._is_list(value, scope) for value in values)
        return isinstance(node, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp))

    def _unpacked(self, value: ast.AST, scope: ast.AST) -> Iterator[Element]:
        """The elements of a list, as far as they are written."""
        if isinstance(value, (ast.List, ast.Tuple)):
            for item in value.elts:
                if isinstance(item, ast.Starred):
                    yield from self._unpacked(item.value, scope)
                else:
                    yield Element(item, False)
        elif isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            yield Element(value.elt, True)
        elif isinstance(value, ast.Name):
            values = self._values(scope, value.id)
            if len(values) == 1 and not isinstance(values[0], ast.Name):
                yield from self._unpacked(values[0], scope)
            else:
                yield Element(value, True)
            yield from self._added(
                scope, lambda node: isinstance(node, ast.Name) and node.id == value.id
            )
        else:
            yield Element(value, True)

    def _added(self, scope: ast.AST, is_list: Callable[[ast.AST], bool]) -> list[Element]:
        """What a list gets later: `xs.append(...)`, `xs.extend([...])`, `xs += [...]`."""
        found: list[Element] = []
        for node in self._source.in_order(scope):
            added: list[Element] = []
            if isinstance(node, ast.AugAssign) and is_list(node.target):
                added = list(self._unpacked(node.value, scope))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                if not is_list(node.func.value):
                    continue
                if node.func.attr == "append":
                    added = [Element(node.args[0], False)]
                elif node.func.attr == "extend":
                    added = list(self._unpacked(node.args[0], scope))
                elif node.func.attr == "insert":
                    added = [Element(node.args[-1], True)]
            again = self._source.open_count(node)
            found += [Element(element.node, element.open or again) for element in added]
        return found

    def _constructed(self, value: ast.AST | None, depth: int) -> ast.AST | None:
        """The construction that `value` is, wraps, or gets from a function of the file."""
        if value is None or depth > MAX_DEPTH:
            return None
        if self._source.name(value) in self._names:
            return value
        inside = self.under(value)
        if not inside and isinstance(value, ast.Call):
            functions = self._source.functions(self._source.name(value))
            inside = self.under(functions[0]) if len(functions) == 1 else []
        return inside[0] if len(inside) == 1 else None


def _one(found: Iterable[ast.AST | None]) -> ast.AST | None:
    distinct = {node for node in found if node is not None}
    return distinct.pop() if len(distinct) == 1 else None


def _nth(group: Sequence[Element], index: int, total: int | None) -> ast.AST | None:
    """Number `index` of a model's constructions, where their counts leave no doubt."""
    count = len(group)
    if total is not None and not 0 <= index < total:
        return None
    if total == count or count == 1:
        return group[index if total == count else 0].node
    first = next((i for i, e in enumerate(group) if e.open), count)
    if first == count:
        # Written once each: another total means that this is not the model asked for.
        return group[index].node if total is None and index < count else None
    if index < first:
        return group[index].node
    after = next(i for i, e in enumerate(reversed(group)) if e.open)
    if total is not None and index >= total - after:
        return group[index - total + count].node
    certain = count - first - after == 1 and (total is not None or after == 0)
    return group[first].node if certain else None


def _could_be(pattern: ast.JoinedStr, name: str) -> bool:
    """Whether an f-string can give `name`: its literal beginning and end agree."""
    first, last = pattern.values[0], pattern.values[-1]
    begins = str(constant(first) or "") if isinstance(first, ast.Constant) else ""
    ends = str(constant(last) or "") if isinstance(last, ast.Constant) else ""
    return name.startswith(begins) and name.endswith(ends)


def _entry(call: ast.Call, key: str) -> ast.AST | None:
    """The value at `key` of a dictionary of layers: {"a": ...}, [("a", ...)] or a=..."""
    for argument in call.args:
        inner: ast.AST = argument
        if isinstance(argument, ast.Call) and argument.args:
            inner = argument.args[0]
        if isinstance(inner, ast.Dict):
            for name, value in zip(inner.keys, inner.values, strict=True):
                if constant(name) == key:
                    return value
        for item in inner.elts if isinstance(inner, (ast.List, ast.Tuple)) else ():
            if (
                isinstance(item, ast.Tuple)
                and len(item.elts) == 2
                and constant(item.elts[0]) == key
            ):
                return item.elts[1]
    return next((k.value for k in call.keywords if k.arg == key), None)
