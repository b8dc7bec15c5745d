"""Checks the layers of the Python package: no import goes upward, and no private name leaves its
module.

A folder's modules and subfolders are ranked in ``RANKS``; each may import those of lower rank
alone, in a function too. A name that begins with one underscore belongs to its module: others may
neither import it nor read it as an attribute, be it of a module or of an object whose class defines
it. Used by check_layers.py.
"""
import ast
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

# By folder, from the bottom to the top. What stands in one line does not import each other.
RANKS = {
    "": [["_core", "_errors", "_dims", "_functions"],
         ["_arguments", "_dispatch", "_explain"],
         ["_frameworks"],
         ["_layout"],
         ["_launch"],
         ["_plan"],
         ["_compile", "_problems", "_progress"],
         ["_cluster", "_pack", "_together", "_trace"],
         ["_tune"],
         ["_tune_command"],
         ["_matmul"],
         ["_grouped"],
         ["__init__"],
         ["onnxruntime", "torch"],
         ["__main__"]],
    "_cluster": [["__init__", "models", "scores", "task"], ["driver"], ["page"]],
    "_functions": [["table"], ["values"], ["binding", "pointwise", "views", "parts", "products"],
                   ["activations", "divisions", "reductions", "special"],
                   ["__init__"]],
    "_trace": [["__init__", "annotations", "shape", "structure", "trace_call"], ["composed"],
               ["calls"], ["traced"], ["epilogue", "method", "returned"], ["bound"], ["fused"]],
    "_trace/composed": [["table"], ["along_axis", "contraction", "shapes", "statistics"],
                        ["products"], ["__init__"]],
    "torch": [["_kept", "_layouts", "_logs", "_options", "_timing", "_ops", "_report_view"],
              ["_parallel"],
              ["_graph", "_quantized"],
              ["_compare", "_report"], ["_agree", "_verdicts"], ["_judge"], ["_rewrite"],
              ["_program"],
              ["_backend", "_models"],
              ["__init__"]],
    "torch/_graph": [["__init__", "sizes", "table"], ["importer"],
                     ["collectives", "group_rows", "kernels", "memory", "rows"], ["static"],
                     ["nodes"], ["region"], ["configurations", "regions"],
                     ["replace", "surroundings"], ["exchanges", "together"]],
    "torch/_parallel": [["__init__", "exchange", "ranks", "sums"], ["clock"],
                        ["choice", "workspace"], ["beside", "direct"],
                        ["awaiting", "summing"], ["pieces", "pulled"], ["ways"], ["ops"],
                        ["functions"]],
    "torch/_ops": [["__init__", "epilogues", "scaled_groups", "text_argument"], ["transforms"],
                   ["region"], ["custom", "lowering", "mxfp4", "quantized", "rows_of_groups"],
                   ["calls"]],
}
# Imports of the optional part that go upward: at the first call that needs it, and for type
# checkers.
OPTIONAL = {("_dispatch", "torch"), ("_compile", "torch")}


class Module(NamedTuple):
    """A module of the package."""

    path: str  # "torch/_graph/regions"
    tree: ast.Module

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


def violations(package: pathlib.Path) -> Iterator[str]:
    """What breaks the layers of the package in this folder, a line each."""
    modules = [Module(str(path.relative_to(package).with_suffix("")), ast.parse(path.read_text()))
               for path in sorted(package.rglob("*.py"))]
    paths = {module.path for module in modules} | {"_core"}
    owners: dict[str, set[str]] = {}
    for module in modules:
        for name in _private_names(module.tree):
            owners.setdefault(name, set()).add(module.path)
    for module in modules:
        yield from _unranked(module)
        yield from _imports(module, paths)
        yield from _attributes(module, owners)


def _rank(folder: str, name: str) -> "int | None":
    return next((rank for rank, names in enumerate(RANKS.get(folder, [])) if name in names), None)


def _place(module: Module, node: "ast.stmt | ast.expr") -> str:
    return f"{module.path}.py:{node.lineno}"


def _unranked(module: Module) -> Iterator[str]:
    parts = module.path.split("/")
    for i, name in enumerate(parts):
        if _rank("/".join(parts[:i]), name) is None:
            named = "/".join(parts[:i + 1])
            yield f"{module.path}.py: {named} has no rank in tools/python_layers.py"
            return


def _imports(module: Module, paths: set[str]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            if any(alias.name.split(".")[0] == "attacca" for alias in node.names):
                yield f"{_place(module, node)}: import parts of the package by relative names"
        elif isinstance(node, ast.ImportFrom) and node.level:
            above = module.path.split("/")[:-node.level]
            base = "/".join(above + (node.module.split(".") if node.module else []))
            for alias in node.names:
                inner = f"{base}/{alias.name}".lstrip("/")
                is_module = inner in paths or f"{inner}/__init__" in paths
                yield from _import(module, node.lineno, inner if is_module else base or "__init__")
                if not is_module and _is_private(alias.name):
                    yield (f"{_place(module, node)}: {alias.name} is private to "
                           f"{base or '__init__'}")


def _import(module: Module, line: int, target: str) -> Iterator[str]:
    """Ranks are compared where the ways to the two modules part."""
    ours, theirs = module.path.split("/"), target.split("/")
    common = 0
    while common < min(len(ours), len(theirs)) - 1 and ours[common] == theirs[common]:
        common += 1
    folder = "/".join(ours[:common])
    name, other = ours[common], theirs[common]
    if name == other:
        return  # a folder's own __init__
    rank, below = _rank(folder, name), _rank(folder, other)
    if (module.path,
        target) not in OPTIONAL and rank is not None and below is not None and below >= rank:
        yield f"{module.path}.py:{line}: {name} may not import {other}, which is not below it"


def _attributes(module: Module, owners: dict[str, set[str]]) -> Iterator[str]:
    """Private names of other modules, read as attributes; those of other packages' modules are
    theirs to judge."""
    foreign = {(alias.asname or alias.name).split(".")[0] for node in ast.walk(module.tree)
               if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = owners.get(node.attr, set())
            root: ast.expr = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            name = root.id if isinstance(root, ast.Name) else ""
            allowed = name in foreign or (root is node.value and name in ("self", "cls"))
            if owner and module.path not in owner and not allowed:
                yield (f"{_place(module, node)}: {node.attr} is private to "
                       f"{', '.join(sorted(owner))}")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _private_names(tree: ast.Module) -> Iterator[str]:
    """Those that a module defines: at its top, in its classes, and as attributes of ``self``."""
    bodies = [tree.body] + [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for statement in [each for body in bodies for each in body]:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names = [statement.name]
        else:
            targets: list[ast.expr] = []
            if isinstance(statement, ast.Assign):
                targets = statement.targets
            elif isinstance(statement, ast.AnnAssign):
                targets = [statement.target]
            names = [node.id for target in targets for node in ast.walk(target)
                     if isinstance(node, ast.Name)]
        yield from filter(_is_private, names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx,
                                                          ast.Store) and _is_private(node.attr) \
                and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            yield node.attr
