// The live page of a run: fetches the state from the coordinator every second and shows it.

import {lineColor, phaseColor, scaleOf, stackColors, stackColumns, StepChart,
        Timeline} from './charts.js';
import {byId, keepChildren, make, setText, setTone} from './dom.js';
import {amount, clock, count, duration, loss, NONE, percent, rate, seconds} from './format.js';
import {showLosses} from './losses.js';
import {BESIDE, canCompare, EXPOSED, meanOfLast, rowsOf, secondsLeft, setPhases, slowest, STACK,
        STRAGGLER_SHARE, toneOf} from './model.js';
import {goneNotice, noticeOf} from './notice.js';
import {showRanks} from './ranks.js';

const POLL_MS = 1000;
const POLL_HIDDEN_MS = 10000;
const POLL_GONE_MS = 5000;
const GONE_AFTER = 2;       // requests without an answer, in a row
const ANSWER_MS = 5000;     // for one request
const RECENT_STEPS = 20;

let status = null;          // the last /status.json
let rows = [];              // from the last /history.json
let lastHeard = 0;          // Unix seconds of this browser's clock
let failures = 0;           // requests in a row without an answer
let timer = 0;
let asking = false;

const timeline = new Timeline(() => {
  showValues();
  byId('whole').hidden = timeline.window === null;
});

// Asking ------------------------------------------------------------------------

async function fetchJson(path) {
  const answer = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(ANSWER_MS)});
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

// The number of points that fit the chart; more when zoomed in, to show single steps.
function pointsWanted() {
  if (timeline.window !== null) return 2000;
  return Math.min(600, Math.max(150, byId('time-chart').clientWidth));
}

// Fetches the status first: if it says that the run is over, the history then has all steps. If the
// history fails, the page keeps the last one.
async function ask() {
  const next = await fetchJson('status.json');
  // A run that is resumed keeps its id, but its steps begin anew.
  const isOther = status !== null && (next.run !== status.run || next.epoch !== status.epoch);
  if (isOther) timeline.showAll();
  status = next;
  setPhases(status);
  for (const {name, colour} of status.phases || []) {
    document.documentElement.style.setProperty(`--phase-${name}`, colour);
  }
  lastHeard = Date.now() / 1000;
  failures = 0;
  rows = rowsOf(await fetchJson(`history.json?points=${pointsWanted()}`), status.world_size);
}

async function poll() {
  clearTimeout(timer);
  if (asking) return;
  asking = true;
  try {
    await ask();
  } catch {
    failures += 1;
  }
  asking = false;
  try {
    show();
  } finally {
    const pause = document.hidden ? POLL_HIDDEN_MS : failures > 10 ? POLL_GONE_MS : POLL_MS;
    timer = setTimeout(poll, pause);
  }
}

// Showing -----------------------------------------------------------------------

const recentRow = () => meanOfLast(rows, RECENT_STEPS);
const stepName = (row) => (row.steps > 1
  ? `Steps ${count(row.step)} to ${count(row.step + row.steps - 1)}` : `Step ${count(row.step)}`);

function showNotice() {
  const gone = failures >= GONE_AFTER || (status === null && failures > 0);
  if (status === null && !gone) return;
  const {tone, state, text} = gone ? goneNotice(status, lastHeard) : noticeOf(status);
  setText(byId('notice'), text);
  setTone(byId('notice'), tone);
  setText(byId('state'), state);
  setTone(byId('state'), tone);
  byId('notice').hidden = text === '';
  document.body.classList.toggle('gone', gone);
  const done = status !== null && status.total_steps > 0
    ? `${Math.floor((100 * status.step) / status.total_steps)} % ` : '';
  document.title = `${done}${state} · Gradwire`;
}

function showHeader() {
  setText(byId('run'), status.run || '');
  setText(byId('version'), `${status.program} ${status.version}`);
  const ranks = status.world_size === 1 ? 'rank' : 'ranks';
  const parts = [`view ${status.generation}`, `${status.world_size} ${ranks}`];
  if (status.started) parts.push(`since ${clock(status.started)}`);
  setText(byId('view'), parts.join(' · '));
  const settings = status.settings || {};
  const main = ['model', 'dataset', 'sync', 'backend', 'wire'].filter((key) => key in settings);
  const words = main.map((key) => String(settings[key]));
  if ('batch-size' in settings) words.push(`batch ${settings['batch-size']}`);
  setText(byId('settings'), words.join(' · '));
  byId('settings').title = Object.entries(settings).map((pair) => pair.join(' = ')).join('\n');
}

