"""Sick programs are named by the commands' screens: the cheap ones of the drill `sick`, all at once."""

from __future__ import annotations

import unittest
from contextlib import ExitStack

from parkazoo.admin import init_map
from parkazoo.local import LocalCluster
from tests.drills.sick import SICKNESSES, Patient, wait_for_words
from tests.drills.sick_user import PLAIN

SEEN_ON = {  # by the user's role
    "hot": ("hot-directory", "top --follow"),
    "ephemerals": ("leaked-ephemerals", "clients --sort ephemerals"),
    PLAIN: ("plain-kazoo", "check"),
}


class SickTest(unittest.TestCase):
    def test_words(self) -> None:
        with ExitStack() as stack:
            cluster = stack.enter_context(LocalCluster(ensembles=2, servers=1, make_map=False))
            init_map(cluster.hosts, {each.name: each.hosts for each in cluster.ensembles}, form="grown")
            patient = Patient(cluster, stack)
            users = {role: patient.begin_user(role) for role in SEEN_ON}
            for role, (name, screen) in SEEN_ON.items():
                patient.culprit = str(users[role].pid)
                words, _, shown = wait_for_words(patient, screen, SICKNESSES[name].words[screen])
                self.assertTrue(words, f"{name}: {screen}\n{shown}")
