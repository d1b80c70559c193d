// Fetches what the server renders and puts it in place; a hidden page asks for nothing.
"use strict";
const live = document.getElementById("live");
const offline = document.getElementById("offline");

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/ui/live", { signal: AbortSignal.timeout(4000) });
    if (!answer.ok) throw new Error(answer.status);
    const html = await answer.text();
    if (html !== refresh.last) live.innerHTML = refresh.last = html;
    offline.hidden = true;
  } catch {
    offline.hidden = false;
  }
}

async function keep() {
  await refresh();
  setTimeout(keep, 1000);
}
document.addEventListener("visibilitychange", refresh);
setTimeout(keep, 1000);
