"""Small mistakes that a person could make, put into a module: another operator, number, comparison or condition."""

import ast
from typing import Any

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
}
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_CALLS = {"max": "min", "min": "max", "any": "all", "all": "any"}


def places_of(source: str) -> list[int]:
    """Where a module can be changed, as positions in a walk over its tree."""
    return [index for index, node in enumerate(ast.walk(ast.parse(source))) if _change(node) is not None]


def changed(source: str, place: int) -> tuple[int, str, str]:
    """The line that is changed at a place, what it becomes, and the module's new text."""
    tree = ast.parse(source)
    node: Any = next(node for index, node in enumerate(ast.walk(tree)) if index == place)
    changes = _change(node)
    assert changes is not None, "there is nothing to change at this place"
    before = ast.unparse(node)
    for name, value in changes.items():
        setattr(node, name, value)
    return node.lineno, f"{before}  →  {ast.unparse(node)}", ast.unparse(ast.fix_missing_locations(tree))


def _change(node: ast.AST) -> dict[str, Any] | None:
    """The fields of a node that become others; None where nothing is changed."""
    match node:
        case ast.BinOp(op=op) if type(op) in _OPERATORS and not _is_text(node):
            return {"op": _OPERATORS[type(op)]()}
        case ast.Compare(ops=[op, *rest]) if type(op) in _COMPARISONS:
            return {"ops": [_COMPARISONS[type(op)](), *rest]}
        case ast.BoolOp(op=op):
            return {"op": ast.Or() if isinstance(op, ast.And) else ast.And()}
        case ast.Constant(value=bool(value)):
            return {"value": not value}
        case ast.Constant(value=int(value)):
            return {"value": value + 1}
        case ast.IfExp(body=body, orelse=orelse):
            return {"body": orelse, "orelse": body}
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            return {"func": ast.Name(_CALLS[name], ast.Load())}
    return None


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operator joins texts or tuples, where another one would only be a wrong type."""
    return any(
        isinstance(part, ast.JoinedStr | ast.Tuple | ast.List | ast.Constant) and not _is_number(part)
        for part in (node.left, node.right)
    )


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
