// A job: its progress and the best answers so far, from the server's events.
import { byId, ended, fetchPart, reveal } from "./parts.js";
import { clocks } from "./clocks.js";

const place = byId("job");
const bar = byId("bar");

async function best() {
  byId("best").innerHTML = await fetchPart(`/jobs/${place.dataset.id}/best`);
}

function tell(kind, body) {
  if (kind === "best") { best(); return; }
  const [progress, status] = [body.progress, document.querySelector(".facts .status")];
  if (status.textContent !== body.status) {
    if (status.textContent === "queued") {
      for (const clock of document.querySelectorAll("[data-clock]")) clock.dataset.clock = 0;
      clocks();
    }
    status.textContent = body.status;
    status.className = `status ${body.status}`;
  }
  const of = progress?.of;
  byId("stage").textContent = progress
    ? `${body.status}: ${progress.stage ?? ""}${of ? `, ${progress.done} of ${of}` : ""}` : body.status;
  if (of) { bar.max = of; bar.value = progress.done; } else { bar.removeAttribute("value"); }
}

reveal();
clocks();
if (place.dataset.live) {
  const job = await ended(place.dataset.id, tell);
  if (job.status === "done") location.replace(`/answers/${job.answer_key}`);
  else location.reload();
}