function progressText() {
  const {step, total_steps: total, state, started} = status;
  const done = total > 0 ? `Step ${count(step)} of ${count(total)} (${percent(step / total)})`
                         : `Step ${count(step)}`;
  const parts = [done];
  const left = secondsLeft(status, recentRow());
  if (state === 'running' && Number.isFinite(left) && failures < GONE_AFTER) {
    parts.push(`${duration(left)} left, until about ${clock(Date.now() / 1000 + left)}`);
  }
  const goesOn = state === 'running' || state === 'paused';
  if (started && goesOn) parts.push(`${duration(status.now - started)} so far`);
  else if (started) parts.push(`${duration(Math.max(started, ...eventTimes()) - started)} in all`);
  if (status.checkpoint) {
    const {step: kept, age_seconds: age} = status.checkpoint;
    parts.push(`last checkpoint before step ${count(kept)}, ${duration(age)} old`);
  }
  return parts.join(' · ');
}

const tellsLoss = () => (status.ranks || []).some((rank) => rank.loss !== undefined);
const eventTimes = () => (status.events || []).map((event) => event.time).filter(Number.isFinite);

function showProgress() {
  const {step, total_steps: total} = status;
  const share = total > 0 ? Math.min(1, step / total) : 0;
  byId('fill').style.width = `${100 * share}%`;
  if (total > 0) byId('track').setAttribute('aria-valuenow', Math.round(100 * share));
  else byId('track').removeAttribute('aria-valuenow');
  setText(byId('progress-text'), progressText());
}

const noSlowest = () => canCompare(status) ? 'no rank stands out' : 'nothing to compare';

// Each tile: [name, value, note, tone].
function tiles() {
  const row = recentRow();
  const slow = slowest(status);
  if (row === null) {
    return ['Iteration', 'Exposed communication', 'Throughput', 'Loss', 'Sent by each rank',
            'Slowest rank'].map((name) => [name, NONE, 'no step yet', 'quiet']);
  }
  const over = `mean of ${count(row.steps)} ${row.steps === 1 ? 'step' : 'steps'}`;
  const straggles = slow !== null && slow.share >= STRAGGLER_SHARE;
  return [
    ['Iteration', seconds(row.seconds), over, 'quiet'],
    ['Exposed communication', percent(row.exposed),
     `${seconds(row.phases[EXPOSED])} of ${seconds(row.seconds)}`, 'quiet'],
    ['Throughput', `${amount(row.samplesPerSecond)} samples/s`, 'all ranks', 'quiet'],
    ['Loss', loss(row.loss), over, Number.isFinite(row.loss) || !tellsLoss() ? 'quiet' : 'bad'],
    ['Sent by each rank', rate(row.sentPerRank), rate(8 * row.sentPerRank, 'bit/s'), 'quiet'],
    ['Slowest rank', slow === null ? NONE : `rank ${slow.rank}`,
     slow === null ? noSlowest() : `${percent(slow.share)} over the others`,
     straggles ? 'warn' : 'quiet'],
  ];
}

function makeTile() {
  const tile = make('div', 'tile');
  tile.append(make('dt'), make('dd', 'value'), make('dd', 'muted'));
  return tile;
}

function showTiles() {
  const all = tiles();
  keepChildren(byId('tiles'), all.length, makeTile);
  all.forEach(([name, value, more, tone], index) => {
    const tile = byId('tiles').children[index];
    setText(tile.children[0], name);
    setText(tile.children[1], value);
    setText(tile.children[2], more);
    setTone(tile, tone);
  });
}

// Before the first step, perhaps after another run at this address.
function clearValues() {
  setText(byId('legend-caption'), 'Mean of the last steps');
  keepChildren(byId('legend').tBodies[0], 0, makeLegendRow);
  for (const id of ['beyond', 'loss-value', 'exposed-value', 'link-value']) setText(byId(id), '');
}

// Shows the values of the step under the cursor, or means over the last steps.
function showValues() {
  const under = timeline.rows[timeline.cursor];
  const row = under || recentRow();
  if (row === null) return clearValues();
  setText(byId('legend-caption'), under ? stepName(under)
    : `Mean of the last ${count(row.steps)} ${row.steps === 1 ? 'step' : 'steps'}`);
  showLegend(row);
  setText(byId('loss-value'), loss(row.loss));
  setText(byId('exposed-value'), percent(row.exposed));
  setText(byId('link-value'), rate(row.sentPerRank));
}

