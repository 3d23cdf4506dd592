// The form: rows of axes, a file read into the text, and what the server says as one types.
import { byId, reveal } from "./parts.js";

const form = byId("ask");
const rows = byId("axes");

function number() {
  [...rows.rows].forEach((row, at) => {
    const [name, size] = row.querySelectorAll("input:not([type])");
    const over = row.querySelector("input[type=checkbox]");
    name.setAttribute("aria-label", `Name of axis ${at + 1}`);
    size.setAttribute("aria-label", `Size of axis ${at + 1}`);
    over.setAttribute("aria-label", `The collective is over axis ${at + 1}`);
    over.value = at;
    row.querySelector(".remove").setAttribute("aria-label", `Remove axis ${at + 1}`);
  });
}

function show(checked) {
  for (const place of form.querySelectorAll(".said")) {
    const name = place.id.replace(/-said$/, "");
    const text = checked.wrong[name] ?? "";
    if (place.textContent !== text) place.textContent = text;
    for (const input of form.querySelectorAll(`[aria-describedby="${place.id}"]`)) {
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }
  for (const place of form.querySelectorAll(".told")) {
    const text = checked.told[place.id.replace(/-told$/, "")] ?? "";
    if (place.textContent !== text) place.textContent = text;
  }
}

let asked = 0;
let timer = 0;

async function check() {
  const mine = ++asked;
  const body = new URLSearchParams(new FormData(form));
  try {
    const response = await fetch("/page/check", { method: "POST", body });
    if (response.ok && mine === asked) show(await response.json());
  } catch { /* the answer of the form itself will say it */ }
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(check, 250);
}

byId("add").addEventListener("click", () => {
  rows.append(byId("axis").content.cloneNode(true));
  number();
  rows.lastElementChild.querySelector("input").focus();
});

rows.addEventListener("click", (event) => {
  const button = event.target.closest(".remove");
  if (!button) return;
  const row = button.closest("tr");
  const next = row.nextElementSibling ?? row.previousElementSibling;
  row.remove();
  number();
  (next?.querySelector("input") ?? byId("add")).focus();
  soon();
});

byId("file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  byId("own").value = await file.text();
  soon();
});

form.addEventListener("input", soon);
reveal();
number();
check();
byId("problems")?.focus();
