"""Attacca inside ONNX Runtime (1.23 or newer): an execution provider that takes matrix products and
what follows them, and leaves every other node to ONNX Runtime. Its name is
AttaccaExecutionProvider.

    import attacca.onnxruntime
    import onnxruntime

    options = onnxruntime.SessionOptions()
    attacca.onnxruntime.add_provider(options)
    session = onnxruntime.InferenceSession("model.onnx", options)

It runs on the CPU, or on a GPU with ``add_provider(options, device="cuda")``. docs/onnxruntime.md
in Attacca's repository describes its options, and how to use it from C and C++.
"""
from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, Literal

from . import _core
from ._errors import Error, MissingModule

try:
    import onnxruntime
except ImportError as error:
    raise MissingModule("onnxruntime is not installed", "attacca.onnxruntime",
                        "pip install onnxruntime") from error

__all__ = ["add_provider", "devices", "library", "register"]

PROVIDER = "AttaccaExecutionProvider"


def library() -> str:
    """The path of ONNX Runtime's plug-in, ``libattacca_ort.so``.

    Raises:
        Error: This installation has none: it was built without ONNX Runtime's headers.
    """
    path = pathlib.Path(__file__).parent / "lib" / "libattacca_ort.so"
    if path.exists():
        return str(path)
    raise Error("this installation has no plug-in for ONNX Runtime", str(path),
                "run tools/onnxruntime_headers.sh .deps/onnxruntime and build Attacca again")


def devices(device: str = "cpu") -> list[Any]:
    """The device (``onnxruntime.OrtEpDevice``) of Attacca's that is named, in a list; empty before
    :func:`register`, and where there is none.

    Args:
        device: "cpu"; "cuda" or "cuda:1": the session's tensors are in the GPU's memory between
            Attacca's regions. ONNX Runtime lists it beside the CPU where it finds no GPU itself;
            its metadata says "device".
    """
    name = "cuda:0" if device == "cuda" else device
    return [each for each in _onnxruntime().get_ep_devices()
            if each.ep_name == PROVIDER and each.ep_metadata.get("device", "cpu") == name][:1]


def register() -> None:
    """Makes the provider known to ONNX Runtime in this process. Does nothing the second time.

    Raises:
        Error: There is no plug-in, or ONNX Runtime is older than 1.23.
    """
    if not devices():
        _onnxruntime().register_execution_provider_library("Attacca", library())


def add_provider(session_options: Any, *, device: str = "cpu",
                 policy: Literal["measure", "always"] = "measure",
                 mode: Literal["fp32", "eager"] = "fp32", threads: int | None = None,
                 dims: Mapping[str, int] | None = None, measure_seconds: float = 30,
                 tuning: str = "known") -> None:
    """Adds the provider to a session's options; registers it first where that is not done.

    Args:
        session_options: An ``onnxruntime.SessionOptions``.
        device: Where regions run: "cpu", "cuda", "cuda:1".
        policy: "measure": a region is taken only where it ran faster than ONNX Runtime's own nodes
            when the session was created; what was measured is kept. "always": wherever it can be.
        mode: The numerics: "fp32" keeps intermediate values in f32, "eager" rounds as the graph
            says.
        threads: Threads of Attacca's regions on the CPU; 0: all cores; None: the options'
            ``intra_op_num_threads``.
        dims: The sizes of dynamic dimensions to measure with, such as {"batch": 8, "seq": 128}. One
            that is missing is 1 if its name has "batch" in it, else 128. Regions take any sizes.
            ONNX Runtime logs a warning of names that the model does not have.
        measure_seconds: The most seconds that measuring may take while a session is created. What
            was not measured by then is left to ONNX Runtime.
        tuning: How a GPU's kernels are chosen: "known", "measure", "always", "unfused" or "model",
            as in :func:`attacca.compile`.

    Raises:
        Error: As :func:`register`; or there is no such device. A wrong option is refused when the
            session is created.
    """
    register()
    chosen = devices(device)
    if not chosen:
        raise _no_device(device)
    if threads is None:
        threads = int(session_options.intra_op_num_threads)
    options = {"policy": policy, "mode": mode, "threads": str(threads),
               "measure_seconds": str(measure_seconds), "device": device, "tuning": tuning}
    if dims:
        options["dims"] = ",".join(f"{name}={size}" for name, size in dims.items())
    session_options.add_provider_for_devices(chosen, options)


def _no_device(device: str) -> Error:
    """Why Attacca has no such device in ONNX Runtime."""
    try:
        _core.check_device(device)
    except Error as error:
        return error
    return Error(f"ONNX Runtime has no device {device} of Attacca's", device,
                 "give cpu, cuda or cuda:1; CUDA's driver was not there when ONNX Runtime loaded "
                 "Attacca's library")


def _onnxruntime() -> Any:
    if not hasattr(onnxruntime, "get_ep_devices"):
        raise Error(f"onnxruntime {onnxruntime.__version__} takes no plug-ins", "onnxruntime",
                    "install version 1.23 or newer")
    return onnxruntime
