"""Random graphs of many ops over small integers in floats: every result is exact, whatever the
order of its sums, so that fused and unfused agree bit for bit."""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto as T
from onnx.helper import make_graph, make_node, make_tensor_value_info

from cases import Case

BINARY = ("Add", "Sub", "Mul", "Max", "Min")
UNARY = ("Relu", "Neg", "Abs", "Sign", "Floor", "Round", "LeakyRelu")
COMPARE = ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")
LIMIT = 1 << 20  # products and sums of a few values below this are exact in float32


def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.integers(-3, 4, shape).astype(np.float32)


class Dag:
    """Values of [rows, columns] with the largest magnitude that each can have."""

    def __init__(self, case: Case):
        self.case = case
        self.rows, self.columns = case.dim(), case.one(1, 2, 3, 4, 5)
        self.values: list[tuple[str, int, int]] = []  # name, columns, largest
        self.new_input()

    def fresh(self) -> str:
        return f"v{len(self.case.nodes)}"

    def new_input(self) -> tuple[str, int, int]:
        name = self.case.input(f"x{len(self.case.inputs)}", T.FLOAT, [self.rows, self.columns],
                               fill,
                               constant=False)
        self.values.append((name, self.columns, 3))
        return self.values[-1]

    def pick(self, columns: "int | None" = None) -> tuple[str, int, int]:
        fitting = [value for value in self.values if columns in (None, value[1])]
        recent = fitting[-3:] if self.case.maybe(0.7) else fitting
        return self.case.one(*recent)

    def emit(self, op: str, inputs: list[str], columns: int, largest: int,
             **attributes: Any) -> None:
        if largest > LIMIT:
            return
        name = self.fresh()
        self.case.node(op, inputs, [name], **attributes)
        self.values.append((name, columns, largest))

    def constant(self, shape: tuple[int, ...], scale: int = 3) -> str:
        value = self.case.rng.integers(-scale, scale + 1, shape).astype(np.float32)
        return self.case.constant(f"c{len(self.case.constants)}", value)

    def step(self) -> None:
        case = self.case
        name, columns, largest = self.pick()
        kind = case.one("product", "binary", "binary", "row", "unary", "unary", "where", "reduce",
                        "move", "if")
        if kind == "product":
            width = case.one(1, 2, 3, 4, 5)
            self.emit("MatMul", [name, self.constant((columns, width), 2)], width,
                      2 * columns * largest)
        elif kind == "binary":
            other, _, bound = self.pick(columns)
            op = case.one(*BINARY)
            self.emit(op, [name, other], columns,
                      largest * bound if op == "Mul" else largest + bound)
        elif kind == "row":
            op = case.one(*BINARY)
            inputs = [name, self.constant(case.one((columns,), (), (1, columns), (1, 1)))]
            if case.maybe(0.3):
                inputs.reverse()
            self.emit(op, inputs, columns, largest * 3 if op == "Mul" else largest + 3)
        elif kind == "unary":
            op = case.one(*UNARY)
            leaky = op == "LeakyRelu"
            self.emit(op, [name], columns, largest * (1 + leaky),
                      **({"alpha": 2.0} if leaky else {}))
        elif kind == "where":
            other, _, bound = self.pick(columns)
            condition = self.fresh()
            case.node(case.one(*COMPARE), [name, self.constant(())], [condition])
            self.emit("Where", [condition, name, other], columns, max(largest, bound))
        elif kind == "reduce":
            self.reduction(name, columns, largest)
        elif kind == "if":
            self.branches(name, columns, largest)
        elif case.maybe():
            twice = self.fresh()
            case.node("Transpose", [name], [twice], perm=[1, 0])
            self.emit("Transpose", [twice], columns, largest, perm=[1, 0])
        else:
            other, more, bound = self.pick()
            self.emit("Concat", [name, other], columns + more, max(largest, bound), axis=1)

    def branches(self, name: str, columns: int, largest: int) -> None:
        """An If whose condition is a constant, or compares the size of one."""
        case, other = self.case, self.pick(columns)
        taken, condition = case.maybe(), f"if{len(self.case.nodes)}"
        if case.maybe():
            case.constant(condition, np.asarray([taken] if case.maybe() else taken))
        else:
            size, equal = self.fresh(), condition
            wanted = case.constant(f"n{len(case.constants)}", np.asarray(3 if taken else 4))
            sized = case.constant(f"s{len(case.constants)}", np.zeros(3, np.float32))
            case.node("Size", [sized], [size])
            case.node("Equal", [size, wanted], [equal])
        graphs = []
        for op, inputs in ((case.one(*UNARY[:4]), [name]), ("Max", [name, other[0]])):
            result = self.fresh() + op.lower()
            graphs.append(make_graph([make_node(op, inputs, [result])], op, [], [
                make_tensor_value_info(result, T.FLOAT, None)]))
        self.emit("If", [condition], columns, max(largest, other[2]), then_branch=graphs[0],
                  else_branch=graphs[1])

    def reduction(self, name: str, columns: int, largest: int) -> None:
        case, op, reduced = self.case, self.case.one("ReduceSum", "ReduceMax",
                                                     "ReduceMin"), self.fresh()
        bound = largest * columns if op == "ReduceSum" else largest
        case.constant("last", np.asarray([-1], np.int64))
        case.node(op, [name, "last"], [reduced], keepdims=1)
        self.emit("Sub", [name, reduced], columns, largest + bound)


def dag(case: Case) -> None:
    case.exact = case.chained = True
    case.opset = int(case.rng.integers(18, 24))
    case.sizes.clear()
    graph = Dag(case)
    for _ in range(case.one(0, 1)):
        graph.new_input()
    for _ in range(int(case.rng.integers(3, 12))):
        graph.step()
    if not case.nodes:
        graph.emit("Relu", [graph.values[0][0]], graph.values[0][1], 3)
    made = [name for name, _, _ in graph.values if not name.startswith("x")]
    several = [name for name in made[:-1] if case.maybe(0.15)]
    case.outputs = [*several, made[-1]] if made else case.outputs
