"""Changes where new directories go: weights and rules. Each change is an epoch of a map of form GROWN."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from parkazoo.admin.arguments import arguments_alone
from parkazoo.admin.clients import TIMEOUT_S, Auth, connect_to
from parkazoo.admin.publish import Change, change_map, verify_size
from parkazoo.admin.read import read_map
from parkazoo.admin.registrations import AT_ONCE
from parkazoo.admin.rise import OnWait, Rise, Tell, as_grown, is_changed, with_epoch
from parkazoo.admin.verify import verify_names
from parkazoo.admin.whereabouts import DIRECTORIES_SHOWN
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Epoch, Form, Rule, verify_possible
from parkazoo.protocol.placement import MIRRORS, join, unescape

LOOKED_AT = 2000  # mirrors, of more than which the largest are not looked for


class Left(NamedTuple):
    """Describes the directories whose children are below a mirror on one ensemble.

    :param number: of them. :param shown: those with the most children, and how many children each has.
    :param looked: so many were looked at, the first by path.
    """

    number: int
    shown: tuple[tuple[str, int], ...]
    looked: int


def change_weights(
    hosts: str,
    weights: Mapping[str, int],
    *,
    yes: bool = False,
    dry_run: bool = False,
    strangers_gone: bool = False,
    tell: Tell = lambda step: None,
    on_wait: OnWait = lambda waiting: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Gives ensembles other shares of the new directories. Existing directories stay. Returns the map.

    The first change of weights or rules raises the map's form, as `grow_map` does. A call may be repeated or
    interrupted anywhere, and several may run at once. After a lost connection the next call goes on.

    :param hosts: servers of any ensembles of the cluster.
    :param weights: by name, 0 to 100; with 0 no new directory goes there. An ensemble without one keeps its own.
    :param yes: confirms that the form rises, for good.
    :param dry_run: writes nothing, and returns the map that a call would publish.
    :param strangers_gone: as for `grow_map`, like `tell`, `on_wait`, `timeout_s` and `client_options`.
    :raises UnconfirmedError: the form would rise, and `yes` is not set.
    :raises ClusterMapError: all ensembles, or all that a rule names, would have weight 0; or as `change_hosts` and
        `grow_map`.
    """
    with arguments_alone():
        Epoch(1, {"": 1, **weights})  # it verifies each

    def change(before: ClusterMap) -> ClusterMap:
        _verify_several(before, weights)
        newest = before.epochs[-1]
        changed = {**newest.weights, **weights}
        return before if changed == newest.weights else before.with_epoch(changed, newest.rules)

    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, on_wait, dry_run, yes, strangers_gone)
    return _change(read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options), change, rise)


def add_rule(
    hosts: str,
    rule: Rule,
    *,
    yes: bool = False,
    dry_run: bool = False,
    strangers_gone: bool = False,
    tell: Tell = lambda step: None,
    on_wait: OnWait = lambda waiting: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Adds a rule that decides where new directories at and below its prefix go. Returns the map.

    Arguments as for `change_weights`.

    :raises UnconfirmedError: as `change_weights`.
    :raises ClusterMapError: the rule is impossible, or its prefix has another one; or as `change_weights`.
    """
    with arguments_alone():
        Epoch(1, dict.fromkeys(rule.on, 1) or {"": 1}, (rule,))  # it verifies the rule, but for the names
        verify_possible(rule.prefix)

    def change(before: ClusterMap) -> ClusterMap:
        _verify_several(before, rule.on)
        newest = before.epochs[-1]
        for each in newest.rules:
            if each == rule:
                return before
            if each.prefix == rule.prefix:
                raise ClusterMapError(
                    f"there is another rule for {rule.prefix}, {describe_rule(each)}: remove it first with "
                    f"`parkazoo map rule remove {rule.prefix}`"
                )
        return before.with_epoch(newest.weights, (*newest.rules, rule))

    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, on_wait, dry_run, yes, strangers_gone)
    return _change(read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options), change, rise)


def remove_rule(
    hosts: str,
    prefix: str,
    *,
    tell: Tell = lambda step: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Removes the rule for a prefix. Arguments as for `change_weights`. Returns the map.

    :raises ClusterMapError: no epoch that the map still has names such a rule; or as `change_hosts`.
    """

    is_known = False

    def change(before: ClusterMap) -> ClusterMap:
        nonlocal is_known
        is_known |= any(each.prefix == prefix for epoch in before.epochs for each in epoch.rules)
        newest = before.epochs[-1]
        kept = tuple(each for each in newest.rules if each.prefix != prefix)
        return before.with_epoch(newest.weights, kept) if len(kept) < len(newest.rules) else before

    options = {**client_options, "auth_data": list(auth)}
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    changed = change_map(
        known, change, options, timeout_s, lambda published: tell(f"published {with_epoch(published)}"), tell
    )
    if not is_known:  # an interrupted command may have removed it, so the copies come first
        raise ClusterMapError(
            f"there is no rule for {prefix!r}: `parkazoo map rule list` shows those that there are"
        )
    return changed


def describe_rule(rule: Rule) -> str:
    """Returns a rule in words: "together, on b or c"."""
    which = f"on {' or '.join(rule.on)}" if rule.on else "on any ensemble"
    return f"{'together' if rule.together else 'apart'}, {which}"


def find_left(
    hosts: str, name: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> Left | None:
    """Finds the directories with a mirror on an ensemble; None if the ensemble is unreachable. It writes nothing.

    Arguments as for `init_map`. Native directories do not count.

    :raises ClusterMapError: as `read_map`, or there is no such ensemble.
    """
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    verify_names([name], known)
    options = {**client_options, "auth_data": list(auth)}
    with connect_to({name: known.ensembles[name]}, options, timeout_s, gives_up=True) as (clients, absent):
        if absent:
            return None
        client = clients[name]
        mirrors = sorted(client.children(MIRRORS))
        looked = mirrors[:LOOKED_AT]
        found: list[tuple[str, int]] = []
        for start in range(0, len(looked), AT_ONCE):
            asked = [
                (each, client.zk.exists_async(join(MIRRORS, each))) for each in looked[start : start + AT_ONCE]
            ]
            for each, answer in asked:
                if (stat := client.wait(join(MIRRORS, each), answer)) is not None:
                    found.append((unescape(each), stat.numChildren))
    found.sort(key=lambda each: (-each[1], each[0]))
    return Left(len(mirrors), tuple(found[:DIRECTORIES_SHOWN]), len(looked))


def _change(known: ClusterMap, change: Change, rise: Rise) -> ClusterMap:
    def verify(before: ClusterMap) -> ClusterMap:
        """Verifies the change by the published map, not by an old copy, before the form begins to rise."""
        if before.form is not Form.GROWN and is_changed(before, change):
            verify_size(before, change(as_grown(before)))
            rise.verify_ready(before, before)
        return before

    if not rise.dry_run and known.form is not Form.GROWN:
        known = change_map(known, verify, rise.options, rise.timeout_s, warn=rise.tell)
    return rise.change(known, change, leaves=True)


def _verify_several(cluster_map: ClusterMap, names: Collection[str]) -> None:
    verify_names(names, cluster_map)
    carrying = [name for name in cluster_map.placement if name not in cluster_map.gone]
    if len(carrying) == 1:
        raise ClusterMapError(
            f"the map has one ensemble, {carrying[0]}, where all directories go: add another first "
            "with `parkazoo map grow --ensemble NAME=H:P,H:P`"
        )
