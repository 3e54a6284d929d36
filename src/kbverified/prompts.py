"""What a model is asked: one turn, in our own words, with the reference source in it."""

from __future__ import annotations

import hashlib
import json

_TARGETS = {
    "cuda": "an NVIDIA GPU. Write CUDA C++ (built with torch.utils.cpp_extension.load_inline) or Triton",
    "cpu": "a CPU. Write C++ (built with torch.utils.cpp_extension.load_inline)",
}
_DTYPES = {"fp32": "float32", "bf16": "bfloat16"}

_TEMPLATE = """\
Below is a PyTorch module, Model, with the functions that make its inputs. Write a faster replacement for it that \
runs on {target}.

Rules:
- Call the replacement ModelNew. It is constructed with the same arguments as Model and its forward takes the same \
inputs and returns the same result: same shape, same dtype, same values within a small tolerance.
- Where Model has parameters or buffers, ModelNew registers them under the same names and shapes, created in the same \
order, so that the same random seed gives the same weights.
- Inputs arrive as {dtype} tensors on the device, contiguous unless the functions below make them otherwise. Their \
values will differ from those that get_inputs draws: do not rely on their range, and do not skip work because of it.
- Do not change Model's computation for speed alone: no lower precision than the inputs have, no cached results.
- The file must be complete: imports, kernel sources, ModelNew. No tests, no example calls.

Answer with exactly one fenced block of Python.

```python
{reference}
```
"""


def build_messages(reference: str, device: str = "cuda", dtype: str = "fp32") -> list[dict[str, str]]:
    """The chat messages that ask for a candidate. ``device`` is cuda or cpu, ``dtype`` fp32 or bf16.

    Raises KeyError for any other.
    """
    text = _TEMPLATE.format(target=_TARGETS[device], dtype=_DTYPES[dtype], reference=reference.strip("\n"))
    return [{"role": "user", "content": text}]


def sha256(messages: list[dict[str, str]]) -> str:
    """Sha256 (hex) over the messages as sent."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()
