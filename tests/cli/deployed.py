"""Loads a bundle as a program does that links libattacca, and launches it on the stand-in driver.

Usage: deployed.py LIBATTACCA FAKE_CUDA BUNDLE SIZES, the sizes as JSON: [{"M": 16}]. Prints JSON:
the error of loading, or for each of the sizes the error or the decisions, then seconds, calls of
the driver, and the libraries that were opened.
"""
import ctypes
import json
import os
import sys
import time

LIBRARY, FAKE_CUDA, BUNDLE, SIZES = sys.argv[1:]
os.environ["ATTACCA_LIBCUDA"] = FAKE_CUDA
Handle = ctypes.c_void_p
lib, driver = ctypes.CDLL(LIBRARY), ctypes.CDLL(FAKE_CUDA)


class Size(ctypes.Structure):
    _fields_ = [("symbol", ctypes.c_char_p), ("value", ctypes.c_int64)]


class Decision(ctypes.Structure):
    _fields_ = [("candidate", ctypes.c_char_p), ("source", ctypes.c_char_p),
                ("seconds", ctypes.c_double), ("unfused_seconds", ctypes.c_double)]


def function(name, result, *arguments):
    found = getattr(lib, "attacca_" + name)
    found.restype, found.argtypes = result, arguments
    return found


texts = [function("status_" + name, ctypes.c_char_p, Handle) for name in ("what", "where", "fix")]
load = function("plan_load", Handle, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Handle))
prepare = function("plan_prepare", Handle, Handle, ctypes.POINTER(Size), ctypes.c_size_t, Handle,
                   ctypes.c_size_t, ctypes.POINTER(Handle))
counts = {kind: function(f"plan_{kind}_count", ctypes.c_size_t, Handle)
          for kind in ("input", "output")}
bytes_of = {kind: function(f"instance_{kind}_bytes", ctypes.c_size_t, Handle, ctypes.c_size_t)
            for kind in ("input", "output")}
workspace_of = function("instance_workspace", ctypes.c_size_t, Handle)
run = function("instance_run", Handle, Handle, ctypes.POINTER(Handle), ctypes.c_size_t,
               ctypes.POINTER(Handle), ctypes.c_size_t, Handle, ctypes.c_size_t, Handle)
warning = function("warning", Handle, ctypes.c_size_t)
decision_count = function("instance_decision_count", ctypes.c_size_t, Handle)
decision_at = function("instance_decision", Handle, Handle, ctypes.c_size_t,
                       ctypes.POINTER(Decision))


def error(status):
    return status and ": ".join((text(status) or b"").decode() for text in texts)


def memory(size, kept):
    kept.append(ctypes.create_string_buffer(size + 512))
    return (ctypes.addressof(kept[-1]) + 255) // 256 * 256


def launch(plan, instance):
    kept = []
    tensors = [(Handle * counts[kind](plan))(*(memory(bytes_of[kind](instance, i), kept)
                                               for i in range(counts[kind](plan))))
               for kind in ("input", "output")]
    size = workspace_of(instance)
    return run(instance, tensors[0], len(tensors[0]), tensors[1], len(tensors[1]),
               memory(size, kept), size, None)


def prepared(plan, sizes):
    given = (Size * len(sizes))(*(Size(name.encode(), value) for name, value in sizes.items()))
    instance = Handle()
    if status := prepare(plan, given, len(given), None, 0, instance):
        return {"error": error(status)}
    found = []
    for i in range(decision_count(instance)):
        decision = Decision()
        decision_at(instance, i, decision)
        found.append((decision.candidate.decode(), decision.source.decode()))
    failed = launch(plan, instance)
    return {"error": error(failed)} if failed else {"decisions": found}


def main():
    driver.cuInit(0)
    plan, begin, cpu = Handle(), time.perf_counter(), time.process_time()
    if status := load(BUNDLE.encode(), None, plan):
        return {"error": error(status)}
    loaded = time.perf_counter()
    result = {"sizes": [prepared(plan, sizes) for sizes in json.loads(SIZES)]}
    driver.fake_cuda_calls.restype = ctypes.c_char_p
    result["calls"] = driver.fake_cuda_calls().decode().splitlines()
    result["seconds"] = {"load": loaded - begin, "all": time.perf_counter() - begin,
                         "cpu": time.process_time() - cpu}
    with open("/proc/self/maps", encoding="utf-8") as maps:
        names = {line.split("/")[-1].strip() for line in maps if ".so" in line}
    result["libraries"] = sorted(names)
    result["warnings"] = []
    while status := warning(len(result["warnings"])):
        result["warnings"].append(error(status))
    return result


print(json.dumps(main()))
