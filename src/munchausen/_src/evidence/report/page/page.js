// The page: what is chosen, and what is drawn of it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const styles = Object.fromEntries(data.agents.map((agent, i) => [agent, lineStyle(i)]));
  const shown = new Set(data.agents);
  const chosen = () => data.agents.filter((agent) => shown.has(agent));
  const comparison = () => data.comparisons[Number($("baseline").value || 0)];
  const game = () => data.games[Number($("game").value || 0)];

  const series = (agents, x, pick) => agents.map((name) => ({ name, style: styles[name], x, ...pick(name) })).filter((s) => s.mean);

  function fill(select, options) {
    select.replaceChildren(...options.map(([value, text]) => html("option", { value }, text)));
  }

  function drawSummary() {
    document.querySelectorAll(".summary[data-comparison]").forEach((node) => {
      node.hidden = node.dataset.comparison !== ($("baseline").value || "0");
    });
    const host = $("estimates"), c = comparison();
    host.replaceChildren();
    const agents = chosen().filter((agent) => c.estimates[agent]);
    if (!agents.length) return;
    const titles = [["iqm", "interquartile mean"], ["median", "median"], ["mean", "mean"], ["optimality_gap", "optimality gap"]];
    const boxes = titles.map(([, title]) => html("div", {}, html("h3", {}, title)));
    host.append(...boxes); // all of them first: only then is the width of each known
    titles.forEach(([key, title], i) => intervalChart(boxes[i], title, agents.map((name) => {
      const [value, low, high] = c.estimates[name][key];
      return { name, style: styles[name], value, low, high };
    })));
  }

  function drawAggregate() {
    const c = comparison(), statistic = $("statistic").value;
    const fraction = c.unit === "fraction of training";
    lineChart($("aggregate"), {
      series: series(chosen().filter((a) => c.aggregates[a]), c.steps, (a) => c.aggregates[a][statistic]),
      xName: c.unit, yName: `${c.baseline}-normalised score`, yText: percent, exact: percent,
      xText: fraction ? percent : brief, lines: [[c.baseline, 1]],
    });
  }

  function curveSpec(g, column, small) {
    const withRuns = $("runs").checked && !small;
    return {
      series: series(chosen().filter((a) => g.curves[a]), g.steps, (a) => {
        const { runs, ...curve } = g.curves[a][column] || {};
        return withRuns && runs ? { ...curve, low: null, high: null, runs } : curve;
      }),
      xName: g.unit, yName: column, log: $("scale").value === "log", small,
      lines: column === "score" && !small ? Object.entries(g.references) : [],
    };
  }

  function drawCurve() {
    const column = $("column").value;
    lineChart($("curve"), curveSpec(game(), column, false));
    markGame();
  }

  function markGame() {
    for (const node of $("grid").children)
      node.setAttribute("aria-pressed", String(node.dataset.game === $("game").value));
  }

  function drawGap() {
    $("gaps").hidden = !data.columns.some(([key]) => key === "action_gap");
    if ($("gaps").hidden) return;
    $("gap-game").textContent = game().name;
    lineChart($("gap"), { ...curveSpec(game(), "action_gap", false), log: false, lines: [] });
    const g = game(), agents = Object.keys(g.gaps).filter((a) => shown.has(a));
    $("along").hidden = !Object.keys(g.gaps).length;
    if ($("along").hidden) return;
    lineChart($("trajectories"), {
      series: agents.map((name) => {
        const mean = g.gaps[name], last = Math.max(mean.length - 1, 1);
        return { name, style: styles[name], mean, x: mean.map((_, i) => Math.round((i * (g.gapLength[name] - 1)) / last)) };
      }),
      xName: "step of the episode", yName: "action gap",
    });
  }

  // Many charts are drawn as they come into view.
  const arrivals = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawSmall(entry.target);
  }, { rootMargin: "200px" });

  function drawSmall(node) {
    arrivals.unobserve(node);
    lineChart(node.lastElementChild, curveSpec(data.games[Number(node.dataset.game)], $("column").value, true));
  }

  function drawGrid() {
    const wanted = $("find").value.trim().toLowerCase();
    const host = $("grid");
    if (!host.childElementCount)
      data.games.forEach((g, i) => {
        const node = html("button", { class: "small", type: "button", "data-game": i }, html("h3", {}, g.name), html("div"));
        node.addEventListener("click", () => {
          $("game").value = String(i);
          drawCurve(); drawGap();
          $("curves").scrollIntoView({ behavior: "smooth" });
        });
        host.append(node);
      });
    for (const node of host.children) {
      const g = data.games[Number(node.dataset.game)];
      node.hidden = !g.full.toLowerCase().includes(wanted);
      if (data.games.length <= 12) drawSmall(node);
      else {
        arrivals.unobserve(node);
        arrivals.observe(node);
      }
    }
    markGame();
  }

  function drawBars() {
    const subject = $("subject").value, against = $("against").value;
    const bars = [];
    for (const g of data.games) {
      const a = g.final[subject], r = g.references.random;
      const b = against in g.final ? g.final[against] : g.references[against];
      if ([a, b, r].some((v) => v === undefined || v === null) || b === r) continue;
      bars.push({ name: g.name, value: (a - b) / Math.abs(b - r) });
    }
    bars.sort((p, q) => q.value - p.value);
    $("improved").textContent = bars.length ? `better on ${bars.filter((b) => b.value > 0).length} of ${bars.length} games` : "";
    barChart($("bars"), bars);
  }

  function drawProfiles() {
    const c = comparison();
    lineChart($("profile"), {
      series: series(chosen().filter((a) => c.profiles[a]), c.levels, (a) => c.profiles[a]),
      xName: `${c.baseline}-normalised score`, yName: "fraction of runs", xText: percent, yText: percent, exact: percent,
    });
  }

  function drawCompared() {
    if (!data.comparisons.length) return;
    drawSummary(); drawAggregate(); drawProfiles();
  }
  function drawAll() {
    drawCompared(); drawCurve(); drawGap(); drawBars();
    if ($("all-games").open) drawGrid();
  }

  function sortable(table) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.firstElementChild.addEventListener("click", () => {
        const down = head.ariaSort !== "descending";
        for (const other of table.tHead.rows[0].cells) other.ariaSort = "none";
        head.ariaSort = down ? "descending" : "ascending";
        const key = (row) => row.cells[column].dataset.value;
        const rows = [...body.rows].sort((a, b) => {
          const [p, q] = [key(a), key(b)];
          if (p !== undefined && q !== undefined) return Number(p) - Number(q);
          if (p !== undefined || q !== undefined) return p !== undefined ? 1 : -1;
          return b.cells[column].textContent.localeCompare(a.cells[column].textContent);
        });
        body.append(...(down ? rows.reverse() : rows));
      });
    });
  }

  function begin() {
    data.agents.forEach((agent) => {
      const mark = element("svg", { width: 18, height: 8 }, element("line", { x1: 0, x2: 18, y1: 4, y2: 4, stroke: styles[agent].color, "stroke-width": 3, "stroke-dasharray": styles[agent].dash }));
      const chip = html("button", { class: "chip", type: "button", "aria-pressed": "true" }, mark, html("span", {}, agent));
      chip.title = agent;
      chip.addEventListener("click", () => {
        if (!shown.delete(agent)) shown.add(agent);
        chip.setAttribute("aria-pressed", String(shown.has(agent)));
        drawAll();
      });
      $("agents").append(chip);
    });
    fill($("baseline"), data.comparisons.map((c, i) => [i, c.baseline]));
    $("baseline-label").hidden = data.comparisons.length < 1;
    for (const id of ["summary", "training", "profiles"]) $(id).hidden = !data.comparisons.length;
    fill($("game"), data.games.map((g, i) => [i, g.name]));
    fill($("column"), data.columns);
    const references = Object.keys(data.games[0]?.references || {}).filter((name) => name !== "random");
    fill($("subject"), data.agents.map((a) => [a, a]));
    fill($("against"), [...references, ...data.agents].map((a) => [a, a]));
    const first = data.comparisons[0]?.baseline ?? data.agents[0];
    const munchausen = data.agents.filter((a) => a.toLowerCase().startsWith("m-"));
    $("subject").value = (munchausen.length ? munchausen : data.agents).at(-1);
    $("against").value = data.comparisons.at(-1)?.baseline ?? first;
    $("improvement").hidden = !data.games.some((g) => g.references.random !== undefined && g.references.random !== null);
    $("runs-label").hidden = !data.games.some((g) => Object.values(g.curves).some((c) => c.score.runs));
    $("baseline").addEventListener("change", drawCompared);
    $("statistic").addEventListener("change", drawAggregate);
    $("game").addEventListener("change", () => { drawCurve(); drawGap(); });
    for (const id of ["column", "scale", "runs"]) $(id).addEventListener("change", () => { drawCurve(); drawGap(); if ($("all-games").open) drawGrid(); });
    $("find").addEventListener("input", drawGrid);
    $("all-games").addEventListener("toggle", () => { if ($("all-games").open) drawGrid(); });
    for (const id of ["subject", "against"]) $(id).addEventListener("change", drawBars);
    $("theme").addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
    document.querySelectorAll("table").forEach(sortable);
    $("all-games").hidden = data.games.length < 2;
    if (data.games.length > 1 && data.games.length <= 12) $("all-games").open = true;
    drawAll();
    let width = window.innerWidth, waiting = 0;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return; // a phone's address bar came or went
      width = window.innerWidth;
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(drawAll);
    });
  }
  begin();
})();
