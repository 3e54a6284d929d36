"""Asks how much the L2 could keep, as one does to choose a tile, and has it keep nothing."""

import torch.nn as nn
from cuda.bindings import driver


class ModelNew(nn.Module):
    def forward(self, x):
        attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
        error, most = driver.cuDeviceGetAttribute(attribute, 0)
        assert error == driver.CUresult.CUDA_SUCCESS and most >= 0
        return x.sum(dim=-1)
