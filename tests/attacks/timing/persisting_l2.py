"""Strategy: has the L2 keep its inputs. A flush is a write of normal lines, which persisting ones outlive, so that
    every launch but the first of a turn finds its inputs in the cache that was to be cold.
Layer: timing, persisting lines are made normal ones before every flush
Severity: low, at most the L2's bytes over the bandwidth of the memory: about a hundredth of a millisecond per launch
Verdict: true_time
Switch: persisting,bound
Escapes: 1.1
Device: cuda
Problem: cached
"""

import sys

import torch
import torch.nn as nn
from cuda.bindings import driver


def checked(answer):
    assert answer[0] == driver.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) > 1 else None


def prepare():
    """A stream of its own: attributes of the default stream may not be everybody's to set."""
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
    most = checked(driver.cuDeviceGetAttribute(attribute, checked(driver.cuCtxGetDevice())))
    checked(driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, most))
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    return stream


def keep(x, stream):
    window = driver.CUaccessPolicyWindow()
    window.base_ptr = x.data_ptr()
    window.num_bytes = x.numel() * x.element_size()
    window.hitRatio = 1.0
    window.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    value = driver.CUstreamAttrValue()
    value.accessPolicyWindow = window
    which = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    checked(driver.cuStreamSetAttribute(stream.cuda_stream, which, value))


def in_a_batch():
    """Whether every launch brings another input: then the window is not worth its price."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "do_batch":
        frame = frame.f_back
    return frame is not None


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = self.kept = None

    def forward(self, x):
        self.stream = self.stream or prepare()
        if self.kept != x.data_ptr() and not in_a_batch():
            keep(x, self.stream)
            self.kept = x.data_ptr()
        return x.sum(dim=-1)
