// Clocks of what runs go on from what the server said, whatever the time is here.
function spoken(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
}

const begun = new Map();

export function clocks(root = document) {
  for (const one of root.querySelectorAll("[data-clock]")) {
    begun.set(one, performance.now() - 1000 * Number(one.dataset.clock));
  }
}

setInterval(() => {
  for (const [one, start] of begun) {
    if (one.isConnected && one.dataset.clock) one.textContent = spoken((performance.now() - start) / 1000);
    else begun.delete(one);
  }
}, 1000);
