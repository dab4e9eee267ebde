"""Why the children of a directory live where they do, with the computation to do by hand."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from parkazoo.admin import By, Whereabouts, describe_rule
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.rendezvous import bid_of
from parkazoo.protocol.where.places import Places


def explain_children(cluster_map: ClusterMap, directory: str) -> Iterator[str]:
    """Lines for people."""
    name = cluster_map.names[Places(cluster_map.make_placement()).known(directory).mirror.ensemble]
    if len(cluster_map.names) == 1:
        yield f"children: on {name}, which is the only ensemble"
    elif directory == "/zookeeper" or directory.startswith("/zookeeper/"):
        yield f"children: on {name}, the bootstrap ensemble, as everything in /zookeeper"
    else:
        yield f"children: on {name}, whose bid for {directory} is the highest:"
        yield from _first_bids(cluster_map, directory)


def explain_whereabouts(found: Whereabouts) -> Iterator[str]:
    """Lines for people, for a map of form GROWN."""
    cluster_map, directory = found.cluster_map, found.d.path
    yield from explain_move(cluster_map, directory)
    name = cluster_map.names[found.d.mirror.ensemble]
    if found.by is By.MAP:
        yield from explain_children(cluster_map, directory)
        return
    if found.by is By.PIN:
        yield f"children: on {name}, as the pin says; new ones go there too"
    elif found.by is By.ADOPTION:
        yield f"children: on {name}, below the home, as before there was a pin; new ones go there too"
    else:
        yield "children: undecided; the first client that makes one decides, by its newest map"
    yield from _explain_guess(cluster_map, directory, is_decided=found.by is not By.NOBODY)


def explain_move(cluster_map: ClusterMap, path: str) -> Iterator[str]:
    """That the directory moves, or one above."""
    move = cluster_map.move
    if move is None or not f"{path}/".startswith(f"{move.directory}/"):
        return
    where = f"they are on {move.target}" if move.has_switched else f"from {move.source} to {move.target}"
    yield (
        f"the children of {move.directory} move: {where}. `parkazoo map move` goes on if its command has died; "
        "`parkazoo map log` says whose it is"
    )


def _explain_guess(cluster_map: ClusterMap, directory: str, *, is_decided: bool) -> Iterator[str]:
    guess, newest = cluster_map.make_guess(), cluster_map.epochs[-1]
    would = "would have given them to" if is_decided else "gives new children to"
    winner = f"epoch {newest.number}, the newest, {would} {cluster_map.names[guess.of_children(directory)]}"
    rule, key = guess.rule_of(directory), guess.key_of(directory)
    by = f" by its rule for {rule.prefix} ({describe_rule(rule)})" if rule is not None else ""
    yield f"{winner}, whose bid for {key} is the highest{by}:"

    def why(name: str) -> str:
        if rule is not None and rule.on and name not in rule.on:
            return "the rule leaves it out"
        return "its weight is 0" if name in newest.weights else "it has no weight yet"

    yield from _bids(cluster_map.placement, newest.shares(cluster_map.placement, rule), key, why)


def _first_bids(cluster_map: ClusterMap, directory: str) -> Iterator[str]:
    later = "it has come since" if cluster_map.later else "it has no weight yet"

    def why(name: str) -> str:
        return later if name in cluster_map.unweighted else "its weight is 0"

    yield from _bids(cluster_map.placement, cluster_map.shares, directory, why)


def _bids(placement: Sequence[str], shares: Sequence[int], key: str, why: Callable[[str], str]) -> Iterator[str]:
    """:param why: an ensemble makes no bid."""
    width = max(map(len, placement))
    for position, (name, weight) in enumerate(zip(placement, shares, strict=True)):
        if not weight:
            yield f"    {name:{width}}  none: {why(name)}"
            continue
        bid = bid_of(position, weight, key)
        first = 8 * bid.word + 1  # in hexadecimal digits
        yield (
            f"    {name:{width}}  {bid.value:08x}  printf %s {shlex.quote(bid.hashed)} | sha256sum | "
            f"cut -c{first}-{first + 7}"
        )
