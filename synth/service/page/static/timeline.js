// Timelines that may be looked at closely: buttons, wheel or + and - to zoom, drag or arrows to move.
const SVG = "http://www.w3.org/2000/svg";
const units = [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]];

function spoken(seconds) {
  const [unit, scale] = units.find(([, one]) => seconds >= one) ?? ["s", 1];
  return `${Number((seconds / scale).toPrecision(3))} ${unit}`;
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
  for (const line of drawing.querySelectorAll(".tick line")) {
    line.setAttribute("vector-effect", "non-scaling-stroke");
    bars.append(line);
  }
  bars.append(...drawing.querySelectorAll(".row .bar"));
  const y = drawing.querySelector(".tick text").getAttribute("y");
  const hidden = { y, "font-size": 11, visibility: "hidden" };
  drawing.append(
    bars,
    made("text", { class: "from", x: left, ...hidden }),
    made("text", { class: "until", x: left + wide, "text-anchor": "end", ...hidden }),
  );
}

function buttons(drawing, acts) {
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
  drawing.closest(".drawing").before(row);
}

function zoomable(drawing) {
  prepare(drawing);
  const bars = drawing.querySelector(".bars");
  if (!bars) return;
  const [start, , whole, tall] = bars.getAttribute("viewBox").split(" ").map(Number);
  const seconds = Number(drawing.dataset.seconds ?? drawing.closest("[data-seconds]").dataset.seconds);
  let from = 0;
  let wide = whole;
  const show = () => {
    wide = Math.min(whole, Math.max(whole / 1e4, wide));
    from = Math.min(whole - wide, Math.max(0, from));
    bars.setAttribute("viewBox", `${start + from} 0 ${wide} ${tall}`);
    drawing.querySelector(".from").textContent = spoken((seconds * from) / whole);
    drawing.querySelector(".until").textContent = spoken((seconds * (from + wide)) / whole);
    const closer = wide < whole;
    for (const one of drawing.querySelectorAll(".tick text")) one.setAttribute("visibility", closer ? "hidden" : "visible");
    if (drawing.querySelector(".tick")) {
      for (const one of drawing.querySelectorAll(".from, .until")) one.setAttribute("visibility", closer ? "visible" : "hidden");
    }
  };
  const place = (event) => {
    const box = bars.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const zoom = (factor, at) => {
    const before = wide;
    wide = Math.min(whole, Math.max(whole / 1e4, wide * factor));
    from += (before - wide) * at;
    show();
  };
  const move = (parts) => { from += wide * parts; show(); };
  const all = () => { from = 0; wide = whole; show(); };
  drawing.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event));
  }, { passive: false });
  drawing.addEventListener("dblclick", (event) => zoom(event.shiftKey ? 2 : 0.5, place(event)));
  drawing.addEventListener("pointermove", (event) => {
    if (!(event.buttons & 1)) return;
    move(-event.movementX / bars.getBoundingClientRect().width);
  });
  drawing.tabIndex = 0;
  drawing.addEventListener("keydown", (event) => {
    const act = {
      "+": () => zoom(0.5, 0.5), "-": () => zoom(2, 0.5), ArrowLeft: () => move(-1 / 8), ArrowRight: () => move(1 / 8), 0: all,
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  buttons(drawing, [
    ["Closer", () => zoom(0.5, 0.5)], ["Farther", () => zoom(2, 0.5)],
    ["Earlier", () => move(-1 / 2)], ["Later", () => move(1 / 2)], ["All", all],
  ]);
}

export function zoomAll(root = document) {
  root.querySelectorAll("svg.timeline").forEach(zoomable);
}
