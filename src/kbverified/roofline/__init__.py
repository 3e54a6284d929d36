"""The roofline: how fast a problem could be done at all, and how far from it baseline and candidate are.

``needs``: what of inputs, outputs and weights has to move, and the reference's FLOPs (part of the audit). ``ceilings``:
what this device moves and computes per second, measured. ``floor``: both put together, pure numbers. ``columns``: the
kernel table's view of it. Why what is counted how: docs/decisions/0017-roofline.md.
"""
