"use strict";
// Drop of a file, progress, and roles that apply at once. Everything also works without this script.

function dropFiles() {
  const form = document.getElementById("drop");
  if (!form) return;
  const input = form.querySelector("input[type=file]");
  const status = document.getElementById("drop-status");
  function send() {
    if (!input.files.length) return;
    status.textContent = `Opening ${[...input.files].map((file) => file.name).join(", ")} …`;
    form.requestSubmit();
  }
  input.addEventListener("change", send);
  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      form.classList.add("over");
    });
  }
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    input.files = event.dataTransfer.files;
    send();
  });
}

function submitChanges() {
  const form = document.getElementById("setup");
  if (!form) return;
  for (const field of form.querySelectorAll("[data-submit]")) {
    field.addEventListener("change", () => {
      // The page returns to the same place after the change.
      sessionStorage.setItem("place", JSON.stringify([scrollY, field.name]));
      form.requestSubmit();
    });
  }
  for (const field of form.querySelectorAll("[data-question]")) {
    field.addEventListener("input", () => {
      form.elements.question.value = field.dataset.question;
    });
  }
  const place = sessionStorage.getItem("place");
  sessionStorage.removeItem("place");
  if (!place) return;
  const [top, name] = JSON.parse(place);
  const field = form.elements[name];
  if (field && field.focus) field.focus({ preventScroll: true });
  scrollTo(0, top);
}

function addTables() {
  const input = document.getElementById("further");
  if (input) input.addEventListener("change", () => {
    if (input.files.length) input.form.requestSubmit();
  });
}

function inWords(seconds) {
  return seconds < 100 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}

function followProgress() {
  const box = document.querySelector("[data-progress]");
  if (!box) return;
  const text = box.querySelector("#progress-text");
  const bar = box.querySelector("progress");
  const time = box.querySelector("#progress-time");
  let stage = "";
  async function ask() {
    let state;
    try {
      const response = await fetch(box.dataset.progress);
      if (!response.ok) throw new Error(response.statusText);
      state = await response.json();
    } catch {
      time.textContent = "The page cannot be reached. Is prosparse still running?";
      setTimeout(ask, 3000);
      return;
    }
    if (!state.active) {
      location.reload();
      return;
    }
    if (state.stage !== stage) {
      stage = state.stage;
      text.textContent = `${stage[0].toUpperCase()}${stage.slice(1)} …`;
    }
    const count = state.done ? `${state.done.toLocaleString("en")}${state.total ? ` of ${state.total.toLocaleString("en")}` : ""}, ` : "";
    const left = state.remaining === null ? "" : `, about ${inWords(state.remaining)} left in this step`;
    time.textContent = `${count}${inWords(state.seconds)} so far${left}`;
    if (state.total) {
      bar.max = state.total;
      bar.value = state.done;
    } else {
      bar.removeAttribute("value");
    }
    setTimeout(ask, 400);
  }
  ask();
}

dropFiles();
submitChanges();
addTables();
followProgress();
