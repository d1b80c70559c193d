// Fetches what the server renders and puts it in place; a hidden page asks for nothing. Text from outside is only
// ever set as text.
"use strict";
const offline = document.getElementById("offline");
const api = (name) => `/api/v1/pipelines/${encodeURIComponent(name)}`;
const FEED = 60;

// Changes only what differs, so that focus stays and the gate's blade moves instead of being drawn anew.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh.cloneNode(true));
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.childNodes.length !== fresh.childNodes.length) return old.replaceChildren(...fresh.cloneNode(true).childNodes);
  [...old.childNodes].forEach((child, at) => morph(child, fresh.childNodes[at]));
}

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/ui/live", { signal: AbortSignal.timeout(4000) });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of fresh.querySelectorAll("[data-live]")) {
      const old = document.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
      if (old) morph(old, part);
    }
    offline.hidden = true;
  } catch {
    offline.hidden = false;
  }
}

async function keep() {
  await refresh();
  setTimeout(keep, 1000);
}

async function ask(url, options = {}) {
  const answer = await fetch(url, { signal: AbortSignal.timeout(15000), ...options });
  const body = answer.headers.get("content-type")?.includes("json") ? await answer.json() : await answer.text();
  if (answer.ok) return body;
  throw new Error(body.detail ? `${body.detail}. ${body.remedy}` : `the service answered ${answer.status}`);
}

function text(tag, content, kind) {
  const made = document.createElement(tag);
  made.textContent = content;
  if (kind) made.className = kind;
  return made;
}

// Resolves to whether it was agreed to; `agreed` decides when that may be said.
function dialog(title, content, action, agreed = () => true) {
  const box = document.getElementById("dialog");
  const ok = document.getElementById("dialog-ok");
  document.getElementById("dialog-title").textContent = title;
  document.getElementById("dialog-body").replaceChildren(...content);
  ok.hidden = !action;
  ok.textContent = action || "";
  ok.disabled = !agreed();
  box.oninput = () => (ok.disabled = !agreed());
  box.returnValue = "";
  box.showModal();
  return new Promise((done) => box.addEventListener("close", () => done(box.returnValue === "ok"), { once: true }));
}

async function letters(panel) {
  const list = panel.querySelector("[data-list]");
  try {
    const html = await ask(`/ui/pipelines/${encodeURIComponent(panel.dataset.letters)}/dead-letters`);
    if (html !== panel.last) list.innerHTML = panel.last = html; // rendered and escaped by the server
  } catch (error) {
    list.replaceChildren(text("p", error.message, "problem"));
  }
}

async function showLetter(panel, id) {
  try {
    const letter = await ask(`${api(panel.dataset.letters)}/dead-letters/${id}`);
    const body = text("pre", JSON.stringify(letter.change ?? "It cannot be decoded.", null, 2));
    const facts = `${letter.lane} · ${letter.message} · frame ${letter.frame_offset} · ${letter.commit_lsn}`;
    await dialog(letter.code, [text("p", facts), body, text("p", letter.remedy, "quiet")]);
  } catch (error) {
    await dialog("It cannot be shown", [text("p", error.message)]);
  }
}

async function purgeLetter(panel, id) {
  const input = Object.assign(document.createElement("input"), { id: "typed", autocomplete: "off" });
  const label = text("label", "Its change reaches nobody then. Type 1, for one dead letter, to go on.");
  label.htmlFor = "typed";
  if (!(await dialog("Give up for ever?", [label, input], "Give up", () => input.value === "1"))) return;
  try {
    const body = JSON.stringify({ ids: [id], confirm: 1 });
    const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID?.() ?? `purge-${id}` };
    await ask(`${api(panel.dataset.letters)}/dead-letters/purge`, { method: "POST", headers, body });
    await letters(panel);
  } catch (error) {
    await dialog("It was not given up", [text("p", error.message)]);
  }
}

function follow(panel) {
  const button = panel.querySelector("[data-follow]");
  const note = panel.querySelector("[data-note]");
  const feed = panel.querySelector("[data-feed]");
  if (panel.source) {
    panel.source.close();
    panel.source = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Follow";
    note.textContent = "Paused.";
    return;
  }
  const table = panel.querySelector("[data-table]").value.trim();
  const source = (panel.source = new EventSource(
    `${api(panel.dataset.events)}/events${table ? `?table=${encodeURIComponent(table)}` : ""}`,
  ));
  button.setAttribute("aria-pressed", "true");
  button.textContent = "Pause";
  note.textContent = "Connecting…";
  source.addEventListener("open", () => (note.textContent = "Live."));
  source.addEventListener("change", (event) => {
    feed.prepend(change(JSON.parse(event.data)));
    while (feed.children.length > FEED) feed.lastChild.remove();
  });
  source.addEventListener("dropped", () => (note.textContent = "Too slow: some may be missing here. Going on…"));
  source.addEventListener("error", () => {
    note.textContent =
      source.readyState === EventSource.CLOSED ? "Refused: rows take a token with the scope data." : "Reconnecting…";
  });
}

function change(data) {
  const item = text("li", "", data.operation.toLowerCase());
  const row = data.row ?? data.old ?? data.details;
  const shown = Object.entries(row).map(([name, value]) => `${name}=${value === null ? "∅" : value}`).join("  ");
  item.append(text("b", data.operation), text("span", data.channel, "tag"), text("code", shown), text("time", data.commit_time?.slice(11, 19) ?? ""));
  return item;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const panel = button?.closest("[data-letters], [data-events]");
  if (!panel) return;
  if ("refresh" in button.dataset) letters(panel);
  else if (button.dataset.show) showLetter(panel, button.dataset.show);
  else if (button.dataset.purge) purgeLetter(panel, button.dataset.purge);
  else if ("follow" in button.dataset) follow(panel);
});
for (const panel of document.querySelectorAll("[data-letters]")) {
  letters(panel);
  setInterval(() => document.hidden || panel.contains(document.activeElement) || letters(panel), 5000);
}
document.addEventListener("visibilitychange", refresh);
setTimeout(keep, 1000);
