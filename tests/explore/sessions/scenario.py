"""What is explored of sessions: ensembles, programs, troubles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parkazoo.protocol.epochs import Form
from tests.explore.scenario import Program


@dataclass(frozen=True)
class SessionScenario:
    """
    :param name: by which it is made again; empty if it cannot.
    :param start: the ensembles whose servers a client is given.
    :param troubles: what may happen, each as often as its letter is there: a connection is lost (l), a session
        expires (e), the map changes on an ensemble (m), requests wait in vain (p), a server lags at a read (z), a
        client gives up (g), what is under way by an older form takes too long (f).
    :param ensembles: how many there are. :param come: so many of them come while the map changes.
    :param begins: the form of the map at first. :param rises: so many forms come after the ensembles.
    :param leaves: the last ensemble leaves, in two steps.
    :param moves: the directory whose children move to the other ensemble; empty if none does. Then the command
        may lose its patience (o), die (x), or never delete the old place (y); a client may lose its patience (i).
    :param is_apart: answers are read some time after they were sent.
    :param is_slow: so are the answers of a handshake.
    :param is_exact: zxids tell states apart: clients have watches that outlast a connection.
    """

    name: str
    programs: Sequence[Program]
    troubles: str = ""
    start: str = "a"
    ensembles: int = 2
    come: int = 0
    begins: Form = Form.PLAIN
    rises: int = 0
    leaves: bool = False
    moves: str = ""
    is_apart: bool = False
    is_slow: bool = False
    is_exact: bool = False
