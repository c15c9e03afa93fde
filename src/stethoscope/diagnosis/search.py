"""From a layer or a name to the line that wrote it, by reading the source.

For library use, where nothing was recorded while the program constructed its layers. What is
found is marked as not exact; where the source allows two answers the answer is None.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from stethoscope.diagnosis.construction import Constructions
from stethoscope.diagnosis.locate import is_user_file, shown_path
from stethoscope.diagnosis.syntax import Source, read
from stethoscope.types import SourceRef


def find_layer(
    cls_or_file: type | str,
    attribute_path: str,
    class_name: str,
    index: int,
    total: int | None = None,
) -> SourceRef | None:
    """The call that constructed a layer.

    The attribute path is followed first (`self.fc1 = ...`, the n-th argument of a Sequential,
    the list behind a ModuleList, classes of the same file); in a file also an explicit
    `name="..."`. Where it does not lead to a construction of `class_name`, its constructions are
    counted.

    Args:
        cls_or_file: The class of the model, or the file that builds it.
        attribute_path: "fc1", "net.2", a Keras name; "" when there is none.
        class_name: Of the layer: "Linear".
        index: Which of the model's layers of that class it is, from 0, in order.
        total: How many of them the model has: it tells models of one file apart, and layers
            after a loop from those within.

    Returns:
        The call, `exact=False`; None when it is not there or not certain.
    """
    names = _spellings(class_name)
    if isinstance(cls_or_file, str):
        source = read(cls_or_file)
        if source is None:
            return None
        search = Constructions(source, names)
        found = search.named(attribute_path) or search.in_module(attribute_path)
        return _ref(source, found or search.counted(source.tree, index, total))
    return _in_class(cls_or_file, attribute_path, names, index, total)


def find_call(file: str, names: Sequence[str], near: int | None = None) -> SourceRef | None:
    """A call of one of `names`.

    Args:
        file: The user's file.
        names: Dotted names with imports resolved; a shorter one matches at a dot
            ("optim.SGD" is `torch.optim.SGD`). ".compile" is a method of a variable, so that
            `re.compile` is none.
        near: The nearest call that begins on this line or before is taken.

    Returns:
        The call, `exact=False`; None when there is none, or several and no `near`.
    """
    source = read(file)
    if source is None:
        return None
    calls = [c for c in source.calls() if any(_matches(source, c, name) for name in names)]
    if near is not None:
        calls = [c for c in calls if c.lineno <= near][-1:]
    return _ref(source, calls[0]) if len(calls) == 1 else None


def _matches(source: Source, call: ast.Call, name: str) -> bool:
    if name.startswith("."):
        if not isinstance(call.func, ast.Attribute) or call.func.attr != name[1:]:
            return False
        root: ast.AST = call.func
        while isinstance(root, (ast.Attribute, ast.Call)):
            root = root.value if isinstance(root, ast.Attribute) else root.func
        return not (isinstance(root, ast.Name) and root.id in source.imports)
    dotted = source.dotted(call.func)
    return dotted == name or dotted.endswith("." + name)


def _spellings(class_name: str) -> frozenset[str]:
    """What the user may have called: a lazy module becomes the plain one, Input an InputLayer."""
    lazy = {class_name, f"Lazy{class_name}"}
    return frozenset(lazy | {"Input"} if class_name == "InputLayer" else lazy)


def _ref(source: Source, call: ast.AST | None) -> SourceRef | None:
    if not isinstance(call, ast.Call):
        return None
    return SourceRef(
        file=shown_path(source.file),
        line=call.lineno,
        exact=False,
        end_line=call.end_lineno,
        text=source.line(call.lineno),
    )


def _in_class(
    cls: type, path: str, names: frozenset[str], index: int, total: int | None
) -> SourceRef | None:
    """The class and its bases, as far as the user wrote them."""
    for kind in cls.__mro__:
        file = _file(kind)
        source = read(file) if file and is_user_file(file) else None
        if source is None:
            continue
        search = Constructions(source, names)
        candidates = source.classes(kind.__name__)
        if len(candidates) > 1:
            candidates = [c for c in candidates if _qualified(source, c) == kind.__qualname__]
        if len(candidates) != 1:
            continue
        if path:
            found = search.in_class(candidates[0], path.split("."))
        else:
            found = search.counted(candidates[0], index, total)
        if found is not None:
            return _ref(source, found)
    return None


def _file(cls: type) -> str | None:
    """The file that defines a class, taken from its code: a notebook has no module file."""
    for member in vars(cls).values():
        member = getattr(member, "__func__", member)
        member = getattr(member, "__wrapped__", member)
        code = getattr(member, "__code__", None)
        if code is not None and getattr(member, "__qualname__", "").startswith(cls.__qualname__):
            return str(code.co_filename)
    return None


def _qualified(source: Source, node: ast.ClassDef) -> str:
    parts, scope = [node.name], source.scope(node)
    while isinstance(scope, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        local = "" if isinstance(scope, ast.ClassDef) else ".<locals>"
        parts.append(scope.name + local)
        scope = source.scope(scope)
    return ".".join(reversed(parts))
