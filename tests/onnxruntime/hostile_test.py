"""Random ONNX graphs of every row of src/import/onnx/ops.def with something wrong in each: an input
missing, of another shape or type, an attribute or a constant of another value. Each is read, or
refused with a reason. ATTACCA_SEED and ATTACCA_GRAPHS choose others and how many; ATTACCA_HOSTILE
names the file in which the model that is read stands, for one that crashes."""
from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

import attacca
from cases import NUMPY, table
from differential_test import SOURCE, generate, model

MEMORY = 6 << 30
NUMBERS = (0, 1, -1, 2, 3, 4, 8, 16, 64, -2, 7, 48, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))
REALS = (0.0, 1.0, -1.0, 1e-5, 1e38, float("nan"), float("inf"))
DIMS = (0, 1, 2, 3, 5, 48, -1, "M", "Z", 1 << 40, (1 << 63) - 1)


class Mutation:
    """Changes of a model, drawn from one generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def dims(self, dims: list[Any]) -> list[Any]:
        at = int(self.rng.integers(len(dims) + 1))
        kind = self.one(("insert", "remove", "replace", "scalar"))
        if kind == "scalar":
            return []
        return dims[:at] + ([] if kind == "remove" else [self.one(DIMS)]) + (
            dims[at:] if kind == "insert" else dims[at + 1:])

    def without_input(self, graph: onnx.GraphProto) -> None:
        node = self.one(graph.node)
        if node.input:
            node.input[int(self.rng.integers(len(node.input)))] = ""

    def input(self, graph: onnx.GraphProto) -> None:
        if not graph.input:
            return
        value = self.one(graph.input)
        kind = value.type.tensor_type
        dims = [dim.dim_param or dim.dim_value for dim in kind.shape.dim]
        dtype = self.one(list(NUMPY)) if self.rng.random() < 0.4 else kind.elem_type
        value.CopyFrom(helper.make_tensor_value_info(value.name, dtype, self.dims(dims)))

    def constant(self, graph: onnx.GraphProto) -> None:
        if not graph.initializer:
            return
        tensor = self.one(graph.initializer)
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind not in "iufb" or array.size > 10**5:
            return
        wanted = self.dims(list(array.shape))
        dims = [dim for dim in wanted if isinstance(dim, int) and 0 <= dim < 9]
        dtype = self.one(list(NUMPY.values())) if self.rng.random() < 0.4 else array.dtype
        with np.errstate(all="ignore"):
            if self.rng.random() < 0.5:
                array = np.resize(array, dims)
            else:
                array = np.array([self.one(NUMBERS) for _ in range(int(np.prod(dims)))]).reshape(
                    dims)
            tensor.CopyFrom(numpy_helper.from_array(array.astype(dtype), tensor.name))

    def attribute(self, graph: onnx.GraphProto) -> None:
        node = self.one(graph.node)
        if not node.attribute:
            return
        attribute = self.one(node.attribute)
        if attribute.type == AttributeProto.INT:
            attribute.i = self.one(NUMBERS)
        elif attribute.type == AttributeProto.FLOAT:
            attribute.f = self.one(REALS)
        elif attribute.type == AttributeProto.INTS and attribute.ints:
            attribute.ints[int(self.rng.integers(len(attribute.ints)))] = self.one(NUMBERS)
            if self.rng.random() < 0.3:
                attribute.ints.append(self.one(NUMBERS))

    def apply(self, graph: onnx.GraphProto) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            self.one((self.without_input, self.input, self.constant, self.attribute))(graph)


def main() -> int:
    # What a graph computes from constants alone may be large: memory that is not there is refused.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    seed, count = int(os.environ.get("ATTACCA_SEED", "7")), int(os.environ.get("ATTACCA_GRAPHS",
                                                                               "4000"))
    rows = table(SOURCE / "src/import/onnx/ops.def")
    last = os.environ.get("ATTACCA_HOSTILE")
    taken = failures = 0
    for i in range(count):
        row = rows[i % len(rows)]
        hostile = model(generate(row, [seed, i]))
        Mutation(np.random.default_rng([seed, i, 1])).apply(hostile.graph)
        bytes_ = hostile.SerializeToString()
        if last:
            Path(last).write_bytes(bytes_)
        try:
            attacca.compile(bytes_, threads=1)
            taken += 1
        except attacca.Error as error:
            if len(str(error).strip()) < 8:
                failures += 1
                print(f"graph {i} of seed {seed}, {row}: refused without a reason")
    print(f"seed {seed}: {count} graphs of {len(rows)} rows, {taken} read, {failures} failures")
    return 1 if failures or not count // 10 < taken < count * 9 // 10 else 0


if __name__ == "__main__":
    sys.exit(main())
