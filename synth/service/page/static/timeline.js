// Zoomable timelines. Zoom with buttons, wheel, + and - or w and s; move by dragging, with arrows or a and d.
const SVG = "http://www.w3.org/2000/svg";
const units = [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]];

// Formats a time with enough digits to distinguish it from the next one, which is a step later.
function format(seconds, step) {
  const [unit, scale] = units.find(([, size]) => seconds >= size) ?? ["s", 1];
  const digits = Math.min(12, Math.max(0, Math.ceil(Math.log10(scale / step))));
  return `${Number((seconds / scale).toFixed(digits))} ${unit}`;
}

// Returns about five round times in the visible range, and their distance.
function ticks(from, until) {
  const least = (until - from) / 6;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= least * 0.999);
  const times = [];
  for (let at = Math.ceil(from / step); at * step <= until; at += 1) times.push(at * step);
  return [times, step];
}

function create(name, attributes, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

// Moves a program's bars, drawn among its labels, into an svg of their own, and adds labels of both ends.
function prepare(drawing) {
  if (drawing.querySelector(".bars")) return;
  const ground = drawing.querySelector(".ground");
  if (!ground) return;
  const left = Number(ground.getAttribute("x"));
  const wide = Number(ground.getAttribute("width"));
  const tall = drawing.viewBox.baseVal.height;
  const bars = create("svg", {
    class: "bars", x: left, y: 0, width: wide, height: tall, viewBox: `${left} 0 ${wide} ${tall}`, preserveAspectRatio: "none",
  });
  bars.append(...drawing.querySelectorAll(".tick line"), ...drawing.querySelectorAll(".row .bar"));
  for (const name of drawing.querySelectorAll(".name")) name.remove();
  const end = { y: drawing.querySelector(".tick text").getAttribute("y"), "font-size": 11 };
  drawing.append(
    bars,
    create("g", { class: "names" }),
    create("text", { class: "from", x: left, ...end }),
    create("text", { class: "until", x: left + wide, "text-anchor": "end", ...end }),
  );
}

// Bars are labelled if their visible part has room for the name, by the rule of names.py.
const [LETTER, MARGIN, FEWEST] = [6, 3, 4];

function fit(name, wide) {
  const letters = Math.floor((wide - 2 * MARGIN) / LETTER);
  if (letters >= name.length) return name;
  return letters >= FEWEST ? `${name.slice(0, letters - 1)}…` : "";
}

function writeNames(drawing, bars) {
  const [x, y, across] = ["x", "y", "width"].map((name) => Number(bars.getAttribute(name)));
  const { x: from, width: wide } = bars.viewBox.baseVal;
  const within = (place) => Math.min(across, Math.max(0, ((place - from) * across) / wide));
  const names = [];
  for (const bar of bars.querySelectorAll("[data-name]")) {
    const box = bar.querySelector("rect") ?? bar;
    const [left, top, width, tall] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
    const begin = within(left);
    const text = fit(bar.dataset.name, within(left + width) - begin);
    if (text) names.push(create("text", { class: "name", x: x + begin + MARGIN, y: y + top + tall / 2 + 4, "font-size": 10, fill: bar.dataset.ink ?? "#000", "pointer-events": "none" }, text));
  }
  drawing.querySelector(".names").replaceChildren(...names);
}

// Lines at round times with labels above; labels within this distance of an end would hide the end's own.
const BESIDE_ENDS = 64;

function writeTicks(drawing, bars, line, from, until) {
  const [x, across] = ["x", "width"].map((name) => Number(bars.getAttribute(name)));
  const { x: start, width: wide } = bars.viewBox.baseVal;
  const [times, step] = ticks(from, until);
  for (const old of drawing.querySelectorAll(".tick, .bars > line")) old.remove();
  for (const time of times) {
    const part = (time - from) / (until - from);
    const tick = line.cloneNode();
    for (const end of ["x1", "x2"]) tick.setAttribute(end, start + part * wide);
    bars.prepend(tick);
    const label = x + part * across;
    if (label < x + BESIDE_ENDS || label > x + across - BESIDE_ENDS) continue;
    const y = drawing.querySelector(".from").getAttribute("y");
    drawing.append(create("text", { class: "tick", x: label, y, "text-anchor": "middle", "font-size": 11 }, format(time, step)));
  }
  drawing.querySelector(".from").textContent = format(from, step / 100);
  drawing.querySelector(".until").textContent = format(until, step / 100);
}

function buttons(place, acts) {
  const row = document.createElement("p");
  row.className = "zoom";
  for (const [label, act] of acts) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = label;
    button.addEventListener("click", act);
    row.append(button);
  }
  place.before(row);
}

// Returns a view of a drawing; look(from, wide) shows a part of its time, both as shares of all of it.
function viewOf(drawing) {
  prepare(drawing);
  const bars = drawing.querySelector(".bars");
  const seconds = Number(drawing.dataset.seconds ?? drawing.closest("[data-seconds]").dataset.seconds);
  if (!bars || !(seconds > 0)) return null;
  const [start, , whole, tall] = bars.getAttribute("viewBox").split(" ").map(Number);
  const line = bars.querySelector("line");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  return {
    drawing,
    bars,
    look: (from, wide) => {
      bars.setAttribute("viewBox", `${start + from * whole} 0 ${wide * whole} ${tall}`);
      writeTicks(drawing, bars, line, seconds * from, seconds * (from + wide));
      writeNames(drawing, bars);
    },
  };
}

// Makes drawings on one scale zoomable together: all show the same part of the time.
function zoomable(place, drawings) {
  const views = drawings.map(viewOf).filter((view) => view);
  if (!views.length) return;
  let from = 0;
  let wide = 1;
  const show = () => {
    wide = Math.min(1, Math.max(1e-4, wide));
    from = Math.min(1 - wide, Math.max(0, from));
    for (const view of views) view.look(from, wide);
  };
  const zoom = (factor, at) => {
    const before = wide;
    wide = Math.min(1, Math.max(1e-4, wide * factor));
    from += (before - wide) * at;
    show();
  };
  const move = (parts) => { from += wide * parts; show(); };
  const all = () => { from = 0; wide = 1; show(); };
  const [closer, farther] = [() => zoom(0.5, 0.5), () => zoom(2, 0.5)];
  const [earlier, later] = [() => move(-1 / 8), () => move(1 / 8)];
  const acts = {
    "+": closer, "=": closer, w: closer, "-": farther, s: farther,
    ArrowLeft: earlier, a: earlier, ArrowRight: later, d: later, 0: all,
  };
  for (const { drawing, bars } of views) {
    const at = (event) => {
      const box = bars.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    };
    drawing.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event));
    }, { passive: false });
    drawing.addEventListener("dblclick", (event) => zoom(event.shiftKey ? 2 : 0.5, at(event)));
    drawing.addEventListener("pointermove", (event) => {
      if (!(event.buttons & 1)) return;
      move(-event.movementX / bars.getBoundingClientRect().width);
    });
    drawing.tabIndex = 0;
    drawing.addEventListener("keydown", (event) => {
      const act = acts[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
  }
  buttons(place, [
    ["Closer", closer], ["Farther", farther],
    ["Earlier", () => move(-1 / 2)], ["Later", () => move(1 / 2)], ["All", all],
  ]);
  show();
}

export function zoomAll(root = document) {
  const places = new Map();
  for (const timeline of root.querySelectorAll("svg.timeline")) {
    const place = timeline.closest(".drawing");
    places.set(place, [...(places.get(place) ?? []), timeline]);
  }
  for (const [place, drawings] of places) zoomable(place, drawings);
}