function makeLegendRow() {
  const row = make('tr');
  const head = row.appendChild(make('th'));
  head.scope = 'row';
  head.append(make('span'), make('span'), make('small', 'muted'));
  row.append(make('td', 'number'), make('td', 'number muted'));
  return row;
}

function showLegendRow(row, {mark, name, label, about}, value, share) {
  const [swatch, text, small] = row.children[0].children;
  swatch.className = `swatch ${mark}`;
  swatch.style.setProperty('--fill', phaseColor(name));
  setText(text, label);
  setText(small, about);
  setText(row.children[1], seconds(value));
  setText(row.children[2], share);
}

// The phases of the stack from top to bottom, then the times, then the phases outside the stack.
function showLegend(row) {
  const body = byId('legend').tBodies[0];
  const phases = [...STACK].reverse().map((phase) => ({...phase, mark: 'part'}));
  const beside = BESIDE.map((phase) => ({...phase, mark: 'beside'}));
  const times = [
    {name: 'iteration', label: 'iteration', about: 'mean of the ranks', mark: '',
     value: row.seconds},
    {name: 'longest', label: 'longest', about: 'of any rank', mark: 'longest', value: row.longest},
  ];
  const lines = [...phases, ...times, ...beside];
  keepChildren(body, lines.length, makeLegendRow);
  lines.forEach((line, index) => {
    const value = line.value ?? row.phases[line.name];
    showLegendRow(body.children[index], line, value,
                  'value' in line ? '' : percent(value / row.seconds));
  });
}

function makeEvent() {
  const item = make('li');
  item.append(make('span', 'pill'), make('span', 'when muted'), make('span', 'what'));
  return item;
}

// Shows the latest event first.
function showEvents() {
  const events = [...(status.events || [])].reverse();
  keepChildren(byId('events'), events.length, makeEvent);
  events.forEach((event, index) => {
    const [kind, when, what] = byId('events').children[index].children;
    setText(kind, String(event.kind));
    setTone(kind, toneOf(event.kind));
    setText(when, `${clock(event.time)} · step ${count(event.step)}`);
    setText(what, String(event.text));
  });
}

function show() {
  showNotice();
  if (status === null) return;
  showHeader();
  showProgress();
  showTiles();
  showRanks(status);
  showLosses(status);
  showEvents();
  timeline.update(rows, status.events || []);
  showValues();
}

// Charts ------------------------------------------------------------------------

const finite = (values) => values.filter(Number.isFinite);

function lossRange(visible) {
  const values = finite(visible.map((row) => row.loss));
  if (values.length === 0) return [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = (high - low) * 0.08 || Math.abs(high) * 0.05 || 1;
  return [low - margin, high + margin];
}

function timeRange(visible) {
  const {top, beyond} = scaleOf(visible.map((row) => Math.max(row.seconds, row.longest)));
  setText(byId('beyond'), beyond > 0 ? `${count(beyond)} beyond the scale` : '');
  return [0, top];
}

// The top of a scale of shares: at least 0.1, at most 1.
const shareTop = (values) => Math.min(1, Math.max(0.1, scaleOf(values).top));

function describePhases(row) {
  const parts = STACK.map(({name, label}) => `${label} ${seconds(row.phases[name])}`);
  return `iteration ${seconds(row.seconds)}: ${parts.join(', ')}`;
}

function makeCharts() {
  const add = (id, spec) => new StepChart(byId(id), spec, timeline);
  add('time-chart', {
    label: 'Time of an iteration by phase, over steps', bars: true, columns: stackColumns,
    colors: stackColors, format: seconds, range: timeRange, describe: describePhases,
  });
  add('loss-chart', {
    label: 'Loss over steps', columns: () => [(row) => row.loss], colors: lineColor('accent'),
    format: loss, range: lossRange, describe: (row) => loss(row.loss),
  });
  add('exposed-chart', {
    label: 'Share of exposed communication over steps', columns: () => [(row) => row.exposed],
    colors: lineColor(`phase-${EXPOSED}`), format: percent,
    range: (visible) => [0, shareTop(visible.map((row) => row.exposed))],
    describe: (row) => percent(row.exposed),
  });
  add('link-chart', {
    label: 'Bytes per second sent by each rank, over steps',
    columns: () => [(row) => row.sentPerRank], colors: lineColor('accent'),
    format: (value) => rate(value),
    range: (visible) => [0, scaleOf(visible.map((row) => row.sentPerRank)).top],
    describe: (row) => rate(row.sentPerRank),
  });
}

makeCharts();
byId('whole').addEventListener('click', () => timeline.showAll());
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) poll();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.draw());
poll();
