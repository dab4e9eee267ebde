// Draws the documents of `parkazoo top --json` as they come, with the busiest clients only.
// A name is only ever text: never markup.
"use strict";

const MOST_MOMENTS = 120; // as many as the server keeps
const CELL_PIXELS = 9;
const CLOCK_PIXELS = 64;
const MOST_DIRECTORIES = 20; // in the heat map, and in the table
const WATCH_MS = 1000; // between two looks at whether rates come

const byId = (id) => document.getElementById(id);

/** Makes characters visible that cannot be seen, or that change how others are shown. */
const plain = (text) =>
  String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function named(tag, text) {
  const made = element(tag, "name left", plain(text));
  made.title = plain(text);
  return made;
}

const number = (value, digits = 0) =>
  value === null
    ? "-"
    : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

function reading(value) {
  if (value === undefined) return "not among the hottest";
  return value === null ? "not known" : `${number(value, 1)} writes/s`;
}

const clock = (timeS) => new Date(timeS * 1000).toLocaleTimeString("en-GB");

function day(timeS) {
  const date = new Date(timeS * 1000);
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
}

// ---- tables --------------------------------------------------------------------------------------

function shareCell(value) {
  const cell = element("td", "left");
  const bar = element("span");
  bar.style.width = `${100 * Math.min(1, value ?? 0)}%`;
  const frame = element("span", "share");
  frame.append(bar);
  cell.append(frame, ` ${value === null ? "-" : `${number(100 * value)} %`}`);
  return cell;
}

/** @param columns of each: its head, what makes its cell, whether it is left. */
function drawRows(section, columns, rows, more) {
  const table = element("table", "rows");
  const heads = table.createTHead().insertRow();
  for (const [head, , isLeft] of columns) {
    const cell = element("th", isLeft ? "left" : "", head);
    cell.scope = "col";
    heads.append(cell);
  }
  const body = table.createTBody();
  for (const each of rows) {
    const row = body.insertRow();
    row.className = each.leader === null ? "away" : "";
    row.append(
      ...columns.map(([, make]) => {
        const made = make(each);
        return typeof made === "string" ? element("td", "", made) : made;
      }),
    );
  }
  let frame = section.querySelector(".scroll");
  if (frame === null) {
    frame = element("div", "scroll");
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", section.querySelector("h2").textContent);
    section.append(frame);
  }
  section.hidden = rows.length === 0;
  frame.replaceChildren(table, ...(more > 0 ? [element("p", "quiet", `${number(more)} more: --json has all`)] : []));
}

function drawTables(rates) {
  drawRows(
    byId("ensembles"),
    [
      ["ensemble", (each) => named("td", each.ensemble), true],
      ["serve", (each) => `${each.serving}/${each.servers}`],
      ["req/s", (each) => number(each.requests)],
      ["read/s", (each) => number(each.reads)],
      ["write/s", (each) => number(each.writes)],
      ["share of writes", (each) => shareCell(each.share), true],
      ["p99 ms", (each) => number(each.p99_ms)],
      ["queue", (each) => number(each.queue)],
      ["clients", (each) => number(each.clients)],
      ["watches", (each) => number(each.watches)],
      ["znodes", (each) => number(each.znodes)],
    ],
    rates.ensembles,
    0,
  );
  drawRows(
    byId("directories"),
    [
      ["directory", (each) => named("td", each.directory), true],
      ["on", (each) => named("td", each.ensemble), true],
      ["write/s", (each) => number(each.writes, 1)],
      ["of its ensemble", (each) => shareCell(each.share), true],
    ],
    rates.directories.slice(0, MOST_DIRECTORIES),
    rates.directories.length - MOST_DIRECTORIES,
  );
  drawRows(
    byId("clients"),
    [
      [
        "client",
        (each) =>
          named(
            "td",
            each.is_registered
              ? `${each.host ?? "-"}:${each.pid ?? "-"} ${each.client}`
              : `not registered ${each.host} ${each.client}`,
          ),
        true,
      ],
      ["on", (each) => named("td", each.ensembles.join(" ")), true],
      ["req/s", (each) => number(each.requests, 1)],
      ["share", (each) => shareCell(each.share), true],
    ],
    rates.clients,
    rates.more_clients,
  );
}

function remarks(rates) {
  const silent = new Map();
  for (const each of rates.servers) {
    if (each.trouble) silent.set(each.trouble, [...(silent.get(each.trouble) ?? []), each.server]);
  }
  const lines = [...silent].map(([trouble, servers]) => `not told by ${servers.join(", ")}: ${trouble}`);
  if (rates.directories_s !== null) {
    lines.push(`directories: changes in the last ${number(rates.directories_s)} s, seen by a watch`);
  }
  return [...lines, ...rates.unseen, "p99: of writes, since the server's start; -: not known"];
}

// ---- the heat map --------------------------------------------------------------------------------

