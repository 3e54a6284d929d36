"""A description of a candidate's source for whoever reviews it: what kind of thing it is, in which languages, whether
its kernel is reached from ``ModelNew.forward``, and which constructs deserve a look. Never a verdict.

``reader`` hands sources to a process of its own, under limits (``child``), in which all parsing happens; ``describe``
puts one description together. All that runs in that process is standard library only and imports nothing from outside
this folder: an edit here reruns aggregation and no stage. docs/static-view.md says what each label means.
"""
