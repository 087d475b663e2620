"use strict";
(() => {
  const graph = JSON.parse(document.getElementById("graph").textContent);
  const canvas = document.getElementById("picture"), pen = canvas.getContext("2d");
  const search = document.getElementById("search"), panel = document.getElementById("evidence");
  const told = document.getElementById("told"), root = document.documentElement, head = document.querySelector("header");

  // -- the graph: nodes know their edges; edges between the same two are bent apart
  const nodes = graph.nodes.map((one, at) => ({ ...one, at, edges: [], vx: 0, vy: 0, fixed: false }));
  const pairs = new Map();
  const edges = graph.edges.map((one) => {
    const edge = { ...one, from: nodes[one.from], to: nodes[one.to] };
    edge.from.edges.push(edge);
    if (edge.to !== edge.from) edge.to.edges.push(edge);
    const key = Math.min(one.from, one.to) + " " + Math.max(one.from, one.to);
    if (!pairs.has(key)) pairs.set(key, []);
    pairs.get(key).push(edge);
    edge.width = Math.min(7, 0.9 + 1.15 * Math.log2(Math.max(1, one.weight)));
    return edge;
  });
  for (const several of pairs.values()) {
    several.forEach((edge, place) => {
      const side = edge.from.at < edge.to.at ? 1 : -1;
      edge.bend = several.length === 1 ? 0 : side * (place - (several.length - 1) / 2) * 34;
    });
  }
  for (const node of nodes) node.radius = 5 + Math.min(15, 2.4 * Math.sqrt(node.edges.length));
  // Sunflower seeds, the best linked in the middle: the same graph always looks the same.
  const byDegree = [...nodes].sort((a, b) => b.edges.length - a.edges.length || a.at - b.at);
  byDegree.forEach((node, rank) => {
    const far = 60 * Math.sqrt(rank + 0.5), turn = rank * 2.39996;
    node.x = far * Math.cos(turn); node.y = far * Math.sin(turn);
  });

  // -- the forces
  let heat = 1;
  function step() {
    const many = nodes.length;
    for (let i = 0; i < many; i++) {
      const one = nodes[i];
      for (let j = i + 1; j < many; j++) {
        const other = nodes[j];
        let dx = one.x - other.x, dy = one.y - other.y, square = dx * dx + dy * dy;
        if (square > 4e6) continue;
        if (square < 1) { dx = (i - j) * 0.01 || 0.01; dy = 0.01; square = 1; }
        const room = one.radius + other.radius + 16, length = Math.sqrt(square);
        // What is linked to much takes more room; discs never overlap, however cool it is.
        let push = (9000 + 500 * Math.min(40, one.edges.length + other.edges.length)) * heat / square;
        if (length < room) push += (room - length) * 0.3;
        dx *= push / length; dy *= push / length;
        one.vx += dx; one.vy += dy; other.vx -= dx; other.vy -= dy;
      }
      // Screens are wide: less holds it together sideways.
      one.vx -= one.x * 0.007 * heat;
      one.vy -= one.y * 0.014 * heat;
    }
    for (const edge of edges) {
      const a = edge.from, b = edge.to;
      if (a === b) continue;
      const dx = b.x - a.x, dy = b.y - a.y, length = Math.sqrt(dx * dx + dy * dy) || 1;
      const wanted = 80 + a.radius + b.radius;
      const pull = (length - wanted) / length * 0.08 * heat;
      const share = b.edges.length / (a.edges.length + b.edges.length);
      a.vx += dx * pull * share; a.vy += dy * pull * share;
      b.vx -= dx * pull * (1 - share); b.vy -= dy * pull * (1 - share);
    }
    for (const node of nodes) {
      const speed = Math.hypot(node.vx, node.vy), most = 40 * heat + 2;
      if (speed > most) { node.vx *= most / speed; node.vy *= most / speed; }
      if (!node.fixed) { node.x += node.vx; node.y += node.vy; }
      node.vx *= 0.6; node.vy *= 0.6;
    }
    heat *= 0.985;
  }

  // -- the view: screen = world * scale + shift
  const view = { scale: 1, x: 0, y: 0 };
  let wide = 0, high = 0, colours = {}, chosen = null, over = null, found = null, moved = false, asked = 0;
  const hidden = new Set();
  const seen = (node) => !hidden.has(node.kind);

  function measure() {
    const sharp = window.devicePixelRatio || 1;
    wide = canvas.clientWidth; high = canvas.clientHeight;
    canvas.width = Math.round(wide * sharp); canvas.height = Math.round(high * sharp);
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    draw();
  }

  function whole() {
    const shown = nodes.filter(seen);
    if (!shown.length) return;
    const left = Math.min(...shown.map((n) => n.x - n.radius - 30)), right = Math.max(...shown.map((n) => n.x + n.radius + 30));
    const top = Math.min(...shown.map((n) => n.y - n.radius - 20)), bottom = Math.max(...shown.map((n) => n.y + n.radius + 26));
    // Beside the panels where there is room for that.
    const margin = wide > 900 ? 280 : 20, behind = panel.hidden || wide < 900 ? 20 : 410;
    // On a narrow screen the head is above it, and the buttons are below.
    const above = wide > 640 ? 0 : head.offsetHeight + 14, below = wide > 640 ? 0 : 56;
    const space = wide - margin - behind, room = high - above - below;
    view.scale = Math.min(1.8, space / (right - left), Math.max(60, room - 30) / (bottom - top));
    view.x = margin + space / 2 - view.scale * (left + right) / 2;
    view.y = above + room / 2 - view.scale * (top + bottom) / 2;
    draw();
  }

  function zoom(factor, x = wide / 2, y = high / 2) {
    const scale = Math.max(0.05, Math.min(8, view.scale * factor)), real = scale / view.scale;
    view.x = x - (x - view.x) * real; view.y = y - (y - view.y) * real;
    view.scale = scale; moved = true;
    draw();
  }

  // -- drawing
  const middle = (edge) => {
    const dx = edge.to.x - edge.from.x, dy = edge.to.y - edge.from.y, length = Math.hypot(dx, dy) || 1;
    return { x: (edge.from.x + edge.to.x) / 2 - dy / length * edge.bend, y: (edge.from.y + edge.to.y) / 2 + dx / length * edge.bend };
  };
  const touches = (edge, thing) => thing && (edge === thing || edge.from === thing || edge.to === thing);
  const beside = (node, thing) => thing && (node === thing || (thing.edges ? thing.edges.some((e) => e.from === node || e.to === node)
    : thing.from === node || thing.to === node));

  const important = (node, focus) => (!focus && !found) || (found && found.has(node)) || beside(node, focus);

  function draw() {
    if (!asked) asked = requestAnimationFrame(() => { asked = 0; paint(); });
  }

  function paint() {
    const focus = over || chosen;
    pen.clearRect(0, 0, wide, high);
    pen.save(); pen.translate(view.x, view.y); pen.scale(view.scale, view.scale);
    for (const edge of edges) {
      if (!seen(edge.from) || !seen(edge.to)) continue;
      const lit = touches(edge, focus);
      pen.globalAlpha = lit ? 1 : focus || found ? 0.16 : 0.6;
      pen.strokeStyle = lit ? colours.mark : colours.edge;
      pen.lineWidth = edge.width;
      const m = middle(edge);
      pen.beginPath();
      if (edge.from === edge.to) pen.arc(edge.from.x, edge.from.y - edge.from.radius - 7, 9, 0, 7);
      else { pen.moveTo(edge.from.x, edge.from.y); pen.quadraticCurveTo(2 * m.x - (edge.from.x + edge.to.x) / 2, 2 * m.y - (edge.from.y + edge.to.y) / 2, edge.to.x, edge.to.y); }
      pen.stroke();
      if (lit || view.scale > 0.6) arrow(edge, m);
    }
    for (const node of nodes) {
      if (!seen(node)) continue;
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc(node.x, node.y, node.radius, 0, 7);
      pen.fillStyle = colours.ground;
      pen.fill();  // no edge shines through a faint disc
      pen.globalAlpha = important(node, focus) ? 1 : 0.22;
      pen.fillStyle = colours[node.kind] || colours.Thing;
      pen.fill();
      pen.lineWidth = node === chosen ? 3 : found && found.has(node) ? 3 : 1.5;
      pen.strokeStyle = node === chosen ? colours.ink : found && found.has(node) ? colours.mark : colours.ground;
      pen.stroke();
    }
    pen.restore();
    label(focus);
  }

  function arrow(edge, m) {
    const controlX = 2 * m.x - (edge.from.x + edge.to.x) / 2, controlY = 2 * m.y - (edge.from.y + edge.to.y) / 2;
    if (edge.from === edge.to) return;
    const turn = Math.atan2(edge.to.y - controlY, edge.to.x - controlX), size = 5 + edge.width;
    const x = edge.to.x - Math.cos(turn) * (edge.to.radius + 2), y = edge.to.y - Math.sin(turn) * (edge.to.radius + 2);
    pen.fillStyle = pen.strokeStyle;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x - size * Math.cos(turn - 0.45), y - size * Math.sin(turn - 0.45));
    pen.lineTo(x - size * Math.cos(turn + 0.45), y - size * Math.sin(turn + 0.45));
    pen.fill();
  }

  // Names are drawn on the screen's scale, the best linked first, and only where there is room.
  function label(focus) {
    const taken = [];
    const write = (text, x, y, { bold = false, faint = false, must = false, turn = 0 } = {}) => {
      if (x < -100 || y < -20 || x > wide + 100 || y > high + 20) return;
      const short = text.length > 34 ? text.slice(0, 33) + "…" : text;
      pen.font = `${bold ? "600 " : ""}${faint ? 11 : 12.5}px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`;
      const half = pen.measureText(short).width / 2 + 3, across = Math.abs(Math.cos(turn)), down = Math.abs(Math.sin(turn));
      const w = half * across + 9 * down, h = half * down + 9 * across, box = [x - w, y - h, x + w, y + h];
      if (!must && taken.some((b) => b[0] < box[2] && b[2] > box[0] && b[1] < box[3] && b[3] > box[1])) return;
      taken.push(box);
      pen.lineWidth = 3.5; pen.lineJoin = "round";
      pen.strokeStyle = colours.ground; pen.fillStyle = faint ? colours.faint : colours.ink;
      pen.save(); pen.translate(x, y); pen.rotate(turn);
      pen.strokeText(short, 0, 0); pen.fillText(short, 0, 0);
      pen.restore();
    };
    pen.textAlign = "center"; pen.textBaseline = "middle"; pen.globalAlpha = 1;
    const order = byDegree.filter(seen);
    const lights = new Set(order.filter((node) => important(node, focus)));
    order.sort((a, b) => (b === focus) - (a === focus) || lights.has(b) - lights.has(a));
    for (const node of order) {
      pen.globalAlpha = lights.has(node) ? 1 : 0.25;
      const y = node.y * view.scale + view.y + node.radius * view.scale + 11;
      write(node.name, node.x * view.scale + view.x, y, { bold: node === chosen || node === over, must: node === chosen || node === over });
    }
    pen.globalAlpha = 1;
    for (const edge of edges) {
      if (!seen(edge.from) || !seen(edge.to) || !(touches(edge, focus) || (!focus && !found && view.scale > 1.15))) continue;
      const m = middle(edge), dx = edge.to.x - edge.from.x, dy = edge.to.y - edge.from.y, long = Math.hypot(dx, dy) * view.scale;
      // Along its own edge, so that it is not read as the name of another one that passes there; never upside down.
      const turn = Math.atan(dy / (dx || 1e-9));
      if (long > 60 + 5 * edge.name.length) write(edge.name, m.x * view.scale + view.x, m.y * view.scale + view.y, { faint: true, turn });
    }
  }

  // -- what is under the pointer
  const world = (event) => ({ x: (event.offsetX - view.x) / view.scale, y: (event.offsetY - view.y) / view.scale });
  function under(event) {
    const at = world(event), near = 4 / view.scale;
    for (let i = nodes.length - 1; i >= 0; i--) {
      const node = nodes[i];
      if (seen(node) && Math.hypot(node.x - at.x, node.y - at.y) <= node.radius + near) return node;
    }
    let best = null, least = 6 / view.scale;
    for (const edge of edges) {
      if (!seen(edge.from) || !seen(edge.to)) continue;
      const m = middle(edge);
      const far = Math.min(between(at, edge.from, m), between(at, m, edge.to)) - edge.width / 2;
      if (far < least) { least = far; best = edge; }
    }
    return best;
  }
  function between(p, a, b) {
    const dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy || 1;
    const part = Math.max(0, Math.min(1, ((p.x - a.x) * dx + (p.y - a.y) * dy) / square));
    return Math.hypot(p.x - a.x - part * dx, p.y - a.y - part * dy);
  }

  // -- the evidence; everything is text, nothing is markup
  function make(name, text, className) {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }
  const day = (seconds) => (seconds === null ? "undated" : Math.abs(seconds) > 8e12 ? "at no date"
    : new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC");
  function named(node) {
    const button = make("button", node.name, "name");
    button.addEventListener("click", () => choose(node, true));
    return button;
  }
  // Into the middle of what no panel covers, unless it is there already.
  function show(node) {
    const x = node.x * view.scale + view.x, y = node.y * view.scale + view.y;
    const left = wide > 900 ? 280 : 20, right = wide > 900 ? wide - 410 : wide - 20;
    if (x > left && x < right && y > 30 && y < high - 30) return;
    view.x += (left + right) / 2 - x; view.y += high / 2 - y;
    moved = true;
  }
  function choose(thing, centre) {
    chosen = thing;
    panel.hidden = !thing;
    told.replaceChildren();
    if (thing) {
      const list = thing.edges ? [...thing.edges].sort((a, b) => b.weight - a.weight) : [thing];
      told.append(make("h2", thing.edges ? thing.name : thing.text));
      told.append(make("p", thing.edges ? `${thing.kind}, ${list.length} ${list.length === 1 ? "edge" : "edges"} in this picture` : "One edge", "kind"));
      for (const edge of list) {
        const part = make("section"), head = make("h3");
        head.append(named(edge.from), ` ${edge.name} `, named(edge.to));
        const times = edge.weight === 1 ? "one memory says so" : `${edge.weight} memories say so`;
        part.append(head, make("p", edge.seen === null ? times : `${times}, last ${day(edge.seen)}`, "weight"));
        for (const memory of edge.memories) {
          const quote = make("blockquote", memory.text);
          quote.append(make("footer", `${memory.id} · ${day(memory.ts)}`));
          part.append(quote);
        }
        told.append(part);
      }
      panel.scrollTop = 0;
      if (centre && thing.edges) show(thing);
    }
    draw();
  }

  // -- hands on it
  let held = null, last = null, far = 0;
  const fingers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    held = under(event); last = { x: event.offsetX, y: event.offsetY }; far = 0;
    if (held && held.edges) held.fixed = true;
    canvas.className = "held";
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) {
      const now = under(event);
      if (now !== over) { over = now; canvas.className = now ? "over" : ""; draw(); }
      return;
    }
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()], before = Math.hypot(a.x - b.x, a.y - b.y);
      fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      const [c, d] = [...fingers.values()];
      zoom(Math.hypot(c.x - d.x, c.y - d.y) / (before || 1), (c.x + d.x) / 2, (c.y + d.y) / 2);
      far = 99;
      return;
    }
    const dx = event.offsetX - last.x, dy = event.offsetY - last.y;
    far += Math.abs(dx) + Math.abs(dy);
    last = { x: event.offsetX, y: event.offsetY };
    fingers.set(event.pointerId, last);
    moved = true;
    if (held && held.edges) {
      const at = world(event);
      held.x = at.x; held.y = at.y;
      if (far > 4) { heat = Math.max(heat, 0.25); run(); }
    } else { view.x += dx; view.y += dy; }
    draw();
  });
  const release = (event) => {
    fingers.delete(event.pointerId);
    if (held && held.edges) held.fixed = false;
    if (last && far < 5 && event.type === "pointerup") choose(held, false);
    held = null; last = null; canvas.className = "";
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { over = null; draw(); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
  }, { passive: false });

  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  search.addEventListener("input", () => {
    const wanted = plain(search.value.trim());
    found = wanted ? new Set(nodes.filter((node) => plain(node.name).includes(wanted))) : null;
    draw();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !found || !found.size) return;
    const first = byDegree.find((node) => found.has(node));
    found = null;
    choose(first, true);
  });
  const escape = () => { search.value = ""; found = null; choose(null, false); };
  const press = { "Escape": escape, "+": () => zoom(1.3), "-": () => zoom(1 / 1.3), "0": whole, "d": () => shade(root.dataset.shade !== "dark") };
  document.addEventListener("keydown", (event) => {
    if ((event.target !== search || event.key === "Escape") && !event.ctrlKey && !event.metaKey && press[event.key]) press[event.key]();
  });
  for (const [id, act] of [["closer", "+"], ["farther", "-"], ["whole", "0"], ["shade", "d"], ["close", "Escape"]]) {
    document.getElementById(id).addEventListener("click", () => press[act]());
  }

  function shade(dark) {
    root.dataset.shade = dark ? "dark" : "light";
    const style = getComputedStyle(root);
    for (const name of ["ground", "ink", "faint", "edge", "mark", "Person", "Place", "Organisation", "Thing"]) {
      colours[name] = style.getPropertyValue("--" + name).trim();
    }
    for (const dot of document.querySelectorAll("#legend i")) dot.style.background = colours[dot.dataset.kind];
    draw();
  }

  const kinds = ["Person", "Organisation", "Place", "Thing"].filter((kind) => nodes.some((node) => node.kind === kind));
  for (const kind of kinds) {
    const item = make("li"), button = make("button"), dot = make("i");
    dot.dataset.kind = kind;
    button.append(dot, `${kind} ${nodes.filter((node) => node.kind === kind).length}`);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const show = hidden.delete(kind);
      if (!show) hidden.add(kind);
      button.setAttribute("aria-pressed", String(show));
      draw();
    });
    item.append(button);
    document.getElementById("legend").append(item);
  }
  const count = (many, one, more) => `${many.toLocaleString("en")} ${many === 1 ? one : more}`;
  document.getElementById("summary").textContent =
    `${count(nodes.length, "entity", "entities")}, ${count(edges.length, "edge", "edges")}${graph.cut ? " (there are more)" : ""}`;

  let running = false;
  function run() {
    if (running) return;
    running = true;
    const turn = () => {
      step();
      if (!moved) whole();
      draw();
      if (heat > 0.02) requestAnimationFrame(turn);
      else running = false;
    };
    requestAnimationFrame(turn);
  }
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => shade(dark.matches));
  new ResizeObserver(() => { measure(); if (!moved) whole(); }).observe(canvas);
  shade(dark.matches);
  // Most of the way before the first picture, for half a second at most; the rest can be watched.
  const began = performance.now();
  while (heat > 0.1 && performance.now() - began < 500) step();
  measure(); whole(); run();
  root.dataset.drawn = String(nodes.length);
})();
