"""The machines of an evaluation, as a file of conf/ names them. An error has all mistakes at once, a line each."""

from __future__ import annotations

import difflib
import getpass
import ipaddress
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from bench import ROOT
from parkazoo.local.addresses import PORTS_OF_A_SERVER

EXAMPLE = "conf/hosts.example.toml"
REAL = ROOT / "conf" / "hosts.toml"
EMULATED = ROOT / "conf" / "emulated.toml"
ORCHESTRATOR, SERVER, CLIENT = ROLES = ("orchestrator", "server", "client")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LAST_PORT = 65_535


class InventoryError(Exception):
    """The file cannot be used. The message has a line for each mistake."""


@dataclass(frozen=True)
class Host:
    """A machine.

    :param address: for SSH: an IP address, or a name that DNS or ~/.ssh/config knows.
    :param inside: the address that the other hosts use.
    :param user: None, and so `key` and `ssh_port`: what ~/.ssh/config and the SSH agent say.
    :param folder: all that is brought to it is there; from the user's home, unless it begins with /.
    :param zookeeper_port: for clients; the two after it are for servers among themselves.
    """

    name: str
    address: str
    inside: str
    roles: frozenset[str]
    user: str | None
    key: Path | None
    ssh_port: int | None
    folder: str
    python: str
    zookeeper_port: int
    jvm_flags: tuple[str, ...]

    @property
    def ports(self) -> list[int]:
        """Of its ZooKeeper server: for clients, for followers, for elections."""
        return [self.zookeeper_port + number for number in range(PORTS_OF_A_SERVER)]

    @property
    def login(self) -> str:
        return self.user or getpass.getuser()


@dataclass(frozen=True)
class Inventory:
    """
    :param emulation: its name, if the hosts are emulated (emulation.py).
    """

    path: Path
    hosts: tuple[Host, ...]
    emulation: str | None

    def having(self, role: str) -> list[Host]:
        return [host for host in self.hosts if role in host.roles]

    @property
    def orchestrator(self) -> Host:
        return self.having(ORCHESTRATOR)[0]


class _Kind:
    """Of a setting: what it looks like to people, and what makes it a value, or None if it is none."""

    def __init__(self, looks: str, take: Callable[[Any], Any]) -> None:
        self.looks = looks
        self.take = take


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() and value.isprintable() else None


def _word(value: Any) -> str | None:
    return value if _text(value) and not re.search(r"\s", value) else None


def _folder(value: Any) -> str | None:
    """None of those that hold other things, because `fab clean` removes it."""
    parts = Path(value).parts if _text(value) else ()
    is_top = parts[:1] == ("/",) and len(parts) < 3  # /home
    return None if is_top or not parts or parts[-1] in ("~", "..") else value


def _address(value: Any) -> str | None:
    if not _word(value) or "@" in value:
        return None
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        return value if NAME.fullmatch(value) and not re.fullmatch(r"[\d.]+", value) else None


def _port_before(last: int) -> Callable[[Any], int | None]:
    return lambda value: value if type(value) is int and 0 < value <= last else None


def _texts(value: Any) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) and all(map(_text, value)) else None


SETTINGS = {
    "user": _Kind('a name, "ubuntu" for instance, without an address', _address),
    "key": _Kind('the path of a private key, "~/.ssh/id_ed25519" for instance', _text),
    "ssh_port": _Kind("a port, 22 for instance", _port_before(LAST_PORT)),
    "folder": _Kind('a folder of its own, "parkazoo-evaluation" for instance', _folder),
    "python": _Kind('a command, "python3" for instance', _word),
    "zookeeper_port": _Kind("a port, 2181 for instance", _port_before(LAST_PORT - PORTS_OF_A_SERVER + 1)),
    "jvm_flags": _Kind('a list of texts, ["-Xmx1g"] for instance', _texts),
}
OF_A_HOST = {
    "address": _Kind("an IP address or a host name, without user or port", _address),
    "inside": _Kind("an IP address or a host name, without port", _address),
}
DEFAULTS = {
    "user": None,
    "key": None,
    "ssh_port": None,
    "folder": "parkazoo-evaluation",
    "python": "python3",
    "zookeeper_port": 2181,
    "jvm_flags": ("-Xmx1g",),
}


def find_inventory(given: str) -> Path:
    """The given one; else that of emulated hosts, as long as there are some; else that of real ones."""
    return Path(given) if given else EMULATED if EMULATED.exists() else REAL


