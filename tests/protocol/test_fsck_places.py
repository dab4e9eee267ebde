"""What fsck says of pins that name another ensemble than the map does: that alone, and no repair."""

from __future__ import annotations

import json
import unittest

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, SetData
from parkazoo.protocol.audit import Audit
from parkazoo.protocol.audit_paths import audit_znode
from parkazoo.protocol.findings import MISSING_PINS, Finding
from parkazoo.protocol.mend import MENDS, mend
from parkazoo.protocol.placement import Place, Placement, split
from tests.explore.alone import find_directory, make_context, must, prepared, promote, run
from tests.where_is import where_is

PLACEMENT = Placement(3)
PATH = find_directory(PLACEMENT, False)
MARK = "0123456789abcdef0123456789abcdef"


class PlacesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.model = prepared(PLACEMENT, [PATH])
        self.context = make_context(PLACEMENT)
        self.d = where_is(PLACEMENT, PATH)
        must(self.model.execute(self.d.home.ensemble, Create(self.d.home.path, b"", OPEN_ACL_UNSAFE, 0)))

    def look(self, path: str = PATH) -> Audit:
        home = where_is(PLACEMENT, path).home
        return run(self.model, audit_znode(self.context, Place(home.ensemble, "/"), "/", split(path)[1]))

    def say(self, data: bytes) -> None:
        """What the pin holds from now on."""
        must(self.model.execute(self.d.home.ensemble, SetData(self.d.pin, data, -1)))

    def kinds(self, path: str = PATH) -> list[str]:
        seen = self.look(path)
        self.assertEqual(seen.suspects, ())
        return [finding.kind.name for finding in seen.findings]

    def test_a_pin_of_another_map(self) -> None:
        """Whatever else is there, nothing but this is said of it: no repair makes it look right."""
        named = {"e9": "unknown-ensembles", f"e{self.d.home.ensemble}": "differing-places"}
        for on, kind in named.items():
            with self.subTest(on):
                run(self.model, promote(self.context, self.d))
                self.say(json.dumps({"fence": [1, 0], "on": on}).encode())
                self.assertEqual(self.kinds(), [kind])
                must(self.model.execute(self.d.mirror.ensemble, Delete(self.d.mirror.path, -1)))
                self.assertEqual(self.kinds(), [kind])
                mark = self.d.mark(f"{MARK}.-1")
                must(self.model.execute(self.d.home.ensemble, Create(mark, b"", OPEN_ACL_UNSAFE, 0)))
                seen = self.look()
                self.assertEqual((seen.suspects, [each.kind.name for each in seen.findings]), ((), [kind]))
                self.assertEqual(seen.findings[0].path, PATH)
                self.assertIn(f"on {on} by its pin, on e{self.d.mirror.ensemble} by", seen.findings[0].detail)
                self.assertNotIn(seen.findings[0].kind, MENDS)
                for path in (mark, self.d.pin):
                    must(self.model.execute(self.d.home.ensemble, Delete(path, -1)))

    def test_a_pin_where_the_map_needs_none(self) -> None:
        """Its ensemble is not in the map, by which all is on one now: it is not foreign."""
        native = find_directory(PLACEMENT, True)
        d = where_is(PLACEMENT, native)
        for path, data in ((native, b""), (d.pin, b'{"fence": [1, 0], "on": "e9"}')):
            must(self.model.execute(d.home.ensemble, Create(path, data, OPEN_ACL_UNSAFE, 0)))
        self.assertEqual(self.kinds(native), ["unknown-ensembles"])
        must(self.model.execute(d.home.ensemble, SetData(d.pin, b"", -1)))
        self.assertEqual(self.kinds(native), ["foreign"])

    def test_a_pin_that_is_made_again_names_the_ensemble(self) -> None:
        run(self.model, promote(self.context, self.d))
        must(self.model.execute(self.d.home.ensemble, Delete(self.d.pin, -1)))
        finding = Finding(MISSING_PINS, self.d.home.ensemble, PATH, "", self.d)
        self.assertEqual(run(self.model, mend(self.context, finding)), "")
        data = self.model.nodes[self.d.home.ensemble][self.d.pin].data
        self.assertEqual(json.loads(data or b"")["on"], f"e{self.d.mirror.ensemble}")
