// Time against message size, both logarithmic, with the sizes where another answer becomes best.
import { style } from "./parts.js";

const UNITS = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const withUnit = (value, units) => {
  if (value == null) return "";
  const [scale, unit] = units.find(([least]) => value >= least * 0.9999) ?? units.at(-1);
  return `${Number((value / scale).toPrecision(4))} ${unit}`;
};

function crossovers(sizes) {
  return {
    hooks: {
      draw: (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = style("--faint");
        ctx.setLineDash([6, 4]);
        ctx.lineWidth = devicePixelRatio;
        for (const size of sizes) {
          const x = plot.valToPos(size, "x", true);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.restore();
      },
    },
  };
}

let shown = null;

export function drawCurves(place, given) {
  const axis = (units) => ({
    stroke: style("--ink"), grid: { stroke: style("--grid"), width: 1 }, ticks: { stroke: style("--grid") },
    values: (plot, splits) => splits.map((one) => withUnit(one, units)),
  });
  const line = (label, colour, dash) => ({
    label, stroke: style(colour), width: 2, dash, points: { show: !dash, size: 5 },
    value: (plot, value) => withUnit(value, TIMES) || "–",
  });
  const powers = (plot, axisIndex, low, high) => {
    const every = Math.log2(high / low) > 18 ? 16 : 4;
    const found = [];
    for (let one = 2 ** Math.ceil(Math.log2(low)); one <= high; one *= every) found.push(one);
    return found;
  };
  const draw = () => {
    shown?.destroy();
    const { paddingLeft, paddingRight } = getComputedStyle(place);
    const width = place.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
    shown = new uPlot({
      width, height: Math.max(260, Math.min(420, width * 0.5)),
      padding: [null, 24, null, null],
      scales: { x: { distr: 3, log: 2, time: false }, y: { distr: 3 } },
      series: [
        { label: "size", value: (plot, value) => withUnit(value, UNITS) || "–" },
        line("best answer", "--best"), line("default", "--default", [12, 3]), line("bound", "--bound", [6, 4]),
      ],
      axes: [{ ...axis(UNITS), splits: powers, filter: (plot, splits) => splits }, { ...axis(TIMES), size: 70 }],
      plugins: [crossovers(given.crossovers)],
    }, [given.bytes, given.best, given.default, given.bound], place);
  };
  draw();
  addEventListener("themechange", draw);
  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(draw, 150); });
}