/** Has rows of one scale. Cells stay as they are while time goes on, so that the focus stays on its moment. */
class HeatMap {
  constructor(frame, title) {
    this.frame = frame;
    this.rows = new Map(); // by key: the row, and its cells by moment
    this.table = element("table", "heat");
    this.table.setAttribute("role", "grid");
    this.table.setAttribute("aria-label", `${title}: writes per second over time`);
    this.body = this.table.createTBody();
    this.times = this.table.createTFoot().insertRow();
    this.table.createCaption().textContent = title;
    this.quarter = element("span");
    this.most = element("span");
    const legend = element("div", "legend");
    legend.append(
      element("span", "", "0"),
      element("span", "lower"),
      this.quarter,
      element("span", "upper"),
      this.most,
      element("span", "unknown"),
      element("span", "", "not known"),
    );
    frame.append(this.table, legend);
    this.table.addEventListener("pointerover", (event) => this.read(event.target));
    this.table.addEventListener("focusin", (event) => {
      this.makeTabStop(event.target);
      this.read(event.target);
    });
    this.table.addEventListener("keydown", (event) => this.move(event));
  }

  /** @param keys of the rows, with the name of each. */
  draw(moments, keys) {
    this.frame.hidden = keys.size === 0;
    if (this.frame.hidden) return;
    const root = getComputedStyle(document.documentElement);
    const label = parseFloat(root.getPropertyValue("--label")) * parseFloat(root.fontSize);
    const room = Math.floor((this.frame.clientWidth - label) / CELL_PIXELS);
    const columns = Math.max(10, Math.min(MOST_MOMENTS, room));
    const shown = moments.slice(-columns);
    const most = Math.max(0, ...shown.flatMap((each) => [...keys.keys()].map((key) => each.of(key) ?? 0)));
    const focused = this.table.contains(document.activeElement) ? document.activeElement : null;
    const drawn = [...keys].map(([key, name]) => this.drawRow(key, name, shown, columns, most));
    for (const key of [...this.rows.keys()]) if (!keys.has(key)) this.rows.delete(key);
    replaceIfOthers(this.body, drawn);
    this.drawTimes(shown, columns);
    this.quarter.textContent = number(most / 4, 1); // half as strong: small rates show beside great ones
    this.most.textContent = `${number(most, 1)} writes/s`;
    const cells = [...this.table.querySelectorAll("[role=gridcell]")];
    if (focused === null || !focused.isConnected) this.makeTabStop(cells[cells.length - 1]); // the newest
    if (focused !== null && document.activeElement !== focused) {
      this.table.querySelector('[tabindex="0"]').focus();
    }
  }

  drawRow(key, name, shown, columns, most) {
    let found = this.rows.get(key);
    if (found === undefined) {
      const head = element("th");
      head.scope = "row";
      head.append(named("bdi", name));
      found = { row: element("tr"), head, cells: new Map(), name: plain(name) };
      this.rows.set(key, found);
    }
    for (const moment of [...found.cells.keys()]) if (!shown.includes(moment)) found.cells.delete(moment);
    for (const moment of shown) {
      let cell = found.cells.get(moment);
      if (cell === undefined) {
        cell = element("td");
        cell.setAttribute("role", "gridcell");
        cell.tabIndex = -1;
        const value = moment.of(key);
        cell.setAttribute("aria-label", `${found.name}, ${clock(moment.timeS)}: ${reading(value)}`);
        cell.className = value === undefined ? "absent" : value === null ? "unknown" : "";
        found.cells.set(moment, cell);
      }
      const value = moment.of(key) ?? 0;
      cell.style.setProperty("--heat", most > 0 ? Math.sqrt(value / most).toFixed(3) : "0");
    }
    const blank = [];
    if (columns > shown.length) {
      found.blank ??= element("td");
      found.blank.colSpan = columns - shown.length;
      blank.push(found.blank);
    }
    replaceIfOthers(found.row, [found.head, ...shown.map((moment) => found.cells.get(moment)), ...blank]);
    return found.row;
  }

  drawTimes(shown, columns) {
    const width = Math.max(1, Math.ceil(CLOCK_PIXELS / CELL_PIXELS));
    const cells = [element("th")];
    for (let from = 0; from < shown.length; from += width) {
      const cell = element("td", "", shown.length - from < width ? "" : clock(shown[from].timeS));
      cell.colSpan = Math.min(width, shown.length - from);
      cells.push(cell);
    }
    if (columns > shown.length) {
      const blank = element("td");
      blank.colSpan = columns - shown.length;
      cells.push(blank);
    }
    this.times.replaceChildren(...cells);
  }

  read(cell) {
    if (cell.getAttribute("role") === "gridcell") byId("reading").textContent = cell.getAttribute("aria-label");
  }

  makeTabStop(cell) {
    if (cell === undefined || cell.getAttribute("role") !== "gridcell") return;
    for (const each of this.table.querySelectorAll('[tabindex="0"]')) each.tabIndex = -1;
    cell.tabIndex = 0;
  }

