"""``parkazoo top`` with keys. Needs parkazoo[top]; `top_command` imports it only when it is shown."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty

import typer
from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets import Input, Static

from parkazoo.admin.rates import Rates
from parkazoo.cli.plain_text import escaped
from parkazoo.cli.top_looking import LATE_S, Failed, Looking
from parkazoo.cli.top_pages import Pages
from parkazoo.cli.top_screen import PastRequests, header, remarks
from parkazoo.cli.top_tables import WIDE, History, draw

INPUT = 0  # the file descriptor
TICK_S = 0.1  # between two looks into the queue, and at the terminal
MANY = 1 << 30  # rows
LINES = [(0, "-tiny"), (14, "-short"), (20, "-tall")]  # from which on there is room for more than rows
KILLED = 128  # and the signal's number: a status as shells report it
KEYS = "Tab table  <> sort  Enter open  Esc back  / filter  p pause  ? help  q quit"
HELP = """\
Tab, Shift-Tab      the next table, the one before
Up, Down, PgUp,     move the cursor; it stays on its row
PgDn, Home, End     when rows change their places
< >                 sort by the column before, the next one
Enter               open the row: details, and the tables that go with it
Esc                 take the filter away, go back
/                   show rows that have this text; Enter keeps it, Esc takes it away
p                   pause, go on; --record goes on meanwhile
?                   this help
q, ^C               quit"""


def show(
    looking: Looking, about: Callable[[Rates], str], every_s: float, leave: Callable[[int], object] = os._exit
) -> None:
    """Shows rates until q is pressed.

    :param about: as for `screen`. :param every_s: how often rates come; if later, it says so.
    :param leave: ends the process while a look still waits for its servers.
    :raises Exception: as the source, if it can give no more.
    """
    app = TopApp(looking, about, every_s)
    is_over = threading.Event()
    threading.Thread(target=_watch_terminal, args=(looking, is_over, leave), daemon=True).start()
    try:
        with suppress(KeyboardInterrupt), _at_sigterm(app.terminate):
            app.run(mouse=False)  # it is the terminal's: to mark and copy a name
    finally:
        is_over.set()
    if not looking.end():
        sys.stdout.flush()
        leave(app.return_code or 0)
    if app.failure is not None:
        raise app.failure
    if app.return_code:
        raise typer.Exit(app.return_code)


def _watch_terminal(looking: Looking, is_over: threading.Event, leave: Callable[[int], object]) -> None:
    """Ends the process when the terminal is gone. Textual would read its end again and again.

    A thread does it: Textual may wait for ever that the terminal takes what is written.
    """
    while not is_over.wait(TICK_S):
        if not os.isatty(INPUT):
            looking.end()
            leave(KILLED + signal.SIGHUP)
            return


@contextmanager
def _at_sigterm(terminate: Callable[[], object]) -> Iterator[None]:
    """Makes the signal end the screen, which gives the terminal back. A second one ends the process at once."""

    def handle(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        terminate()

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class TopApp(App[None]):
    AUTO_FOCUS = None  # keys are for the table, until a filter is typed
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = LINES
    CSS = """
    Screen { overflow: hidden; }
    Screen.-short { #remarks, #status { max-height: 1; } }
    Screen.-tiny { #head, #details, #status { max-height: 1; } #remarks, #keys { max-height: 0; } }
    Static { height: auto; }
    #head, #tables, #keys { text-wrap: nowrap; text-overflow: ellipsis; }
    #rows { height: 1fr; }
    #details, #remarks, #status { max-height: 5; }
    #status { color: $warning; }
    #help { height: 1fr; }
    #filter { height: 1; border: none; padding: 0; }
    """

    def __init__(self, looking: Looking, about: Callable[[Rates], str], every_s: float) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self._looking, self._about, self._every_s = looking, about, every_s
        self._pages, self._past = Pages(), PastRequests()
        self._history: History = {}
        self._held: list[Rates] = []  # while it is paused: the newest
        self._trouble = ""
        self._is_terminated = False
        self._taken_s = time.monotonic()
        self._told: dict[str, str] = {}
        self._rows = Rows(self._pages)
        self._filter = Input(id="filter", placeholder="filter")
        self._texts: dict[str, Static] = {
            each: Static(id=each) for each in ("head", "tables", "details", "help", "remarks", "status", "keys")
        }
        moves = {"up": -1, "down": 1, "home": -MANY, "end": MANY}
        self._keys: dict[str, Callable[[], None]] = {
            "tab": lambda: self._pages.next_table(1),
            "shift+tab": lambda: self._pages.next_table(-1),
            **{key: partial(self._pages.move, step) for key, step in moves.items()},
            "pageup": lambda: self._pages.move(-self._rows.room),
            "pagedown": lambda: self._pages.move(self._rows.room),
            "less_than_sign": lambda: self._pages.sort(-1, is_wide=self._rows.is_wide),
            "greater_than_sign": lambda: self._pages.sort(1, is_wide=self._rows.is_wide),
            "enter": self._pages.open,
            "escape": self._back,
            "slash": self._ask_filter,
            "p": self._pause,
            "question_mark": self._help,
            "q": self.exit,
        }

    def compose(self) -> ComposeResult:
        for each in ("head", "tables", "details", "help"):
            yield self._texts[each]
        yield self._rows
        for each in ("remarks", "status", "keys"):
            yield self._texts[each]
        yield self._filter

    def on_mount(self) -> None:
        self._texts["help"].update(Text(HELP))
        self._texts["help"].display = self._filter.display = False
        self._texts["keys"].update(Text(KEYS, style="reverse", no_wrap=True))
        self._draw()
        self._looking.begin()
        self.set_interval(TICK_S, self._take)

    def terminate(self) -> None:
        """Ends it soon. A signal's handler may call it at any moment."""
        self._is_terminated = True

    # ---- rates -------------------------------------------------------------------------------

    def _take(self) -> None:
        """Takes all that has been found since."""
        if self._is_terminated:
            self.exit(return_code=KILLED + signal.SIGTERM)
        with suppress(Empty):
            while True:
                found = self._looking.found.get_nowait()
                self._taken_s = time.monotonic()
                if isinstance(found, Rates):
                    self._trouble = ""
                    self._history = self._past.add(found)
                    self._held = [found]
                elif found is None:
                    self._trouble = "the end of the recording"
                else:
                    self._fail(found)
        if self._held and self._looking.goes_on.is_set():
            self._pages.show(self._held.pop(), self._history)
            self._draw()
        self._tell("status", self._status())

    def _fail(self, failed: Failed) -> None:
        told = _on_a_line(" ".join(str(failed.error).split()) or type(failed.error).__name__)
        self._trouble = told if failed.is_last else f"the look failed, another follows: {told}"
        if failed.is_last:
            self.failure = failed.error
            if self._pages.rates is None and not self._held:
                self.exit()

    def _status(self) -> str:
        passed_s = time.monotonic() - self._taken_s
        late = f"waiting for servers, {passed_s:.0f} s already" if passed_s > self._every_s + LATE_S else ""
        paused = "" if self._looking.goes_on.is_set() else "paused"
        first = "" if self._pages.rates or self._trouble else "looking twice"
        return "; ".join(each for each in (paused, first, self._trouble or late) if each)

    # ---- keys --------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        is_typed = self.focused is self._filter
        if event.key == "ctrl+c":
            action: Callable[[], None] | None = self.exit
        elif is_typed:
            action = {"escape": self._drop_filter, "enter": self._keep_filter, "tab": self._keep_filter}.get(
                event.key
            )
        else:
            action = self._keys.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            action()
            self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._filter.display:
            self._pages.filter(event.value)
            self._draw()

    def _ask_filter(self) -> None:
        self._filter.display = True
        self._filter.value = self._pages.shown.filtered_by
        self.set_focus(self._filter)  # at once: the next key may be there already

    def _keep_filter(self) -> None:
        self._pages.filter(self._filter.value)
        self._filter.display = False
        self.set_focus(None)

    def _drop_filter(self) -> None:
        self._filter.value = ""
        self._keep_filter()

    def _back(self) -> None:
        if self._texts["help"].display:
            self._help()
        else:
            self._pages.back()

    def _help(self) -> None:
        self._texts["help"].display = not self._texts["help"].display
        self._rows.display = not self._texts["help"].display

    def _pause(self) -> None:
        if self._looking.goes_on.is_set():
            self._looking.goes_on.clear()
        else:
            self._looking.goes_on.set()

    # ---- what is drawn -----------------------------------------------------------------------

    def _draw(self) -> None:
        rates, shown = self._pages.rates, self._pages.shown
        self._texts["head"].update(
            header(rates, self._about(rates)) if rates else Text("parkazoo top", style="bold")
        )
        tables = Text(no_wrap=True, overflow="ellipsis")
        for name, count in self._pages.counts().items():
            tables.append(f" {name} {count:,} ", style="reverse" if name == shown.table else "")
        for about in (self._pages.path(), f"/{shown.filtered_by}" if shown.filtered_by else ""):
            tables.append(f"  {_on_a_line(about)}" if about else "")
        self._texts["tables"].update(tables)
        self._tell("details", "\n".join(map(_on_a_line, self._pages.details())))
        self._tell("remarks", "\n".join(map(_on_a_line, remarks(rates))) if rates else "")
        self._tell("status", self._status())
        self._rows.refresh()

    def _tell(self, name: str, text: str) -> None:
        """A text that is empty takes no line."""
        widget = self._texts[name]
        if text != self._told.get(name):
            self._told[name] = text
            widget.display = bool(text)
            widget.update(Text(text))


class Rows(Widget):
    """Draws the rows of the table around the cursor, as many as there is room for."""

    def __init__(self, pages: Pages) -> None:
        super().__init__(id="rows")
        self._pages = pages
        self._first = 0

    @property
    def room(self) -> int:
        """Rows below the names of the columns."""
        return max(1, self.size.height - 1)

    @property
    def is_wide(self) -> bool:
        return self.size.width >= WIDE

    def render(self) -> RenderableType:
        shown, rows = self._pages.shown, self._pages.rows
        first = min(max(self._first, shown.row - self.room + 1), shown.row)
        self._first = max(0, min(first, len(rows) - self.room))
        return draw(
            self._pages.table(),
            rows[self._first : self._first + self.room],
            self.size.width,
            sorted_by=shown.sorted_by,
            cursor=shown.row - self._first,
        )


def _on_a_line(text: str) -> str:
    return escaped(text).replace("\n", r"\n")
