// Clocks of running jobs, which continue from the server's seconds, independent of the local time.
function format(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
}

const begun = new Map();

export function clocks(root = document) {
  for (const clock of root.querySelectorAll("[data-clock]")) {
    begun.set(clock, performance.now() - 1000 * Number(clock.dataset.clock));
  }
}

setInterval(() => {
  for (const [clock, start] of begun) {
    if (clock.isConnected && clock.dataset.clock) clock.textContent = format((performance.now() - start) / 1000);
    else begun.delete(clock);
  }
}, 1000);
