"""The data model: one frozen record per stage, JSON both ways, validated.

A record that cannot be true cannot be made: unknown fields, a verdict on a skipped stage, NaN where a number is
asked for. "Not measured" is None with a reason beside it, never 0.

``base`` has what all of them share; ``generation``, ``problem``, ``stages`` and ``ceilings`` the records themselves;
``trials`` and ``timing`` what those of the gate and of the time stages hold; ``files`` reads and writes them. Nothing
is imported here: who needs one of these depends on that one alone (source_digest).
"""
