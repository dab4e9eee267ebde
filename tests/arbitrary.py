"""Arbitrary texts, paths and JSON, for tests of what is read from outside.

PARKAZOO_FUZZ is the number of examples of each test, drawn anew each time; without it, a few and always the same.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from parkazoo.protocol.placement import DONE, FENCES, MIRRORS, PIN, ROOT

FEW = 150
EXAMPLES = os.environ.get("PARKAZOO_FUZZ")
settings.register_profile(
    "fuzz",
    max_examples=int(EXAMPLES or FEW),
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,  # a slow machine is no defect
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
fuzzed = settings.get_profile("fuzz")

ANY_TEXT = st.text(st.characters(), max_size=40)  # surrogates too, which have no UTF-8
OURS = st.sampled_from([ROOT, MIRRORS, FENCES, DONE, PIN, "%2F", "%25", "%", "/", ".", "..", "zookeeper", "a"])
TEXT = st.lists(st.one_of(ANY_TEXT, OURS), max_size=6).map("".join)
NAME = TEXT.map(lambda text: text.replace("/", "")).filter(lambda name: name not in ("", ".", ".."))
ANY_PATH = st.lists(NAME, max_size=5).map(lambda names: "/" + "/".join(names))
PATH = ANY_PATH.filter(lambda path: path.isprintable() or path.encode("utf-8", "ignore").decode() == path)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=5,
)
