// Draws the machine as boxes and links, with devices coloured by their groups over an axis.
import { byId, style } from "./parts.js";

let shown = null;
let listening = null;
const NARROW = 640;

// A link that closes a ring of boxes ends at their upper edges, or at the right if they form a column.
const ringEnd = (edge) => {
  const [source, target] = [edge.source(), edge.target()];
  if (!source.isParent()) return "outside-to-node";
  return Math.abs(source.position().y - target.position().y) < 1 ? "0 -50%" : "50% 0";
};

const look = () => [
  { selector: "node", style: { "font-family": "system-ui, sans-serif", "font-size": 12, color: style("--ink"), shape: "round-rectangle", label: "data(name)" } },
  { selector: "node[kind = 'unit']", style: { "background-color": style("--card"), "border-color": style("--line"), "border-width": 1, "text-valign": "bottom", "text-halign": "center", "text-margin-y": 2, padding: 10, "text-background-color": style("--card"), "text-background-opacity": 1, "text-background-padding": 2 } },
  { selector: "node[kind = 'hub']", style: { "background-color": style("--hub"), "text-wrap": "wrap", "text-valign": "center", "font-size": 10, width: 150, height: 32, "border-width": 1, "border-color": style("--line") } },
  { selector: "node[kind = 'device']", style: { width: 46, height: 46, "text-valign": "center", "text-wrap": "wrap", "font-size": "data(small)", label: "data(label)", "background-color": "data(fill)", color: "data(ink)", "border-width": 1, "border-color": style("--line") } },
  { selector: "node[?missing]", style: { "background-color": style("--card"), color: style("--ink"), "border-style": "dashed", "border-width": 2 } },
  { selector: "node.peer", style: { "border-width": 4, "border-color": style("--ink") } },
  { selector: "node.here", style: { "border-width": 4, "border-color": style("--focus") } },
  { selector: "edge", style: { width: "data(wide)", "line-color": style("--wire"), "curve-style": "straight", label: "data(label)", "font-size": 10, color: style("--ink"), "text-background-color": style("--card"), "text-background-opacity": 0.9, "text-background-padding": 2 } },
  { selector: "edge[target ^= 'hub']", style: { "source-endpoint": "0 -50%", "target-endpoint": "0 50%" } },
  { selector: "edge[target = 'hubu']", style: { "z-compound-depth": "bottom" } },
  { selector: "edge.wrap", style: { "curve-style": "segments", "edge-distances": "node-position", "segment-distances": (edge) => [edge.data("aside"), edge.data("aside")], "segment-weights": [0.001, 0.999], "source-endpoint": ringEnd, "target-endpoint": ringEnd } },
  { selector: "edge.worn", style: { "line-color": style("--bad"), "line-style": "dashed" } },
];

export function drawMachine(place, picture, choice, status) {
  shown?.destroy();
  listening?.abort();
  listening = new AbortController();
  const { signal } = listening;
  const narrow = place.clientWidth < NARROW;
  const drawn = narrow ? picture.narrow : picture.wide;
  byId("left-out").textContent = drawn.left_out ? `${drawn.left_out}.` : "";
  const elements = [...drawn.nodes, ...drawn.edges].map((element) => ({ ...element, data: { label: "", small: 11, fill: style("--card"), ink: style("--ink"), ...element.data } }));
  const cy = cytoscape({
    container: place, elements, style: look(), layout: { name: "preset", padding: 12, fit: true },
    userZoomingEnabled: false, userPanningEnabled: true, autoungrabify: true, autounselectify: true,
    minZoom: 0.05, maxZoom: 2.5,
  });
  shown = cy;
  const devices = cy.nodes("[kind = 'device']");
  const grouping = () => picture.groupings[Number(choice.value)];
  const groupOf = (node) => grouping().group_of[node.data("device")];
  const describe = (node) => {
    const at = picture.coordinates[node.data("device")];
    const device = `device ${node.data("device")} (${node.data("name")})`;
    if (!at) return `${device}: missing`;
    const where = picture.axes.map((axis, n) => `${axis} ${at[n]}`).join(", ");
    return `${device}: ${where}. Its group over ${grouping().over.join(", ")}: ${grouping().members[groupOf(node)]}`;
  };
  const mark = () => {
    const here = devices.filter(".here");
    devices.removeClass("peer");
    if (!here.length) return;
    if (groupOf(here) !== undefined) devices.filter((node) => groupOf(node) === groupOf(here)).addClass("peer");
    status.textContent = describe(here);
  };
  const paint = () => {
    byId("groups-said").textContent = grouping().caption;
    cy.batch(() => devices.forEach((node) => {
      const at = picture.coordinates[node.data("device")]?.join(",") ?? "–";
      const colour = grouping().paints[groupOf(node)] ?? { fill: style("--card"), ink: style("--ink") };
      node.data({ ...colour, label: `${node.data("device")}\n${at}`, small: Math.min(11, Math.max(5, Math.floor(66 / at.length))) });
    }));
    mark();
  };
  const point = (node) => {
    devices.removeClass("here");
    node.addClass("here");
    mark();
  };
  let at = devices.toArray().findIndex((node) => node.data("device") === picture.here);
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    at = (at + step + devices.length) % devices.length;
    point(devices[at]);
  }, { signal });
  cy.on("mouseover tap", "node[kind = 'device']", (event) => point(event.target));
  choice.addEventListener("change", paint, { signal });
  addEventListener("themechange", () => { cy.style(look()); paint(); }, { signal });
  const fit = () => {
    const { w, h } = cy.elements().boundingBox();
    const most = narrow ? 3000 : 900;
    place.style.height = `${Math.min(most, Math.max(200, Math.min(1.3, place.clientWidth / w) * h + 24))}px`;
    cy.resize();
    cy.fit(undefined, 12);
    if (cy.zoom() > 1.3) { cy.zoom(1.3); cy.center(); }
  };
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const factor = Number(button.dataset.zoom);
      if (!factor) { fit(); return; }
      cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: place.clientWidth / 2, y: place.clientHeight / 2 } });
    }, { signal });
  }
  addEventListener("resize", fit, { signal });
  choice.value = picture.first;
  const highlighted = devices.filter((node) => node.data("device") === picture.here);
  if (highlighted.length) point(highlighted);
  paint();
  fit();
  place.machine = cy;
}
