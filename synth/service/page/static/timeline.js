// A timeline that may be looked at closely: wheel or + and - to zoom, drag or arrows to move.

const units = [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]];

function spoken(seconds) {
  const [unit, scale] = units.find(([, one]) => seconds >= one) ?? ["s", 1];
  return `${Number((seconds / scale).toPrecision(3))} ${unit}`;
}

function zoomable(drawing) {
  const bars = drawing.querySelector(".bars");
  const [, , whole, tall] = bars.getAttribute("viewBox").split(" ").map(Number);
  const seconds = Number(drawing.dataset.seconds);
  let from = 0;
  let wide = whole;
  const show = () => {
    wide = Math.min(whole, Math.max(whole / 1e4, wide));
    from = Math.min(whole - wide, Math.max(0, from));
    bars.setAttribute("viewBox", `${from} 0 ${wide} ${tall}`);
    drawing.querySelector(".from").textContent = spoken((seconds * from) / whole);
    drawing.querySelector(".until").textContent = spoken((seconds * (from + wide)) / whole);
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
  drawing.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event));
  }, { passive: false });
  drawing.addEventListener("dblclick", (event) => zoom(event.shiftKey ? 2 : 0.5, place(event)));
  drawing.addEventListener("pointermove", (event) => {
    if (!(event.buttons & 1)) return;
    from -= (event.movementX / bars.getBoundingClientRect().width) * wide;
    show();
  });
  drawing.tabIndex = 0;
  drawing.addEventListener("keydown", (event) => {
    const act = {
      "+": () => zoom(0.5, 0.5),
      "-": () => zoom(2, 0.5),
      ArrowLeft: () => { from -= wide / 8; show(); },
      ArrowRight: () => { from += wide / 8; show(); },
      0: () => { from = 0; wide = whole; show(); },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

document.querySelectorAll("svg.step").forEach(zoomable);
