"""Faulty kernels made from honest ones, and how many of them the gate catches. See ``__main__.py``."""
