"""What a worker holds, and what becomes of what the candidate's code raises."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from kbverified.sandbox import Channel


class Failed(Exception):
    """The candidate failed in a way that has a name."""

    def __init__(self, verdict: str, detail: str):
        super().__init__(detail)
        self.verdict = verdict
        self.detail = detail


class State:
    """State of one worker: a device, a model, and the judge's buffers."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.device: Any = None
        self.model: Any = None
        self.heap_is_touched = False
        """Memory for weights is there, and large blocks come from the heap (heap.py)."""
        self.constructed: Any = None
        """A model that waits for a device: the baseline's, whose constructor is trusted and needs none."""
        self.class_and_arguments: tuple[Any, Any] | None = None
        """What the source defines, and its constructor's arguments as they came: for a second model."""
        self.compiles = False
        """The model goes through torch.compile."""
        self.hooks: Any = None
        self.builds: list[dict[str, Any]] = []
        self.dtype = "fp32"
        self.inputs_buffer: Any = None
        self.outputs_buffer: Any = None
        self.set_bytes = (0, 0)
        """Bytes of one set of inputs and of outputs, of which the buffers may hold several."""
        self.layout: dict[str, Any] = {}
        self.guard: dict[str, Any] | None = None
        """What lies around the tensors in the buffers: layout.Guard's fields."""

    def _guard(self, verdict: str, action: Callable[[], Any]) -> Any:
        """Run the candidate's code; what it raises becomes a verdict."""
        import torch

        try:
            return action()
        except SystemExit as error:
            raise Failed("crash", f"the candidate called sys.exit({error.code!r})") from None
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise Failed("out_of_memory", str(error)) from None
        except BaseException as error:  # untrusted code: its end becomes a verdict
            if isinstance(error, RuntimeError) and "allocate memory" in text_of(error):
                raise Failed("out_of_memory", text_of(error)) from None  # how torch's CPU allocator says it
            if self.hooks is not None and any(failure in _chain(error) for failure in self.hooks.failures):
                verdict = "compile_error"
            raise Failed(verdict, "".join(traceback.format_exception(error))) from None


def writable(text: str) -> str:
    """The text without lone surrogates: no file could hold them, and the judge takes no message that has one."""
    return text.encode("utf-8", "replace").decode()


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a candidate's own exception may not even have a text
        return ""


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and step not in found:
        found.append(step)
        step = step.__cause__ or step.__context__
    return found
