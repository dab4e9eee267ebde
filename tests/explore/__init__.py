"""The explorer: production clients over ZooKeeper in memory, in every order of requests, answers and events.

Each file stands on those above it:

- ``znodes``, ``model``: ZooKeeper in memory; ``answers``: what it says, as values; ``alone``: operations run on it
- ``client``: a production client over it, without sockets
- ``pinned``, ``scenario``: what is explored; ``history``, ``lives``, ``world``: where all is between two moves,
  and these
- ``clients``, ``scheduler``: what can happen next, and what comes of it
- ``judge``: whether that could have come from one ZooKeeper
- ``words``, ``tell``: a violation as people read it; ``explorer``: visits all that can happen
- ``directories``, ``grown``: the states that a directory may be in, on a plain map and on one that has grown
- ``families``, ``chosen``, ``mutants``: scenarios by name; ``replay``: lets one happen again;
  ``visits``: what `make explore` visits; ``visitor``: what these have in common with ``sessions``
- ``mutation``, ``edits``: how a mutant is made: a wrong function in place of a right one; other steps and answers
- ``grown_families``, ``grown_deep``, ``grown_levels``, ``grown_mutants``: more of maps that have grown
- ``given_up``, ``given_up_mutants``: callers that give up, as those of asyncio's client may
- ``sessions``: the same for connections and sessions that are lost, expire and begin anew
"""
