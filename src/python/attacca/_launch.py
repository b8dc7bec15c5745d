"""Runs plans: keeps a plan's instances for the shapes and layouts seen so far, and launches them.

There is no other way to launch: :class:`attacca.Plan`, :func:`attacca.matmul`, fused functions and
the custom ops of :mod:`attacca.torch` all get a :class:`Ready` from :meth:`Engine.ready` and pass
the addresses of their tensors to its ``launch``.
"""
from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _core, _dispatch
from ._arguments import listed
from ._frameworks import Framework, Numpy, View, of
from ._layout import Signature

# Instances that a plan keeps; the least recently used is dropped first.
_MOST_INSTANCES = 256
# Indexed by an address's last four bits: the power of two, at most 16, to which the address is
# aligned.
_ALIGNMENTS = tuple(low & -low or 16 for low in range(16))
_NOTHING = View(0, (), (), "f32", "cpu", None)
_count = itertools.count()
# Guards the instances of all engines. A fork waits for it, since the child would otherwise inherit
# a lock that another thread holds and never releases.
_lock = threading.Lock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release,
                    after_in_child=_lock.release)

Launch = Callable[[Sequence[int], Sequence[int]], None]


def _launcher(instance: _core.Instance, device: str, framework: Framework) -> Launch:
    """A function that runs an instance, given the addresses of its inputs and of its outputs.

    On a GPU it launches on the framework's current stream and takes its workspace from the
    framework's allocator.
    """
    run, size = instance.run, instance.workspace_bytes
    if device == "cpu":
        return run
    index = int(device.partition(":")[2])
    stream, workspace = framework.current_stream(), framework.workspace

    def launch(inputs: Sequence[int], outputs: Sequence[int]) -> None:
        if size:
            memory, owner = workspace(size, device)
            run(inputs, outputs, memory, size, stream(index))
            del owner  # the allocator reuses it in the stream's order
        else:
            run(inputs, outputs, 0, 0, stream(index))
    return launch


class Ready(NamedTuple):
    """An instance that can be launched at once.

    Attributes:
        launch: Takes the addresses of inputs and outputs. On a GPU it returns before the work is
            done.
        shapes: The outputs' shapes.
        instance: What is launched.
    """

    launch: Launch
    shapes: list[tuple[int, ...]]
    instance: _core.Instance


