// Charts over steps. They share one cursor, one visible range and the marks of events. dygraphs
// lays out, scales and draws. This file handles pointer and keys, so that a finger still scrolls
// the page and all charts move together.

import {count} from './format.js';
import {STACK, toneOf} from './model.js';

// The page has its own legend. The legend of dygraphs uses inline styles, which the page's content
// security policy forbids.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

const color = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
// As a CSS value.
export const phaseColor = (name) => `var(--phase-${name})`;
const centre = (row) => row.step + (row.steps - 1) / 2;
const end = (row) => row.step + row.steps - 0.5;

// The shared state of the charts. Calls `onChange` when the reader moves the cursor or changes the
// range.
export class Timeline {
  constructor(onChange) {
    this.rows = [];
    this.marks = [];      // {step, kind}; events before the first step have no mark
    this.window = null;   // [from, to] in steps while zoomed
    this.cursor = null;   // index of a row
    this.charts = [];
    this.onChange = onChange;
  }

  // Takes rows of model.js. The cursor stays on its step even if rows merge.
  update(rows, marks) {
    const step = this.cursor === null ? null : this.rows[this.cursor].step;
    this.rows = rows;
    this.marks = marks.filter((mark) => Number.isFinite(mark.step) && mark.step > 0);
    this.cursor = step === null || rows.length === 0 ? null : this.nearest(step);
    this.draw();
  }

  draw() {
    for (const chart of this.charts) chart.draw();
  }

  whole() {
    if (this.rows.length === 0) return [-0.5, 0.5];
    const lasts = [...this.marks.map((mark) => mark.step + 0.5), end(this.rows.at(-1))];
    return [this.rows[0].step - 0.5, Math.max(...lasts)];
  }

  range() {
    return this.window || this.whole();
  }

  visible() {
    const [from, to] = this.range();
    return this.rows.filter((row) => end(row) > from && row.step - 0.5 < to);
  }

  // Index of the row that holds `step`, or the nearest one.
  nearest(step) {
    let low = 0;
    let high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end(this.rows[middle]) < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  moveCursor(index) {
    if (this.rows.length === 0) index = null;
    if (index === this.cursor) return;
    this.cursor = index;
    for (const chart of this.charts) chart.placeCursor();
    this.onChange();
  }

  zoom(from, to) {
    const [first, last] = this.whole();
    const range = [Math.max(first, from), Math.min(last, to)];
    if (range[1] - range[0] < 2) return;
    this.window = range[0] === first && range[1] === last ? null : range;
    this.draw();
    this.onChange();
  }

  showAll() {
    this.window = null;
    this.draw();
    this.onChange();
  }
}

// One chart. `spec`:
//   columns          returns functions from a row to a value
//   colors           returns the colors of the columns
//   format           formats a value on the axis
//   range            returns [lowest, highest] for the visible rows
//   bars             whether all columns except the last are the tops of a stack, highest first
//   label, describe  texts for screen readers
export class StepChart {
  constructor(element, spec, timeline) {
    this.element = element;
    this.spec = spec;
    this.timeline = timeline;
    this.plot = element.appendChild(document.createElement('div'));
    this.plot.className = 'plot';
    this.line = element.appendChild(document.createElement('div'));
    this.line.className = 'cursor';
    this.selection = element.appendChild(document.createElement('div'));
    this.selection.className = 'selection';
    element.setAttribute('role', 'slider');
    element.setAttribute('aria-label', spec.label);
    element.tabIndex = 0;
    this.listen();
    timeline.charts.push(this);
  }

  draw() {
    const {rows} = this.timeline;
    this.element.classList.toggle('empty', rows.length === 0);
    if (rows.length === 0) return this.clear();
    const columns = this.spec.columns();
    const options = {
      file: rows.map((row) => [centre(row), ...columns.map((column) => column(row))]),
      labels: ['step', ...columns.map((_, index) => `series ${index}`)],
      dateWindow: this.timeline.range(),
      valueRange: this.spec.range(this.timeline.visible()),
      colors: this.spec.colors(),
      gridLineColor: color('line'),
      axisLineColor: color('line'),
    };
    if (this.graph) this.graph.updateOptions(options);
    else this.create(options);
    this.placeCursor();
  }

