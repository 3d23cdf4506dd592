// What the scripts of all pages share: parts of pages, and waiting for jobs.
export const byId = (id) => document.getElementById(id);

export function reveal(root = document) {
  for (const one of root.querySelectorAll(".js[hidden]")) one.hidden = false;
  for (const one of root.querySelectorAll(".nojs")) one.hidden = true;
}

export async function fetchPart(url, options = {}) {
  const response = await fetch(url, { ...options, headers: { "X-Part": "1", ...options.headers } });
  if (response.redirected && new URL(response.url).pathname === "/login") location.reload();
  return response.text();
}

const asked = new WeakMap(); // of each place the part that it was last asked to show

// Puts a part into its place, unless that was asked to show another since; where the part is still
// being worked out, waits for its job.
export async function fill(place, url, options) {
  const mine = {};
  asked.set(place, mine);
  place.setAttribute("aria-busy", "true");
  const put = async () => {
    const part = await fetchPart(url, options);
    if (asked.get(place) === mine) place.innerHTML = part;
    return asked.get(place) === mine;
  };
  if (!await put()) return;
  const waiting = place.querySelector("[data-job]");
  if (waiting) {
    await ended(waiting.dataset.job);
    if (asked.get(place) !== mine || !await put()) return;
  }
  place.removeAttribute("aria-busy");
  reveal(place);
}

export function ended(job, tell = () => {}) {
  return new Promise((resolve) => {
    const source = new EventSource(`/v1/jobs/${job}/events`);
    source.addEventListener("progress", (event) => tell("progress", JSON.parse(event.data)));
    source.addEventListener("best", (event) => tell("best", JSON.parse(event.data)));
    source.addEventListener("end", (event) => { source.close(); resolve(JSON.parse(event.data)); });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) resolve({ status: "unknown" });
    });
    addEventListener("pagehide", () => source.close());
  });
}

export const data = (id) => JSON.parse(byId(id).textContent);
export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
