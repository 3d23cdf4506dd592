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

// Puts a part into its place; where that is still being worked out, waits for its job.
export async function fill(place, url, options) {
  place.setAttribute("aria-busy", "true");
  place.innerHTML = await fetchPart(url, options);
  const waiting = place.querySelector("[data-job]");
  if (waiting) {
    await ended(waiting.dataset.job);
    place.innerHTML = await fetchPart(url, options);
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
