// Makes the chat page smoother: answers stream in, and nothing reloads. Without it, every form works by itself.
"use strict";

const list = document.getElementById("history");
const notices = document.getElementById("notices");
const composer = document.getElementById("composer");
const box = document.getElementById("message");
const send = document.getElementById("send");

function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function notify(role, text) {
  const kind = role !== "alert" ? "notice" : text === unreachable ? "alert unreachable" : "alert";
  notices.replaceChildren(element("p", { class: kind, role }, text));
}

// append shows one message; identify gives it, once known, its id and with it the button that forgets it.
function append(role, text) {
  const item = element("li", { class: "message " + role, "aria-label": role === "user" ? "You" : "Assistant" },
    element("p", { class: "text", dir: "auto" }, text));
  list.append(item);
  item.scrollIntoView({ block: "nearest" });
  return item;
}

function identify(item, id) {
  item.dataset.id = id;
  if (!item.classList.contains("user")) return;
  item.append(element("form", { method: "post", action: "/api/forget" },
    element("input", { type: "hidden", name: "id", value: id }),
    element("button", { type: "submit", class: "forget quiet", "aria-label": "Forget this message", title: "Forget this message" }, "Forget")));
}

const unreachable = "The chat cannot be reached. What you asked for may not have been done.";

// request posts fields and gives the body of the response if it succeeded; an error says what the user is to be told.
// piece, if given, is called with each line of the body as it comes. (It is no fetch: Chromium now and then reports a
// fetch whose stream was read to its end as aborted, and who watches the network could not tell that from a failure.)
function request(path, accept, fields, piece) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    let read = 0;
    xhr.open("POST", path);
    xhr.setRequestHeader("Accept", accept);
    xhr.onprogress = () => {
      if (!piece || xhr.status !== 200) return;
      for (let end; (end = xhr.responseText.indexOf("\n", read)) >= 0; read = end + 1) piece(JSON.parse(xhr.responseText.slice(read, end)));
    };
    xhr.onload = () => {
      if (xhr.status === 200) return resolve(xhr.responseText);
      if (xhr.status === 401) location.assign("/login");
      let message = unreachable;
      try { message = JSON.parse(xhr.responseText).error; } catch { /* not ours */ }
      reject(new Error(message));
    };
    xhr.onerror = () => reject(new Error(unreachable));
    xhr.send(new URLSearchParams(fields));
  });
}

composer.addEventListener("submit", async (event) => {
  event.preventDefault();
  const message = box.value;
  if (send.disabled || !message.trim()) return;
  send.disabled = true;
  notices.replaceChildren();
  box.value = "";
  const mine = append("user", message);
  mine.classList.add("pending");
  let answer = null;
  let id = "";
  try {
    await request("/api/chat", "application/x-ndjson", { message }, (line) => {
      if (line.answer) {
        answer ??= append("assistant", "");
        answer.querySelector(".text").append(line.answer);
      }
      if (line.done) id = line.id;
    });
    if (!id) throw new Error("The connection broke before the answer ended. Your message may not have been saved.");
    mine.classList.remove("pending");
    identify(mine, id);
    identify(answer, id);
    echo();
  } catch (error) {
    mine.remove();
    answer?.remove();
    box.value = message;
    notify("alert", error.message);
  } finally {
    send.disabled = false;
    box.focus();
  }
});

// Enter sends; Shift+Enter makes a new line, and so does Enter while an input method composes.
box.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  composer.requestSubmit();
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.getAttribute("action") !== "/api/forget") return;
  event.preventDefault();
  try {
    const { forgotten, notice } = JSON.parse(await request("/api/forget", "application/json", new FormData(form)));
    const gone = new Set(forgotten);
    for (const item of [...list.children]) if (gone.has(item.dataset.id)) item.remove();
    notify("status", notice);
    echo();
  } catch (error) {
    notify("alert", error.message);
  }
  box.focus();
});

// Older messages come in above the others; without JavaScript the link leads to a page of its own.
document.addEventListener("click", async (event) => {
  if (event.target.id !== "older") return;
  event.preventDefault();
  const link = event.target;
  try {
    const response = await fetch(link.href);
    if (!response.ok) throw new Error();
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    list.prepend(...page.getElementById("history").children);
    const next = page.getElementById("older");
    if (next) link.href = next.href;
    else link.parentElement.remove();
  } catch {
    notify("alert", "The older messages cannot be reached.");
  }
});

// The planted bug local-echo: the page keeps the history in the browser and, next time, shows that and not the server's.
const echoKey = document.body.dataset.localEcho && "history of " + document.body.dataset.localEcho;

function echo() {
  if (!echoKey) return;
  localStorage.setItem(echoKey, JSON.stringify([...list.children].map((item) => ({
    id: item.dataset.id,
    role: item.classList.contains("user") ? "user" : "assistant",
    text: item.querySelector(".text").textContent,
  }))));
}

if (echoKey && localStorage.getItem(echoKey)) {
  list.replaceChildren();
  document.getElementById("older")?.parentElement.remove();
  for (const { id, role, text } of JSON.parse(localStorage.getItem(echoKey))) identify(append(role, text), id);
}
echo();
list.lastElementChild?.scrollIntoView({ block: "nearest" });
