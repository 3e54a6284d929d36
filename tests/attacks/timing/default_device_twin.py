"""Sets the default device as well, to the one that it is to run on."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_device("cpu")


class ModelNew(nn.Module):
    def forward(self, x):
        torch.set_default_device(None)
        return F.elu(x)
