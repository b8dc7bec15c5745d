"""Symmetric memory without a GPU: a file that all ranks of a group on gloo map, for the exchanges
over symmetric memory with CPU tensors."""
import contextlib
import ctypes
import os
import random
import threading
import time

_SIZE, _PAD = 1 << 20, 2048


class File:
    """Symmetric memory in a file; signals are messages."""

    def __init__(self, path, rank, count, size):
        import torch

        self.bytes = torch.from_file(path, shared=True, size=(size + _PAD) * count,
                                     dtype=torch.uint8)
        self.pads = self.bytes[size * count:].view(torch.uint32).view(count, -1)
        self.rank, self.size, self.signals = rank, size, []
        self.opened, self.begun = 0, 0  # calls; barriers before one
        self.grown, self.graph = 0, 0  # how often; a number that stands for a CUDA graph

    def get_buffer(self, rank, shape, dtype, storage_offset=0):
        import torch

        element = torch.empty((), dtype=dtype).element_size()
        begin = rank * self.size + storage_offset * element
        length = torch.Size(shape).numel() * element
        assert storage_offset * element + length <= self.size
        time.sleep(random.random() / 1000)
        return self.bytes[begin:begin + length].view(dtype).view(shape)

    def get_signal_pad(self, rank):
        return self.pads[rank]

    def barrier(self, channel, timeout_ms):
        import torch.distributed as dist

        assert timeout_ms == 120_000, timeout_ms
        self.begun += channel == 0
        dist.barrier()

    def put_signal(self, to, channel, timeout_ms):
        import torch
        import torch.distributed as dist

        self.signals.append(dist.isend(torch.zeros(1), to, tag=channel))

    def wait_signal(self, source, channel, timeout_ms):
        import torch
        import torch.distributed as dist

        dist.recv(torch.zeros(1), source, tag=channel)

    def finish(self):
        for signal in self.signals:
            signal.wait()


def share(group):
    """Makes a group on the CPU capable of the exchanges over symmetric memory; returns it."""
    import torch

    from attacca.torch._parallel import awaiting, direct, pieces, pulled, ways, workspace

    path = os.environ["ATTACCA_TEST_STORE"] + ".memory"
    memory = File(path, group.rank(), group.size(), _SIZE)

    class OnFile(workspace.Workspace):
        def _allocated(self, wanted):
            assert wanted <= memory.size
            memory.grown += 1
            return memory, None

        def _capture(self):
            memory.opened += 1
            return memory.graph

    class WithoutStreams:
        @staticmethod
        def _streams(device):
            return None

        @staticmethod
        def _core_device(device):
            return None

        def _fork(self):
            pass

        def _beside(self):
            return contextlib.nullcontext()

        def _launch(self, launch, beside):
            """Both at once. Which thread runs them does not matter to what they call."""
            thread = Thread(launch)
            beside()
            thread.finish()

        def _write_value(self, word, value):
            word.view(torch.int32).fill_(value)

        def _wait_value(self, word):
            wait_for(lambda: word.item() == 1)

        def _record(self):
            return None

        def _await(self, event):
            pass

        def _join(self):
            pass

        def _signal(self, half, to, channel):
            memory.put_signal(to, half._channel(channel), 120_000)

    cpu = torch.device("cpu")
    shared = OnFile(group, cpu)
    ways._shared.setdefault(group, {})[cpu] = {
        name: type(way.__name__, (WithoutStreams, way), {})(shared)
        for name, way in (("direct", direct.Direct), ("pieces", pieces.Pieces),
                          ("awaiting", awaiting.Awaiting), ("pulled", pulled.Pulled))}
    return memory


class Thread(threading.Thread):
    """A call on a thread of its own; `finish` raises what it raised, and so does who waits."""

    errors = []

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call = call
        self.start()

    def run(self):
        try:
            self.call()
        except BaseException as error:  # noqa: BLE001  of the thread that waits
            self.errors.append(error)

    def finish(self):
        self.join(60)
        assert not self.is_alive(), "the launch waits"
        self.check()

    @classmethod
    def check(cls):
        if cls.errors:
            raise cls.errors[0]


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        if threading.current_thread() is threading.main_thread():
            Thread.check()
        assert time.monotonic() < end, "what is awaited does not come"
        time.sleep(1e-4)


class _Parts:
    """Stands for the library's parts on a GPU: runs the plan for each part, after its word."""

    def __init__(self, instance, inputs, outputs):
        self.instance, self.inputs, self.outputs, self.runs = instance, inputs, outputs, 0

    def run(self, inputs, outputs, words, value, most_ms, stream):
        assert most_ms == 120_000, most_ms
        for part, address in enumerate(words):
            if address:
                word = ctypes.c_uint32.from_address(address)
                wait_for(lambda word=word: word.value == value)
            self.instance.run(inputs[part * self.inputs:(part + 1) * self.inputs],
                              outputs[part * self.outputs:(part + 1) * self.outputs])
        self.runs += 1


def await_parts():
    """Makes plans on the CPU have parts; returns a list of those that were prepared."""
    from attacca.torch._parallel import ops

    prepared = []

    def prepare_parts(engine, sizes, count):
        prepared.append(_Parts(engine.core.prepare(list(sizes), []), engine.input_count,
                               engine.output_count))
        return prepared[-1]
    ops.prepare_parts = prepare_parts
    return prepared
