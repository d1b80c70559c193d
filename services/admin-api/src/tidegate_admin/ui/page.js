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

// An action, asked for once however often it is sent.
function act(url, body) {
  const key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`;
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  return ask(url, { method: "POST", headers, body: JSON.stringify(body) });
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// Resolves to whether it was agreed to; `agreed` decides when that may be said. There is one box: whatever was asked
// there before is not agreed to once something else stands in it.
const box = document.getElementById("dialog");
let decide = () => {};
box.addEventListener("close", () => box.open || decide(box.returnValue === "ok")); // told late: it may be open again
function dialog(title, content, action, agreed = () => true) {
  decide(false);
  const ok = document.getElementById("dialog-ok");
  document.getElementById("dialog-title").textContent = title;
  document.getElementById("dialog-body").replaceChildren(...content);
  ok.hidden = !action;
  ok.textContent = action || "";
  ok.disabled = !agreed();
  box.oninput = () => (ok.disabled = !agreed());
  box.returnValue = "";
  if (!box.open) box.showModal();
  return new Promise((done) => (decide = done));
}

// Shows that something is under way, for as long as no other dialog takes its place; closing it ends nothing.
function working(title, note) {
  const bar = document.createElement("progress");
  const line = text("p", note, "quiet");
  bar.setAttribute("aria-label", title);
  dialog(title, [bar, line], "");
  return (done, all) => {
    Object.assign(bar, { max: all, value: done });
    line.textContent = `${done.toLocaleString("en")} of ${all.toLocaleString("en")}`;
  };
}

async function steer(panel, what, lane) {
  const base = api(panel.dataset.live);
  const whom = lane ? `lane ${lane}` : "all lanes";
  const warning = "Nothing is delivered until it is resumed, whatever is restarted. What required sinks have not acked, the source keeps meanwhile.";
  if (what === "pause" && !(await dialog(`Pause ${whom}?`, [text("p", warning)], "Pause"))) return;
  try {
    const made = await act(`${base}${lane ? `/lanes/${encodeURIComponent(lane)}` : ""}/${what}`);
    const asked = made.items ?? [{ lane, id: made.id }];
    const tell = working(what === "pause" ? `Pausing ${whom}` : `Resuming ${whom}`, "Waiting for the answer…");
    for (const [at, each] of asked.entries()) {
      tell(at, asked.length);
      await answered(`${base}/lanes/${encodeURIComponent(each.lane)}/requests/${each.id}`, 60, "The lane has not answered. Is the processor running?");
    }
    box.close();
    await refresh();
  } catch (error) {
    await dialog("It was not done", [text("p", error.message)]);
  }
}

// Until what was asked for is done; says why where it was refused, and `late` after so many seconds.
async function answered(url, seconds, late) {
  for (const until = Date.now() + seconds * 1000; Date.now() < until; await pause(300)) {
    const told = await ask(url);
    if (told.result === "refused") throw new Error(`${told.message}. ${told.remedy}`);
    if (told.result === "done") return;
  }
  throw new Error(late);
}

async function snapshots(panel) {
  const list = panel.querySelector("[data-list]");
  try {
    const html = await ask(`/ui/pipelines/${encodeURIComponent(panel.dataset.snapshots)}/snapshots`);
    if (html === panel.last) return;
    panel.last = html;
    const fresh = document.createElement("div");
    fresh.innerHTML = html; // rendered and escaped by the server
    fresh.setAttribute("data-list", "");
    morph(list, fresh);
  } catch (error) {
    list.replaceChildren(text("p", error.message, "problem"));
    panel.last = "";
  }
}

function field(id, label, hint) {
  const input = Object.assign(document.createElement("input"), { id, autocomplete: "off", spellcheck: false, placeholder: hint });
  const named = text("label", label);
  named.htmlFor = id;
  return [named, input];
}

async function askSnapshot(panel, path, body, failed) {
  const base = `${api(panel.dataset.snapshots)}/snapshots`;
  try {
    const made = await act(base + path, body);
    await answered(`${base}/requests/${made.id}`, 30, "The reader has not answered. Does it run?");
    await snapshots(panel);
  } catch (error) {
    await dialog(failed, [text("p", error.message)]);
  }
}

async function startSnapshot(panel) {
  const [label, input] = field("tables", "Tables, with commas between; empty: all that are published.", "schema.table");
  if (!(await dialog("Start a snapshot", [label, input], "Start"))) return;
  const tables = input.value.split(",").map((each) => each.trim()).filter(Boolean);
  await askSnapshot(panel, "", { tables }, "It was not started");
}

async function changeSnapshot(panel, what, id) {
  const warning = [text("p", "What is not read yet is not sent. What has been read stays where it is.")];
  if (what === "cancel" && !(await dialog("End this snapshot?", warning, "End it"))) return;
  await askSnapshot(panel, `/${id}/${what}`, undefined, "It was not done");
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
  const panel = button?.closest("[data-live], [data-events], [data-snapshots]");
  if (!panel) return;
  if (button.dataset.steer) steer(panel, button.dataset.steer, button.dataset.lane);
  else if ("follow" in button.dataset) follow(panel);
  else if ("start" in button.dataset) startSnapshot(panel);
  else if (button.dataset.ask) changeSnapshot(panel, button.dataset.ask, button.dataset.of);
});
for (const panel of document.querySelectorAll("[data-snapshots]")) {
  snapshots(panel);
  setInterval(() => document.hidden || snapshots(panel), 2000);
}
document.addEventListener("visibilitychange", refresh);
setTimeout(keep, 1000);
