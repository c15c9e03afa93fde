"""The user's source as a tree: what is called where, and under which imported name."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from typing import Any

_LOOPS = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ListComp,
    ast.GeneratorExp,
    ast.SetComp,
    ast.DictComp,
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Module)

# Methods of a module or layer that return the object itself.
_SELF_RETURNING = frozenset(
    {"to", "cuda", "cpu", "double", "float", "half", "bfloat16", "eval", "train", "apply"}
    | {"requires_grad_", "to_empty", "type", "share_memory"}
)


class Source:
    """One parsed file.

    Args:
        file: Its name, as code objects have it.
        tree: Its syntax tree.
    """

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file = file
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self.imports = dict(_imports(tree))

    def line(self, number: int) -> str:
        """Line `number` (from 1), stripped."""
        return linecache.getline(self.file, number).strip()

    def calls(self, root: ast.AST | None = None) -> list[ast.Call]:
        """Every call under `root` (default: the file), in the order in which they are written."""
        found = [n for n in ast.walk(root or self.tree) if isinstance(n, ast.Call)]
        return sorted(found, key=lambda n: (n.lineno, n.col_offset))

    def dotted(self, node: ast.AST) -> str:
        """`node` as a dotted name with imports resolved (`F.relu` -> `torch.nn.functional.relu`).

        "" for anything but a chain of names.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        parts.append(self.imports.get(node.id, node.id))
        return ".".join(reversed(parts))

    def name(self, call: ast.AST | None) -> str:
        """Last part of the name that `call` calls: "Linear" for `nn.Linear(...)`."""
        if not isinstance(call, ast.Call):
            return ""
        if isinstance(call.func, ast.Attribute):
            return call.func.attr
        return self.dotted(call.func).rpartition(".")[2]

    def classes(self, name: str) -> list[ast.ClassDef]:
        """Classes of that name, at any depth."""
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.ClassDef) and n.name == name]

    def functions(self, name: str) -> list[ast.FunctionDef]:
        """Functions and methods of that name, at any depth."""
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef) and n.name == name]

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, class or module that `node` stands in."""
        node = self.parents.get(node, self.tree)
        while not isinstance(node, _SCOPES):
            node = self.parents[node]
        return node

    def open_count(self, node: ast.AST) -> bool:
        """Whether a loop, comprehension or condition of its scope may run `node` 0 or more times.

        `if __name__ == "__main__":` is no condition.
        """
        while not isinstance(node := self.parents.get(node, self.tree), _SCOPES):
            if isinstance(node, _LOOPS):
                return True
            if isinstance(node, (ast.If, ast.IfExp, ast.Try)) and not _is_main(node):
                return True
        return False

    def in_order(self, scope: ast.AST) -> list[ast.stmt | ast.expr]:
        """Statements and expressions under `scope`, as they are written."""
        found = [n for n in ast.walk(scope) if isinstance(n, (ast.stmt, ast.expr))]
        return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


@functools.lru_cache(maxsize=64)
def _parse(file: str, text: str) -> Source | None:
    try:
        return Source(file, ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return None


def read(file: str) -> Source | None:
    """Parses `file`, a notebook cell that only `linecache` knows included; None if it cannot."""
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file))
    return _parse(file, text) if text else None


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, alias.name
                else:
                    yield alias.name.partition(".")[0], alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def unwrapped(node: ast.AST | None) -> ast.AST | None:
    """`node` without methods that return the object itself, such as `.to(device)`."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _SELF_RETURNING
        and isinstance(node.func.value, ast.Call)
    ):
        node = node.func.value
    return node


def constant(node: ast.AST | None) -> Any:
    """The value of a literal; None for anything else."""
    return node.value if isinstance(node, ast.Constant) else None


def is_self(node: ast.AST, attribute: str) -> bool:
    """Whether `node` is `self.attribute`."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == attribute
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def assigned(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """(target, value) pairs of an assignment, tuples taken apart."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value


def _pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    many = (ast.Tuple, ast.List)
    if isinstance(target, many) and isinstance(value, many) and len(target.elts) == len(value.elts):
        for one, part in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, part)
    else:
        yield target, value