  move(event) {
    const rows = [...this.body.rows].map((row) => [...row.querySelectorAll("[role=gridcell]")]);
    const row = rows.findIndex((cells) => cells.includes(event.target));
    if (row < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const column = rows[row].indexOf(event.target);
    const targets = {
      ArrowLeft: () => rows[row][column - 1],
      ArrowRight: () => rows[row][column + 1],
      ArrowUp: () => rows[row - 1]?.[column],
      ArrowDown: () => rows[row + 1]?.[column],
      Home: () => rows[row][0],
      End: () => rows[row][rows[row].length - 1],
    };
    if (!Object.hasOwn(targets, event.key)) return;
    event.preventDefault();
    targets[event.key]()?.focus();
  }
}

/** Gives an element these children. One that stays in its place is not touched: it may have the focus. */
function replaceIfOthers(parent, children) {
  const wanted = new Set(children);
  for (const each of [...parent.children]) if (!wanted.has(each)) each.remove();
  children.forEach((each, index) => {
    if (parent.children[index] !== each) parent.insertBefore(each, parent.children[index] ?? null);
  });
}

/** What one document says of writes: null is not known, undefined not named. */
class Moment {
  constructor(rates) {
    this.timeS = rates.time_s;
    this.ensembles = new Map(rates.ensembles.map((each) => [`e ${each.ensemble}`, each]));
    this.directories = new Map(rates.directories.map((each) => [`d ${each.ensemble} ${each.directory}`, each]));
  }

  of(key) {
    return (this.ensembles.get(key) ?? this.directories.get(key))?.writes;
  }
}

/** By key: the names of the directories with the most writes over all moments. */
function hottest(moments) {
  const sums = new Map();
  const names = new Map();
  for (const moment of moments) {
    for (const [key, each] of moment.directories) {
      sums.set(key, (sums.get(key) ?? 0) + each.writes);
      names.set(key, `${each.directory} on ${each.ensemble}`);
    }
  }
  const keys = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a)).slice(0, MOST_DIRECTORIES);
  return new Map(keys.map((key) => [key, names.get(key)]));
}

// ---- what comes ----------------------------------------------------------------------------------

const heatMaps = [
  new HeatMap(byId("heat-ensembles"), "Ensembles"),
  new HeatMap(byId("heat-directories"), "Hottest directories"),
];
let moments = [];

function drawHeat() {
  if (moments.length === 0) return;
  const ensembles = moments[moments.length - 1].ensembles;
  heatMaps[0].draw(moments, new Map([...ensembles].map(([key, each]) => [key, each.ensemble])));
  heatMaps[1].draw(moments, hottest(moments));
}

function add(rates) {
  moments = [...moments, new Moment(rates)].slice(-MOST_MOMENTS);
}

function draw(rates) {
  const sum = (name) => {
    const known = rates.ensembles.map((each) => each[name]).filter((each) => each !== null);
    return known.length === 0 ? null : known.reduce((a, b) => a + b);
  };
  const serving = rates.ensembles.reduce((count, each) => count + each.serving, 0);
  byId("totals").textContent =
    `map ${rates.map} · ${serving} of ${rates.servers.length} servers · ` +
    `${number(sum("requests"))} req/s · ${number(sum("writes"))} writes/s`;
  byId("clock").textContent = `${day(rates.time_s)} ${clock(rates.time_s)}`;
  document.querySelector("main").hidden = false;
  drawHeat();
  drawTables(rates);
  byId("remarks").replaceChildren(...remarks(rates).map((line) => element("li", "name", plain(line))));
}

function tell(state, isAway) {
  byId("state").textContent = state;
  byId("state").className = isAway ? "away" : "";
}

let lateS = null; // null: a recording, which ends
let came = Date.now(); // when the last rates did

function watch() {
  if (lateS !== null && events.readyState === EventSource.OPEN && Date.now() - came > 1000 * lateS) {
    tell(`no rates since ${clock(moments.at(-1)?.timeS ?? came / 1000)}`, true);
  }
}

const events = new EventSource("events");
events.addEventListener("begin", (event) => {
  const begin = JSON.parse(event.data);
  moments = [];
  lateS = begin.late_s;
  came = Date.now();
  byId("about").textContent = plain(begin.about);
  tell("", false);
});
events.addEventListener("past", (event) => add(JSON.parse(event.data)));
events.addEventListener("message", (event) => {
  const rates = JSON.parse(event.data);
  came = Date.now();
  tell("", false);
  add(rates);
  draw(rates);
});
events.addEventListener("error", () => {
  const isRefused = events.readyState === EventSource.CLOSED;
  tell(isRefused ? "not connected: load this page again" : "not connected: trying again", true);
});
window.addEventListener("resize", drawHeat);
setInterval(watch, WATCH_MS);
