// Mastra's observational memory with default settings, its SQLite store and scripted models.
// Prints one line of JSON with the same fields as the systems in Python (see harness.py).
import fs from 'node:fs';
import path from 'node:path';
import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { LibSQLStore } from '@mastra/libsql';
import { Memory } from '@mastra/memory';
import { z } from 'zod';

const options = { workload: 'W1', folder: '.', limit: '0', scope: 'thread' };
for (let i = 2; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];
const { workload, folder, scope } = options;
const limit = Number(options.limit);
const stem = `mastra-${workload}-${scope}`;
const WINDOW = 156, KEPT = 17;
// Mastra orders messages by the millisecond: two turns of one thread within one would be mixed. The pause is not counted.
const PAUSE_MS = workload === 'W1' ? 15 : 0;

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const processor = () => { const used = process.cpuUsage(); return (used.user + used.system) / 1000; };
const delay = () => Number(fs.readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6;
const now = () => ({ wall: performance.now(), processor: processor(), delay: delay() });
const spent = { wall: 0, processor: 0, delay: 0 };  // by scripted models

function meter() {
  const laps = { wall: [], processor: [] };
  let began, mock;
  return {
    laps,
    start() { mock = { ...spent }; began = now(); },
    stop() {
      const end = now();
      const part = key => end[key] - began[key] - (spent[key] - mock[key]);
      laps.wall.push(Math.max(0, part('wall') - part('delay')));
      laps.processor.push(Math.max(0, part('processor')));
    },
  };
}

// ---------------------------------------------------------------- the trace, and the scripted models

const file = fs.openSync(path.join(folder, `${stem}.trace`), 'w');
const numbers = new Map();
let isRecording = false, thread = '', meterOfSteps = null;

function record(kind, messages, answer) {
  if (!isRecording) return;
  const rows = [];
  const named = messages.map(text => {
    if (!numbers.has(text)) { numbers.set(text, numbers.size); rows.push(JSON.stringify({ text })); }
    return numbers.get(text);
  });
  rows.push(JSON.stringify({ kind, thread: kind === 'agent' ? thread : '', messages: named, answer }));
  fs.writeSync(file, rows.join('\n') + '\n');
}

let minute = 0;
function condensed(text) {
  const words = text.split(/\s+/).filter(word => /^[a-z]+\.?$/.test(word)).map(word => word.replace('.', ''));
  const lines = [];
  for (let at = 0; at < words.length; at += WINDOW, minute += 1) {
    const [hour, rest] = [Math.floor(minute / 60) % 24, minute % 60].map(value => String(value).padStart(2, '0'));
    lines.push(`* 🔴 (${hour}:${rest}) ${words.slice(at, at + KEPT).join(' ')}`);
  }
  return `<observations>\nDate: Jan 1, 2026\n${lines.join('\n')}\n</observations>\n<current-task>\nContinue the conversation\n</current-task>`;
}
// The reflector keeps one line of three.
function reflected(text) {
  const lines = text.split('\n').filter(line => line.startsWith('* '));
  return `<observations>\nDate: Jan 1, 2026\n${lines.filter((_, index) => index % 3 === 0).join('\n')}\n</observations>`;
}

const textOf = message => typeof message.content === 'string' ? message.content : message.content.map(part => part.text ?? '').join('\n');
const asJson = message => JSON.stringify({
  role: message.role,
  content: typeof message.content === 'string' ? message.content : message.content.map(({ providerOptions, ...part }) => part),
});
const usage = { inputTokens: 10, outputTokens: 10, totalTokens: 20 };
let calls = 0;

function model(kind, answer) {
  const reply = prompt => {
    if (kind === 'agent' && meterOfSteps) meterOfSteps.stop();
    const began = now();
    const said = answer(prompt);
    record(kind, prompt.map(asJson), said.text ?? JSON.stringify(said.call));
    const end = now();
    for (const key of Object.keys(spent)) spent[key] += end[key] - began[key];
    if (kind === 'agent' && meterOfSteps) meterOfSteps.start();
    return said;
  };
  const call = said => ({ type: 'tool-call', toolCallId: `call_${++calls}`, toolName: 'lookup', input: JSON.stringify(said.call) });
  return {
    specificationVersion: 'v2', provider: 'scripted', modelId: `scripted-${kind}`, supportedUrls: {},
    async doGenerate({ prompt }) {
      const said = reply(prompt);
      const content = [said.call ? call(said) : { type: 'text', text: said.text }];
      return { finishReason: said.call ? 'tool-calls' : 'stop', usage, warnings: [], content };
    },
    async doStream({ prompt }) {
      const said = reply(prompt);
      const parts = said.call
        ? [call(said), { type: 'finish', finishReason: 'tool-calls', usage }]
        : [{ type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: said.text }, { type: 'text-end', id: 't' },
           { type: 'finish', finishReason: 'stop', usage }];
      const first = [{ type: 'stream-start', warnings: [] }, { type: 'response-metadata', id: 'r', modelId: 'scripted', timestamp: new Date() }];
      return { stream: new ReadableStream({ start(out) { for (const part of [...first, ...parts]) out.enqueue(part); out.close(); } }) };
    },
  };
}

// ---------------------------------------------------------------- the agent, and the workloads

let nextAnswer = () => ({ text: '' }), toolResult = '';
const sizeOf = name => ['', '-wal', '-shm'].reduce((sum, end) => sum + (fs.existsSync(name + end) ? fs.statSync(name + end).size : 0), 0);

function open(database) {
  for (const end of ['', '-wal', '-shm']) fs.rmSync(database + end, { force: true });
  const memory = new Memory({
    storage: new LibSQLStore({ id: 'bench', url: `file:${database}` }),
    options: {
      observationalMemory: {
        enabled: true, scope,
        observation: { model: model('observer', prompt => ({ text: condensed(textOf(prompt.at(-1))) })) },
        reflection: { model: model('reflector', prompt => ({ text: reflected(textOf(prompt.at(-1))) })) },
      },
    },
  });
  const lookup = createTool({
    id: 'lookup', description: 'Look something up.', inputSchema: z.object({ query: z.string() }), execute: async () => toolResult,
  });
  const agent = new Agent({
    id: 'bench', name: 'bench', instructions: 'You are a helpful assistant.', model: model('agent', () => nextAnswer()), memory,
    ...(workload === 'W2' ? { tools: { lookup } } : {}),
  });
  return { agent, memory };
}

// Thread ids carry the resource, because Mastra keeps state of the whole process by thread id alone.
async function chat({ agent, memory }, work, most, resource, turn, background) {
  let errors = 0, done = 0, paused = 0;
  for (let at = 0; at < work.threads[0].turns.length; at += 1) {
    for (const { id, turns } of work.threads) {
      if (most && done >= most) return { errors, paused };
      done += 1;
      thread = `${resource}-${id}`;
      nextAnswer = () => ({ text: turns[at].assistant });
      turn.start();
      const reply = await agent.generate(turns[at].user, { memory: { thread, resource } });
      turn.stop();
      errors += reply.text !== turns[at].assistant;
      background.start();
      await memory.settled();
      background.stop();
      if (PAUSE_MS) { const began = performance.now(); await sleep(PAUSE_MS); paused += performance.now() - began; }
    }
  }
  return { errors, paused };
}

async function tools({ agent, memory }, work, most, resource, turn, background) {
  const steps = most ? work.steps.slice(0, most) : work.steps;
  let at = 0;
  thread = `${resource}-w2`;
  nextAnswer = () => {
    if (at === steps.length) return { text: work.final };
    toolResult = steps[at].result;
    return { call: steps[at++].arguments };
  };
  meterOfSteps = turn;
  turn.start();
  const reply = await agent.generate(work.user, { maxSteps: steps.length + 5, memory: { thread, resource } });
  turn.stop();
  meterOfSteps = null;
  background.start();
  await memory.settled();
  background.stop();
  return { errors: Number(!reply.text.endsWith(work.final)), paused: 0 };
}

const work = JSON.parse(fs.readFileSync(path.join(folder, `${workload.toLowerCase()}.json`), 'utf8'));
const play = workload === 'W2' ? tools : chat;
await play(open(path.join(folder, `${stem}-warm.db`)), work, workload === 'W2' ? 10 : 30, 'warm', meter(), meter());
const database = path.join(folder, `${stem}.db`);
const opened = open(database);
global.gc?.();
isRecording = true;
const turn = meter(), background = meter();
const residentBefore = process.memoryUsage().rss, before = now(), mockBefore = spent.processor;
const { errors, paused } = await play(opened, work, limit, 'user-1', turn, background);
const after = now();
const version = name => JSON.parse(fs.readFileSync(path.join(process.env.PEERS_MODULES, name, 'package.json'), 'utf8')).version;
const result = {
  system: 'mastra', workload, scope, steps: turn.laps.wall.length,
  turn_wall_ms: turn.laps.wall, turn_processor_ms: turn.laps.processor,
  background_wall_ms: background.laps.wall, background_processor_ms: background.laps.processor,
  processor_s: (after.processor - before.processor - (spent.processor - mockBefore)) / 1000,
  elapsed_s: (after.wall - before.wall - paused) / 1000,
  file_mb: sizeOf(database) / 2 ** 20, resident_growth_mb: (process.memoryUsage().rss - residentBefore) / 2 ** 20,
  errors, versions: { '@mastra/memory': version('@mastra/memory'), '@mastra/core': version('@mastra/core'), node: process.version },
};
fs.closeSync(file);
fs.writeSync(1, JSON.stringify(result) + '\n');
process.exit(0);
