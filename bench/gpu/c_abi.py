"""include/attacca/attacca.h by ctypes: the functions that launching a GEMM and its epilogue
needs."""

import ctypes
import json


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("mode", ctypes.c_char_p),
                ("tuning", ctypes.c_char_p), ("tuning_seconds", ctypes.c_double),
                ("threads", ctypes.c_int32), ("unfused_graph", ctypes.c_int32)]


class Size(ctypes.Structure):
    _fields_ = [("symbol", ctypes.c_char_p), ("value", ctypes.c_int64)]


POINTER = ctypes.c_void_p
TEXT = ctypes.c_char_p
STATUS = POINTER  # NULL: success
FUNCTIONS = {
    "attacca_status_what": (TEXT, [POINTER]),
    "attacca_status_fix": (TEXT, [POINTER]),
    "attacca_status_free": (None, [POINTER]),
    "attacca_bytes_data": (TEXT, [POINTER]),
    "attacca_bytes_free": (None, [POINTER]),
    "attacca_matmul_plan": (STATUS, [TEXT, TEXT, TEXT, TEXT, ctypes.POINTER(Options),
                                     ctypes.POINTER(POINTER)]),
    "attacca_graph_parse": (STATUS, [TEXT, ctypes.POINTER(POINTER)]),
    "attacca_graph_free": (None, [POINTER]),
    "attacca_plan_compile": (STATUS, [POINTER, ctypes.POINTER(Options), ctypes.POINTER(POINTER)]),
    "attacca_plan_free": (None, [POINTER]),
    "attacca_plan_prepare": (STATUS, [POINTER, ctypes.POINTER(Size), ctypes.c_size_t,
                                      ctypes.POINTER(ctypes.c_int32), ctypes.c_size_t,
                                      ctypes.POINTER(POINTER)]),
    "attacca_instance_free": (None, [POINTER]),
    "attacca_instance_workspace": (ctypes.c_size_t, [POINTER]),
    "attacca_instance_run": (STATUS, [POINTER, ctypes.POINTER(POINTER), ctypes.c_size_t,
                                      ctypes.POINTER(POINTER), ctypes.c_size_t,
                                      POINTER, ctypes.c_size_t, POINTER]),
    "attacca_instance_decisions_json": (STATUS, [POINTER, ctypes.POINTER(POINTER)]),
}


class Library:
    device = "cuda"

    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.functions, name)
            function.restype, function.argtypes = result, arguments

    def check(self, status):
        if not status:
            return
        what = self.functions.attacca_status_what(status) or b""
        fix = self.functions.attacca_status_fix(status) or b""
        self.functions.attacca_status_free(status)
        raise RuntimeError("; ".join(text.decode() for text in (what, fix) if text))

    def options(self, tuning, seconds):
        return ctypes.byref(Options(ctypes.sizeof(Options), self.device.encode(), b"fp32",
                                    tuning.encode(), seconds, 0, 0))

    def plan(self, epilogue, tuning, seconds, layout="nk"):
        return Handle(self, "plan", lambda out: self.functions.attacca_matmul_plan(
            b"bf16", layout.encode(), epilogue.encode(), None, self.options(tuning, seconds), out))

    def plan_of_text(self, text, tuning, seconds):
        graph = Handle(self, "graph", lambda out: self.functions.attacca_graph_parse(
            text.encode(), out))
        return Handle(self, "plan", lambda out: self.functions.attacca_plan_compile(
            graph.value, self.options(tuning, seconds), out))

    def instance(self, plan, sizes):
        array = (Size * len(sizes))(*(Size(key.encode(), value) for key, value in sizes.items()))
        return Handle(self, "instance", lambda out: self.functions.attacca_plan_prepare(
            plan.value, array, len(sizes), None, 0, out))

    def decisions(self, instance):
        made = Handle(self, "bytes", lambda out:
                      self.functions.attacca_instance_decisions_json(instance.value, out))
        return json.loads(self.functions.attacca_bytes_data(made.value))

    def workspace_bytes(self, instance):
        return self.functions.attacca_instance_workspace(instance.value)

    def runner(self, instance, inputs, outputs, workspace, workspace_bytes):
        """run(stream): one launch on these device addresses."""
        ins, outs = (POINTER * len(inputs))(*inputs), (POINTER * len(outputs))(*outputs)
        run = self.functions.attacca_instance_run

        def launch(stream):
            self.check(run(instance.value, ins, len(ins), outs, len(outs), workspace,
                           workspace_bytes, stream))
        return launch


class Handle:
    """Freed with its last reference."""

    def __init__(self, library, kind, make):
        self.free = getattr(library.functions, f"attacca_{kind}_free")
        self.value = None
        out = POINTER()
        library.check(make(ctypes.byref(out)))
        self.value = out.value

    def __del__(self):
        if self.value:
            self.free(self.value)
