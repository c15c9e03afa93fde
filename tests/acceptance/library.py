"""Runs a script as its author would have written it with the library: `watch` or the callback.

    python tests/acceptance/library.py REPORT.json script.py [argument ...]

One line is added: after `o = torch.optim.X(model.parameters())` a `watch(model, o)`, or in
`model.fit(...)` a `callbacks=[...]`. Lines keep their numbers.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

WATCH = "__import__('stethoscope').watch({model}, {optimizer}, **_settings)"
CALLBACK = "__import__('stethoscope').keras.Stethoscope(**_settings)"


class AddLibraryUse(ast.NodeTransformer):
    """Adds the line; `_watchers` holds what it returns."""

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        call, target = node.value, node.targets[0]
        if (
            isinstance(call, ast.Call)
            and ast.unparse(call.func).startswith("torch.optim.")
            and call.args
            and isinstance(call.args[0], ast.Call)
            and isinstance(call.args[0].func, ast.Attribute)
            and call.args[0].func.attr == "parameters"
        ):
            model = ast.unparse(call.args[0].func.value)
            text = WATCH.format(model=model, optimizer=ast.unparse(target))
            return [node, _at(node, ast.parse(f"_watchers.append({text})").body[0])]
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "fit" and node.keywords:
            text = f"[_watchers.append({CALLBACK}) or _watchers[-1]]"
            value = _at(node, ast.parse(text, mode="eval").body)
            node.keywords.append(_at(node, ast.keyword(arg="callbacks", value=value)))
        return node


def _at(node: Any, new: Any) -> Any:
    for part in ast.walk(new):
        ast.copy_location(part, node)
    return new


def main() -> None:
    output, script, *arguments = sys.argv[1:]
    tree = AddLibraryUse().visit(ast.parse(Path(script).read_text(encoding="utf-8")))
    folder = str(Path(output).parent)
    watchers: list[Any] = []
    sys.argv[:] = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    main_module = sys.modules["__main__"].__dict__
    main_module.update(
        __file__=str(Path(script).resolve()),
        _watchers=watchers,
        _settings={"trace_dir": folder, "quiet": True},
    )
    exec(compile(tree, str(Path(script).resolve()), "exec"), main_module)

    from stethoscope.report import json

    reports = []
    for watcher in watchers:
        if hasattr(watcher, "close"):
            watcher.close()
        reports += watcher.reports
    Path(output).write_text(json.render(reports), encoding="utf-8")


if __name__ == "__main__":
    main()
