"""kazoo's own test suite, unmodified, from the installed package, as the judge of ParKazooClient.

PARKAZOO_SUITE says what is judged: ``plain`` (KazooClient itself, the control), ParKazooClient over that many
ensembles, ``1`` or ``3``, the same over a map of form ``grown``, or ``gateway``: KazooClient at three gateways.
"""
