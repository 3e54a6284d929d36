"""Torch operators by name: one canonical name for ``F.conv2d``, ``nn.Conv2d``, ``torch.conv2d`` and ``at::conv2d``."""

from __future__ import annotations

import re

_SAME = {
    "mm": "matmul",
    "bmm": "matmul",
    "mv": "matmul",
    "dot": "matmul",
    "baddbmm": "matmul",
    "addmm": "matmul",
    "linear": "matmul",
    "bilinear": "matmul",
    "clip": "clamp",
    "clampmin": "clamp",
    "clampmax": "clamp",
    "multiply": "mul",
    "divide": "div",
    "truedivide": "div",
    "subtract": "sub",
    "absolute": "abs",
    "negative": "neg",
    "concat": "cat",
    "concatenate": "cat",
    "amax": "max",
    "amin": "min",
    "convolution": "conv",
    "conv1d": "conv",
    "conv2d": "conv",
    "conv3d": "conv",
    "convtranspose1d": "convtranspose",
    "convtranspose2d": "convtranspose",
    "convtranspose3d": "convtranspose",
    "nativelayernorm": "layernorm",
    "nativebatchnorm": "batchnorm",
    "nativegroupnorm": "groupnorm",
    "cudnnconvolution": "conv",
    "crossentropy": "crossentropy",
    "l2norm": "norm",
    "vectornorm": "norm",
    "matrixnorm": "norm",
}

# What only makes, moves, describes or converts tensors, or is no operator at all.
_NO_COMPUTE = frozenset(
    """
    empty emptylike emptystrided zeros zeroslike ones oneslike full fulllike newempty newzeros newones newfull arange
    linspace tensor astensor scalartensor fromnumpy fromblob rand randn randint randperm randlike randnlike eye
    tensoroptions options dtype device nograd enablegrad inferencemode setgradenabled autocast compile manualseed seed
    view viewas reshape flatten unflatten permute transpose swapaxes movedim t contiguous unsqueeze squeeze expand
    expandas broadcastto broadcasttensors narrow select chunk split unbind size stride numel dim to type typeas float
    double half bfloat16 int long detach clone copy cuda cpu item tolist numpy identity istensor isfloatingpoint
    iscuda finfo iinfo generator save load stream event synchronize currentdevice getdeviceproperties devicecount
    isavailable setdefaultdtype setdefaultdevice usedeterministicalgorithms isgradenabled size parameter buffer
    sequential modulelist moduledict parameterlist parameterdict module script trace check optional nullopt slice
    asstrided viewasreal pin lerpscalar getnumthreads setnumthreads getcurrentcudastream dataptr
    setfloat32matmulprecision library customop makesubclass registerfake index ignore flattenparameters functional
    hasnan
    """.split()
)

_METHODS = frozenset(
    """
    relu sigmoid tanh exp log log2 log10 log1p sqrt rsqrt sum mean max min argmax argmin matmul mm bmm mv dot softmax
    logsoftmax clamp clampmin clampmax abs pow addmm baddbmm addbmm sub mul div cumsum cumprod prod norm std var topk
    maskedfill maskedselect einsum logsumexp flip neg square sign erf sin cos amax amin tril triu roll gelu silu
    softplus leakyrelu hardtanh floor ceil round reciprocal diag diagonal trace outer scatteradd indexadd
    repeatinterleave argsort cummax cummin nansum median quantile cross logit lerp addcmul addcdiv hardshrink
    """.split()
)

# Methods that other objects have too: counted only on what is known to be a tensor.
_AMBIGUOUS = frozenset("add sort where gather scatter indexselect repeat all any unique eq ne lt gt le ge".split())

_TORCH_SPACES = re.compile(
    r"torch\.(?:nn\.functional\.|special\.|linalg\.|fft\.|_C\._nn\.|sparse\.|ops\.aten\.|Tensor\.)?"
    r"(?:nn\.modules\.\w+\.|nn\.)?([A-Za-z_]\w*)(?:\.default|\.out)?"
)


def canonical(name: str) -> str:
    """``max_pool2d`` and ``MaxPool2d`` -> ``maxpool2d``; ``relu_`` -> ``relu``; ``MSELoss`` -> ``mse``."""
    plain = name.lower().replace("_", "")
    if len(plain) > 4:
        plain = plain.removesuffix("loss")
    if "norm" in plain:
        plain = re.sub(r"[123]d$", "", plain)
    return _SAME.get(plain, plain)


def is_torch_operator(name: str) -> bool:
    """Whether a function of torch (or at::) with this name computes something."""
    return name.lower().replace("_", "") not in _NO_COMPUTE and not name.startswith(("is_", "k_"))


def is_tensor_method(name: str) -> bool:
    """Whether a method with this name is a tensor's, and computes."""
    return name.lower().replace("_", "") in _METHODS


def is_ambiguous_method(name: str) -> bool:
    """Whether a tensor has a computing method of this name that other objects have too."""
    return name.lower().replace("_", "") in _AMBIGUOUS


def of_dotted(path: str) -> str | None:
    """The canonical operator behind a full name such as ``torch.nn.functional.relu``; None where it is none."""
    match = _TORCH_SPACES.fullmatch(path)
    if match is None or not is_torch_operator(match[1]):
        return None
    return canonical(match[1])


def module_of_dotted(path: str) -> str | None:
    """The canonical operator behind ``torch.nn.Conv2d``; None for a container or for no module."""
    match = re.fullmatch(r"torch\.nn\.(?:modules\.\w+\.)?([A-Z]\w*)", path)
    if match is None or match[1].lower() in _NO_COMPUTE:
        return None
    return canonical(match[1])