  // Removes the lines of a run before. dygraphs would draw them again if the window changes.
  clear() {
    if (this.graph) this.graph.destroy();
    this.graph = undefined;
    this.line.hidden = true;
    for (const name of ['min', 'max', 'now', 'text']) {
      this.element.removeAttribute(`aria-value${name}`);
    }
  }

  create(options) {
    const {file, ...rest} = options;
    this.graph = new Dygraph(this.plot, file, {
      ...rest,
      legend: 'never',
      showLabelsOnHighlight: false,
      highlightCircleSize: 0,
      interactionModel: {},
      strokeWidth: 1.5,
      gridLineWidth: 1,
      resizable: 'passive',
      axisLabelFontSize: 11,
      ...(this.spec.bars ? {plotter: (event) => this.plotStack(event)} : {}),
      underlayCallback: (context, area, graph) => this.drawMarks(context, area, graph),
      axes: {
        x: {
          drawGrid: false,
          pixelsPerLabel: 64,
          axisLabelFormatter: (step) => (Number.isInteger(step) ? count(step) : ''),
        },
        y: {
          axisLabelWidth: 58,
          pixelsPerLabel: 26,
          axisLabelFormatter: (value) => (value === 0 ? '0' : this.spec.format(value)),
        },
      },
    });
  }

  // dygraphs calls this for each column, the highest of the stack first. Lower columns are drawn
  // over higher ones.
  plotStack(event) {
    const {drawingContext: context, dygraph: graph, points, plotArea} = event;
    context.fillStyle = event.color;
    context.strokeStyle = event.color;
    if (event.seriesIndex === event.seriesCount - 1) {
      this.plotEnvelope(context, graph, points);
      return;
    }
    const bottom = graph.toDomYCoord(0);
    for (const point of points) {
      const row = this.timeline.rows[point.idx];
      const left = Math.round(graph.toDomXCoord(row.step - 0.5));
      const right = Math.round(graph.toDomXCoord(end(row)));
      const gap = right - left >= 4 ? 1 : 0;
      const top = Math.max(point.canvasy, plotArea.y);
      context.fillRect(left, top, Math.max(1, right - left - gap), bottom - top);
    }
  }

  // Draws the longest iteration of any rank as a step line.
  plotEnvelope(context, graph, points) {
    context.lineWidth = 1;
    context.beginPath();
    for (const point of points) {
      const row = this.timeline.rows[point.idx];
      const y = Math.max(Math.round(point.canvasy) + 0.5, 1);
      context.lineTo(graph.toDomXCoord(row.step - 0.5), y);
      context.lineTo(graph.toDomXCoord(end(row)), y);
    }
    context.stroke();
  }

  drawMarks(context, area, graph) {
    for (const {step, kind} of this.timeline.marks) {
      const x = Math.round(graph.toDomXCoord(step)) + 0.5;
      if (x < area.x || x > area.x + area.w) continue;
      context.strokeStyle = color(`tone-${toneOf(kind)}`);
      context.fillStyle = context.strokeStyle;
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(x, area.y);
      context.lineTo(x, area.y + area.h);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(x - 5, area.y);
      context.lineTo(x + 5, area.y);
      context.lineTo(x, area.y + 7);
      context.fill();
    }
  }

  placeCursor() {
    const row = this.timeline.rows[this.timeline.cursor];
    const last = this.timeline.rows.at(-1);
    if (last === undefined || !this.graph) return;
    const shown = row || last;
    const label = shown.steps > 1 ? `steps ${shown.step} to ${shown.step + shown.steps - 1}`
                                  : `step ${shown.step}`;
    this.element.setAttribute('aria-valuemin', this.timeline.rows[0].step);
    this.element.setAttribute('aria-valuemax', last.step);
    this.element.setAttribute('aria-valuenow', shown.step);
    this.element.setAttribute('aria-valuetext', `${label}: ${this.spec.describe(shown)}`);
    this.line.hidden = row === undefined;
    if (row) this.line.style.left = `${this.graph.toDomXCoord(centre(row))}px`;
  }

