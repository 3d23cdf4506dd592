// Opens a trace in Perfetto as its documentation describes: open a window, ping it until it answers,
// then post the trace. The trace goes from window to window; no server gets it.
const PERFETTO = "https://ui.perfetto.dev";
const PATIENCE_MS = 60_000;

async function open(button) {
  const other = window.open(PERFETTO);
  if (!other) return "the browser blocked the new window";
  const response = await fetch(button.dataset.trace);
  if (!response.ok) { other.close(); return "the trace is not ready: try again"; }
  const trace = { buffer: await response.arrayBuffer(), title: button.dataset.title, fileName: "trace.json" };
  const asking = setInterval(() => other.postMessage("PING", PERFETTO), 100);
  const listen = (event) => {
    if (event.source !== other || event.origin !== PERFETTO || event.data !== "PONG") return;
    stop();
    other.postMessage({ perfetto: trace }, PERFETTO);
  };
  const stop = () => { clearInterval(asking); removeEventListener("message", listen); };
  addEventListener("message", listen);
  setTimeout(stop, PATIENCE_MS);
  return "";
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-trace]");
  if (!button) return;
  const problem = await open(button);
  button.parentElement.querySelector("[role=status]").textContent = problem;
});