class Engine:
    """What runs a plan. Any number of threads may use it at the same time.

    Attributes:
        core: The library's plan.
        signature: Its inputs and outputs.
        identity: A text that no other engine has; Dynamo guards it.
        input_count: The number of inputs, which Dynamo guards.
        output_count: The number of outputs, which Dynamo guards.
        cache: The calls that were made before, each with all inputs in the plan's order.
    """

    def __init__(self, core: _core.Plan):
        self.core, self.signature = core, Signature(core)
        self.identity = f"plan {next(_count)}"
        self.input_count, self.output_count = len(self.signature.inputs), len(
            self.signature.outputs)
        self.cache = _core.CallCache()
        self._instances: OrderedDict[Any, Ready] = OrderedDict()

    def call(self, inputs: Sequence[Any], named: Mapping[str, Any], out: Any,
             also: _core.CallCache | None = None) -> Any:
        """Runs the plan on tensors; arguments, results and errors are those of
        :meth:`attacca.Plan.__call__`. ``also``: a cache of the caller's to which the call is
        added."""
        given = inputs
        if named or len(given) != self.input_count:
            given = self.signature.arranged(list(given), named)
        known = self.cache.run(given, out) if also is None else None
        if known is not None:
            return known
        frameworks = [of(tensor) for tensor in given]
        views = [framework.view(tensor, layout.info.name)
                 for framework, tensor, layout in zip(frameworks, given, self.signature.inputs)]
        outs = listed(out)
        into = None if outs is None else self._writable(outs)
        main = frameworks[0] if frameworks else of(outs[0]) if outs else Numpy
        results, ready = self.run(views, main, outs, into)
        for cache in (self.cache, *([] if also is None else [also])):
            self.remember(cache, given, out, range(len(given)), main, views, ready)
        return results if len(results) > 1 or isinstance(out, (list, tuple)) else results[0]

    def remember(self, cache: _core.CallCache, given: Sequence[Any], out: Any,
                 order: Sequence[int], framework: Framework, views: Sequence[View], ready: Ready,
                 shapes: Sequence[tuple[int, ...]] | None = None) -> None:
        """Adds a call that was made to a cache, which then launches calls like it without checks.

        Args:
            cache: The cache.
            given: The call's tensors.
            out: Where its results went, or None.
            order: The plan's inputs among ``given``.
            framework: As :meth:`run` was called with.
            views: As :meth:`run` was called with.
            ready: What :meth:`run` returned.
            shapes: The shapes of results that are allocated, if other than the plan's.
        """
        like = views[0] if views else _NOTHING
        allocations = [framework.allocation(shape, layout.info.dtype, like)
                       for shape, layout in zip(shapes or ready.shapes, self.signature.outputs)]
        made = [each for each in allocations if each is not None]
        gpu = None
        if self.signature.device != "cpu":
            size = ready.instance.workspace_bytes
            gpu = (framework.current_stream(), int(self.signature.device.partition(":")[2]),
                   framework.allocation((size,), "u8", like) if size else None)
        if len(made) == len(allocations):
            cache.add(given, out, ready.instance, list(order), made, gpu)

    def run(self, views: Sequence[View], framework: Framework, outs: Sequence[Any] | None,
            into: Sequence[View] | None) -> tuple[tuple[Any, ...], Ready]:
        """Runs on tensors whose memory is known.

        Args:
            views: The inputs, in the plan's order.
            framework: Whose memory results and the workspace are, and whose current stream is used.
            outs: Where results go, or None: they are allocated.
            into: The views of ``outs``.

        Returns:
            The results, and what was launched.
        """
        ready = self.ready(framework, views, into)
        if outs is None or into is None:
            like = views[0] if views else _NOTHING
            outs = [framework.empty(shape, layout.info.dtype, like)
                    for shape, layout in zip(ready.shapes, self.signature.outputs)]
            addresses = [framework.view(tensor, "out").address for tensor in outs]
        else:
            addresses = [view.address for view in into]
        ready.launch([view.address for view in views], addresses)
        if into is not None:
            for tensor in outs:
                of(tensor).wrote(tensor)
        return tuple(outs), ready

    def ready(self, framework: Framework, views: Sequence[View],
              into: Sequence[View] | None) -> Ready:
        """The instance for tensors of these shapes, strides, dtypes and alignments; prepared at
        their first use.

        Raises:
            Error: As :meth:`attacca.Plan.__call__`.
        """
        key = (framework, tuple([(view[1:5], _ALIGNMENTS[view[0] & 15]) for view in views]),
               tuple([(view[1:5], _ALIGNMENTS[view[0] & 15]) for view in into]) if into else None)
        with _lock:
            ready = self._instances.get(key)
            if ready is not None:
                self._instances.move_to_end(key)
                return ready
        ready = self._prepare(framework, views, into)
        with _lock:
            self._instances[key] = ready
            if len(self._instances) > _MOST_INSTANCES:
                self._instances.popitem(last=False)
        return ready

    def _prepare(self, framework: Framework, views: Sequence[View],
                 into: Sequence[View] | None) -> Ready:
        sizes = self.signature.sizes(views)
        alignments = [_ALIGNMENTS[view.address & 15] for view in views]
        strides: list[Sequence[int]] = [view.strides for view in views]
        if into:
            self.signature.check_outs(into, sizes)
            alignments += [_ALIGNMENTS[view.address & 15] for view in into]
            strides += [view.strides for view in into]
        else:
            alignments += [16] * self.output_count
            strides += [()] * self.output_count
        instance = self.core.prepare(list(sizes.items()), alignments, strides)
        shapes = [tuple(instance.output_shape(i)) for i in range(self.output_count)]
        return Ready(_launcher(instance, self.signature.device, framework), shapes, instance)

    def _writable(self, outs: Sequence[Any]) -> list[View]:
        self.signature.check_count(outs)
        return [of(tensor).view(tensor, "out", True) for tensor in outs]

    # ---- For Dynamo: it runs what is marked constant while it traces, for the identity that it
    # guards.

    def argument(self, identity: str) -> str:
        """The plan as a custom op's argument."""
        return _dispatch.custom_ops().plan_argument(self)

    def order(self, identity: str, count: int, names: str) -> str:
        """The names of the inputs behind the first ``count``, where inputs of these ``names`` are
        given by name.

        Raises:
            Error: As :meth:`Signature.arranged`.
        """
        self.signature.arranged([object()] * count, dict.fromkeys(names.split(), object()))
        return " ".join(self.signature.names_after(count))

    argument._dynamo_marked_constant = True  # type: ignore[attr-defined]
    order._dynamo_marked_constant = True  # type: ignore[attr-defined]
