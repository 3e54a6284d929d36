"""The worker's parts: all that runs in the candidate's process beside the candidate. ``kbverified.worker`` puts them
together and is what is executed.

``state`` has what a worker holds, and makes a verdict of what a candidate raises; ``start`` comes as far as a model on
its device; ``launches`` runs that. Nothing here is trusted: the candidate can change any of it.
"""
