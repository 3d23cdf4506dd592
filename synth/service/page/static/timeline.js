// Timelines that may be looked at closely: buttons, wheel, + and - or w and s to zoom; drag, arrows or a and d to move.
const SVG = "http://www.w3.org/2000/svg";
const units = [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]];

// A moment in as many digits as tell it from the next one, which is a step later.
function spoken(seconds, step) {
  const [unit, scale] = units.find(([, one]) => seconds >= one) ?? ["s", 1];
  const digits = Math.min(12, Math.max(0, Math.ceil(Math.log10(scale / step))));
  return `${Number((seconds / scale).toFixed(digits))} ${unit}`;
}

// About five round moments of what is seen, and how far they are from each other.
function moments(from, until) {
  const least = (until - from) / 6;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= least * 0.999);
  const found = [];
  for (let at = Math.ceil(from / step); at * step <= until; at += 1) found.push(at * step);
  return [found, step];
}

function made(name, attributes, text = "") {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.textContent = text;
  return found;
}

// A program's bars stand among its labels: they get a drawing of their own, and its ends their times.
function prepare(drawing) {
  if (drawing.querySelector(".bars")) return;
  const ground = drawing.querySelector(".ground");
  if (!ground) return;
  const left = Number(ground.getAttribute("x"));
  const wide = Number(ground.getAttribute("width"));
  const tall = drawing.viewBox.baseVal.height;
  const bars = made("svg", {
    class: "bars", x: left, y: 0, width: wide, height: tall, viewBox: `${left} 0 ${wide} ${tall}`, preserveAspectRatio: "none",
  });
  bars.append(...drawing.querySelectorAll(".tick line"), ...drawing.querySelectorAll(".row .bar"));
  for (const one of drawing.querySelectorAll(".name")) one.remove();
  const end = { y: drawing.querySelector(".tick text").getAttribute("y"), "font-size": 11 };
  drawing.append(
    bars,
    made("g", { class: "names" }),
    made("text", { class: "from", x: left, ...end }),
    made("text", { class: "until", x: left + wide, "text-anchor": "end", ...end }),
  );
}

// Bars with room for it have their names upon them, by the rule of names.py; what is out of view is no room.
const [LETTER, MARGIN, FEWEST] = [6, 3, 4];

function fitted(name, wide) {
  const letters = Math.floor((wide - 2 * MARGIN) / LETTER);
  if (letters >= name.length) return name;
  return letters >= FEWEST ? `${name.slice(0, letters - 1)}…` : "";
}

function writeNames(drawing, bars) {
  const [x, y, across] = ["x", "y", "width"].map((one) => Number(bars.getAttribute(one)));
  const { x: from, width: wide } = bars.viewBox.baseVal;
  const within = (place) => Math.min(across, Math.max(0, ((place - from) * across) / wide));
  const names = [];
  for (const bar of bars.querySelectorAll("[data-name]")) {
    const box = bar.querySelector("rect") ?? bar;
    const [left, top, width, tall] = ["x", "y", "width", "height"].map((one) => Number(box.getAttribute(one)));
    const begin = within(left);
    const text = fitted(bar.dataset.name, within(left + width) - begin);
    if (text) names.push(made("text", { class: "name", x: x + begin + MARGIN, y: y + top + tall / 2 + 4, "font-size": 10, fill: bar.dataset.ink ?? "#000", "pointer-events": "none" }, text));
  }
  drawing.querySelector(".names").replaceChildren(...names);
}

// Lines at round moments, with their labels above; at the ends of what is seen stand these.
const BESIDE_ENDS = 64;

function writeMoments(drawing, bars, line, from, until) {
  const [x, across] = ["x", "width"].map((one) => Number(bars.getAttribute(one)));
  const { x: start, width: wide } = bars.viewBox.baseVal;
  const [found, step] = moments(from, until);
  for (const one of drawing.querySelectorAll(".tick, .bars > line")) one.remove();
  for (const moment of found) {
    const part = (moment - from) / (until - from);
    const lined = line.cloneNode();
    for (const end of ["x1", "x2"]) lined.setAttribute(end, start + part * wide);
    bars.prepend(lined);
    const label = x + part * across;
    if (label < x + BESIDE_ENDS || label > x + across - BESIDE_ENDS) continue;
    const y = drawing.querySelector(".from").getAttribute("y");
    drawing.append(made("text", { class: "tick", x: label, y, "text-anchor": "middle", "font-size": 11 }, spoken(moment, step)));
  }
  drawing.querySelector(".from").textContent = spoken(from, step / 100);
  drawing.querySelector(".until").textContent = spoken(until, step / 100);
}

function buttons(place, acts) {
  const row = document.createElement("p");
  row.className = "zoom";
  for (const [label, act] of acts) {
    const one = document.createElement("button");
    one.type = "button";
    one.className = "quiet";
    one.textContent = label;
    one.addEventListener("click", act);
    row.append(one);
  }
  place.before(row);
}

// How a drawing is made to show a part of its time: from a share of all of it on, so wide a share.
function looking(drawing) {
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
      writeMoments(drawing, bars, line, seconds * from, seconds * (from + wide));
      writeNames(drawing, bars);
    },
  };
}

// Drawings on one scale show the same part of the time, whichever of them is moved.
function zoomable(place, drawings) {
  const seen = drawings.map(looking).filter((one) => one);
  if (!seen.length) return;
  let from = 0;
  let wide = 1;
  const show = () => {
    wide = Math.min(1, Math.max(1e-4, wide));
    from = Math.min(1 - wide, Math.max(0, from));
    for (const one of seen) one.look(from, wide);
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
  for (const { drawing, bars } of seen) {
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
  for (const one of root.querySelectorAll("svg.timeline")) {
    const place = one.closest(".drawing");
    places.set(place, [...(places.get(place) ?? []), one]);
  }
  for (const [place, drawings] of places) zoomable(place, drawings);
}