  stepAt(event) {
    return this.graph.toDataXCoord(event.clientX - this.element.getBoundingClientRect().left);
  }

  listen() {
    const {element} = this;
    element.addEventListener('pointermove', (event) => this.onMove(event));
    element.addEventListener('pointerdown', (event) => this.onDown(event));
    element.addEventListener('pointerup', (event) => this.onUp(event));
    element.addEventListener('pointercancel', () => this.endDrag());
    element.addEventListener('pointerleave', () => this.timeline.moveCursor(null));
    element.addEventListener('dblclick', () => this.timeline.showAll());
    element.addEventListener('keydown', (event) => this.onKey(event));
    element.addEventListener('blur', () => this.timeline.moveCursor(null));
  }

  onMove(event) {
    if (!this.graph) return;
    this.timeline.moveCursor(this.timeline.nearest(this.stepAt(event)));
    if (this.dragFrom === undefined) return;
    const left = Math.min(this.dragFrom, event.clientX);
    this.selection.style.left = `${left - this.element.getBoundingClientRect().left}px`;
    this.selection.style.width = `${Math.abs(event.clientX - this.dragFrom)}px`;
  }

  onDown(event) {
    if (!this.graph || event.pointerType !== 'mouse' || event.button !== 0) return;
    this.dragFrom = event.clientX;
    this.dragFromStep = this.stepAt(event);
    this.element.setPointerCapture(event.pointerId);
  }

  onUp(event) {
    if (this.dragFrom === undefined) return;
    const dragged = Math.abs(event.clientX - this.dragFrom) > 5;
    const from = this.dragFromStep;
    this.endDrag();
    const to = this.stepAt(event);
    if (dragged) this.timeline.zoom(Math.min(from, to), Math.max(from, to));
  }

  endDrag() {
    this.dragFrom = undefined;
    this.selection.style.width = '0';
  }

  onKey(event) {
    const {timeline} = this;
    const last = timeline.rows.length - 1;
    if (last < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = timeline.cursor ?? last;
    const moves = {ArrowLeft: at - 1, ArrowRight: at + 1, ArrowDown: at - 1, ArrowUp: at + 1,
                   PageDown: at - 10, PageUp: at + 10, Home: 0, End: last};
    const factors = {'+': 0.5, '=': 0.5, '-': 2};
    if (Object.hasOwn(moves, event.key)) {
      timeline.moveCursor(Math.min(last, Math.max(0, moves[event.key])));
    } else if (Object.hasOwn(factors, event.key)) {
      this.zoomBy(factors[event.key], centre(timeline.rows[at]));
    } else if (event.key === '0' || event.key === 'Escape') {
      timeline.showAll();
    } else {
      return;
    }
    event.preventDefault();
  }

  zoomBy(factor, around) {
    const [from, to] = this.timeline.range();
    this.timeline.zoom(around - (around - from) * factor, around + (to - around) * factor);
  }
}

// The tops of the stack, the highest first, and the longest iteration.
export function stackColumns() {
  const tops = STACK.map((_, index) => (row) =>
    STACK.slice(0, index + 1).reduce((sum, {name}) => sum + row.phases[name], 0));
  return [...tops.reverse(), (row) => row.longest];
}

export function stackColors() {
  const colors = STACK.map(({name}) => color(`phase-${name}`));
  return [...colors.reverse(), color('muted')];
}

// The scale of values that start at 0. A few values that are far larger than the others (a first
// step, a pause) exceed the scale; `beyond` counts them.
export function scaleOf(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return {top: 1, beyond: 0};
  const usual = sorted[Math.floor(0.98 * (sorted.length - 1))];
  const most = sorted.at(-1);
  if (usual <= 0 || most < 3 * usual) return {top: most > 0 ? most * 1.1 : 1, beyond: 0};
  return {top: usual * 1.3, beyond: sorted.filter((value) => value > usual * 1.3).length};
}

export const lineColor = (name) => () => [color(name)];
