// Shared by the scripts of all pages: parts of pages, and waiting for jobs.
export const byId = (id) => document.getElementById(id);

export function reveal(root = document) {
  for (const element of root.querySelectorAll(".js[hidden]")) element.hidden = false;
  for (const element of root.querySelectorAll(".nojs")) element.hidden = true;
}

export async function fetchPart(url, options = {}) {
  const response = await fetch(url, { ...options, headers: { "X-Part": "1", ...options.headers } });
  if (response.redirected && new URL(response.url).pathname === "/login") location.reload();
  return response.text();
}

const latest = new WeakMap(); // the latest request of each place

// Puts a part into its place, unless a later request replaced this one; if the part is still being
// computed, waits for its job.
export async function fill(place, url, options) {
  const request = {};
  latest.set(place, request);
  place.setAttribute("aria-busy", "true");
  const put = async () => {
    const part = await fetchPart(url, options);
    if (latest.get(place) === request) place.innerHTML = part;
    return latest.get(place) === request;
  };
  if (!await put()) return;
  const waiting = place.querySelector("[data-job]");
  if (waiting) {
    await ended(waiting.dataset.job);
    if (latest.get(place) !== request || !await put()) return;
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