def read_inventory(path: Path) -> Inventory:
    """
    :raises InventoryError: it cannot be used.
    """
    shown = _shown(path)
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise InventoryError(
            f"there is no {shown}: copy {EXAMPLE} there and put your machines in, or make some: fab emulate.up"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InventoryError(f"{shown} cannot be read: {error}") from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InventoryError(f"{shown}: {_lower(str(error))}") from None
    reader = _Reader(shown, text)
    inventory = reader.read(path, content)
    if reader.mistakes:
        raise InventoryError("\n".join(reader.mistakes))
    return inventory


def _shown(path: Path) -> str:
    absolute = path.absolute()
    return str(absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else path)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


class _Reader:
    """Collects mistakes, each with its line."""

    def __init__(self, shown: str, text: str) -> None:
        self._shown = shown
        self._lines = text.splitlines()
        self.mistakes: list[str] = []

    def _note(self, message: str, host: str = "", key: str = "") -> None:
        line = self._line_of(host, key)
        self.mistakes.append(f"{self._shown}{f':{line}' if line else ''}: {host and f'host {host}: '}{message}")

    def _line_of(self, host: str, key: str) -> int | None:
        """Where a host or a setting is. TOML's parsers do not say, so this searches the text."""
        begin = 0
        if host:
            name = re.escape(host)
            begin = self._find(rf"""\s*(?:hosts\.)?["']?{name}["']?\s*[.=]|\s*\[hosts\.["']?{name}""", 0) or 0
        inner = self._find(rf"""\s*\[?["']?{re.escape(key)}["']?\s*[]=]""", begin) if key else None
        if host and key and begin and re.search(rf"[{{,.]\s*{re.escape(key)}\s*=", self._lines[begin - 1]):
            inner = begin
        return inner or begin or None

    def _find(self, pattern: str, begin: int) -> int | None:
        numbers = range(begin, len(self._lines))
        return next((number + 1 for number in numbers if re.match(pattern, self._lines[number])), None)

    def read(self, path: Path, content: Mapping[str, Any]) -> Inventory:
        known = ("hosts", "emulation", *SETTINGS)
        self._refuse_unknown(content, known, "")
        common = {**DEFAULTS, **self._values(content, SETTINGS, "")}
        tables = content.get("hosts", {})
        if not isinstance(tables, dict) or not tables:
            if not self.mistakes:
                self._note(f"it names no machines: it needs a table [hosts], as in {EXAMPLE}")
            tables = {}
        hosts = [self._host(name, table, common) for name, table in tables.items()]
        found = tuple(host for host in hosts if host is not None)
        if found and len(found) == len(tables):
            self._see_whole(found)
        emulation = content.get("emulation")
        return Inventory(path, found, emulation if isinstance(emulation, str) else None)

    def _host(self, name: str, table: Any, common: Mapping[str, Any]) -> Host | None:
        if not isinstance(table, dict):
            if name in SETTINGS:
                self._note(f"{name} is a setting of all hosts: it has to stand above [hosts]", key=name)
            else:
                self._note('it must be a table: { address = "...", roles = ["server"] }', name)
            return None
        before = len(self.mistakes)
        if not NAME.fullmatch(name):
            self._note("a name consists of letters, digits, - and _", name)
        self._refuse_unknown(table, ("roles", *OF_A_HOST, *SETTINGS), name)
        is_misspelt = len(self.mistakes) > before  # so what is missing may be there
        if "address" not in table and not is_misspelt:
            self._note('it has no address: address = "192.0.2.11"', name)
        values = self._values(table, {**OF_A_HOST, **SETTINGS}, name)
        roles = self._roles(table, name) if "roles" in table or not is_misspelt else frozenset()
        if len(self.mistakes) > before:
            return None
        merged: dict[str, Any] = {**common, "inside": values["address"], **values}
        if merged["key"]:
            merged["key"] = Path(merged["key"]).expanduser()
            self._see_key(merged["key"], name if "key" in table else "")
        return Host(name=name, roles=roles, **merged)

    def _values(self, table: Mapping[str, Any], kinds: Mapping[str, _Kind], host: str) -> dict[str, Any]:
        values = {}
        for key, kind in kinds.items():
            if key in table:
                values[key] = kind.take(table[key])
                if values[key] is None:
                    self._note(f"{key} must be {kind.looks}, not {_toml(table[key])}", host, key)
                    del values[key]
        return values

    def _roles(self, table: Mapping[str, Any], host: str) -> frozenset[str]:
        roles = table.get("roles")
        if not isinstance(roles, list) or not roles or not all(isinstance(role, str) for role in roles):
            found = f", not {_toml(roles)}" if "roles" in table else ""
            self._note(f"roles must be a list of some of {', '.join(ROLES)}{found}", host, "roles")
            return frozenset()
        for role in roles:
            if role not in ROLES:
                self._note(f'there is no role "{role}"{_meant(role, ROLES)}', host, "roles")
        return frozenset(roles)

    def _refuse_unknown(self, table: Iterable[str], known: Iterable[str], host: str) -> None:
        for key in table:
            if key not in known:
                self._note(f'there is no setting "{key}"{_meant(key, known)}', host, key)

    def _see_key(self, key: Path, host: str) -> None:
        message = ""
        if not key.is_file():
            message = f"there is no key {key}"
        elif key.suffix == ".pub":
            message = f"{key} is a public key: name the private one, {key.with_suffix('')}"
        if message and not any(each.endswith(message) for each in self.mistakes):
            self._note(message, host, "key")

    def _see_whole(self, hosts: Iterable[Host]) -> None:
        seen: dict[tuple[str, int | None], Host] = {}
        for host in hosts:
            first = seen.setdefault((host.address, host.ssh_port), host)
            if first is not host:
                self._note(f"it has the address of {first.name}, {host.address}", host.name, "address")
        for role, least in ((ORCHESTRATOR, "exactly one"), (SERVER, "at least one"), (CLIENT, "at least one")):
            having = [host.name for host in hosts if role in host.roles]
            if not having or (role == ORCHESTRATOR and len(having) > 1):
                self._note(f"{least} host must have the role {role}, not {', '.join(having) or 'none'}")


def _meant(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'; do you mean "{close[0]}"?' if close else f"; there are {', '.join(known)}"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if value is True else repr(value)
