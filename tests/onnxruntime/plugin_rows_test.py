"""The graphs of differential_test.py, with every node claimed by ONNX Runtime's plug-in: each op,
attribute and dtype on its way through it."""
from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import attacca
import attacca.onnxruntime
import differential_test
import onnx
import onnxruntime


class Session:
    """A session all of whose nodes are one region, as a plan."""

    claimed = 0

    def __init__(self, data: bytes, mode: str):
        model = onnx.load_from_string(data)
        for i, node in enumerate(model.graph.node):
            node.name = f"n{i}"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        attacca.onnxruntime.register()
        options.add_provider_for_devices(attacca.onnxruntime.devices(), {
            "nodes": ",".join(node.name for node in model.graph.node), "mode": mode,
            "threads": "1"})
        try:
            self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        except Exception as error:
            raise attacca.Error(str(error)) from error
        self.inputs = [SimpleNamespace(name=each.name) for each in self.session.get_inputs()]
        Session.claimed += any(part.ep_name == attacca.onnxruntime.PROVIDER
                               for part in self.session.get_provider_graph_assignment_info())

    def __call__(self, **feeds: Any) -> tuple[Any, ...]:
        try:
            return tuple(self.session.run(None, feeds))
        except Exception as error:
            raise attacca.Error(str(error)) from error


if __name__ == "__main__":
    os.environ.setdefault("ATTACCA_GRAPHS", "1200")
    differential_test.compile_model = Session
    code = differential_test.main()
    print(f"claimed in {Session.claimed} graphs")
    sys.exit(code or Session.claimed < int(os.environ["ATTACCA_GRAPHS"]) * 0.7)
