// Holds a conversation of three turns, the second with a tool, through a gateway; prints the answers as JSON.
// usage: node clients.mjs CLIENT GATEWAY THREAD
import Anthropic from "@anthropic-ai/sdk";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const [client, gateway, thread] = process.argv.slice(2);
const headers = { "x-memolog-thread": thread, "x-memolog-resource": "alice" };
const model = "model-1";
const questions = ["My sister Nora lives in Oslo.", "Please look it up.", "And where does Nora live?"];
const parameters = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const found = (place) => `It rains in ${place}.`;
const answers = [];
globalThis.AI_SDK_LOG_WARNINGS = false;

async function chat() {
  const api = new OpenAI({ baseURL: `${gateway}/v1`, apiKey: "sk-x", defaultHeaders: headers, maxRetries: 0 });
  const tools = [{ type: "function", function: { name: "weather", parameters } }];
  const messages = [];
  for (const question of questions) {
    messages.push({ role: "user", content: question });
    for (;;) {
      const { message } = (await api.chat.completions.create({ model, messages, tools })).choices[0];
      messages.push(message);
      if (!message.tool_calls) { answers.push(message.content); break; }
      for (const call of message.tool_calls) {
        const { place } = JSON.parse(call.function.arguments);
        messages.push({ role: "tool", tool_call_id: call.id, content: found(place) });
      }
    }
  }
}

async function responses() {
  const api = new OpenAI({ baseURL: `${gateway}/v1`, apiKey: "sk-x", defaultHeaders: headers, maxRetries: 0 });
  const tools = [{ type: "function", name: "weather", parameters, strict: false }];
  const input = [];
  for (const question of questions) {
    input.push({ role: "user", content: question });
    for (;;) {
      const response = await api.responses.create({ model, input, tools });
      input.push(...response.output);
      const calls = response.output.filter((item) => item.type === "function_call");
      if (!calls.length) { answers.push(response.output_text); break; }
      for (const call of calls) {
        const { place } = JSON.parse(call.arguments);
        input.push({ type: "function_call_output", call_id: call.call_id, output: found(place) });
      }
    }
  }
}

async function messages() {
  const api = new Anthropic({ baseURL: gateway, apiKey: "sk-x", defaultHeaders: headers, maxRetries: 0 });
  const tools = [{ name: "weather", input_schema: parameters }];
  const said = [];
  for (const question of questions) {
    said.push({ role: "user", content: question });
    for (;;) {
      const { content } = await api.messages.create({ model, max_tokens: 100, messages: said, tools });
      said.push({ role: "assistant", content });
      const calls = content.filter((block) => block.type === "tool_use");
      if (!calls.length) { answers.push(content.filter((b) => b.type === "text").map((b) => b.text).join("")); break; }
      said.push({ role: "user", content: calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: found(call.input.place) })) });
    }
  }
}

async function vercel(make, isStreamed) {
  const tools = {
    weather: tool({ inputSchema: z.object({ place: z.string() }), execute: async ({ place }) => found(place) }),
  };
  const messages = [];
  for (const content of questions) {
    messages.push({ role: "user", content });
    const options = { model: make(model), messages, tools, stopWhen: stepCountIs(5), maxRetries: 0 };
    const result = isStreamed ? streamText(options) : await generateText(options);
    answers.push(await result.text);
    messages.push(...(await result.response).messages);
  }
}

const openai = createOpenAI({ baseURL: `${gateway}/v1`, apiKey: "sk-x", headers });
const anthropic = createAnthropic({ baseURL: `${gateway}/v1`, apiKey: "sk-x", headers });
await {
  "openai-chat": chat,
  "openai-responses": responses,
  anthropic: messages,
  "ai-openai": () => vercel(openai, false),
  "ai-openai-streamed": () => vercel(openai, true),
  "ai-openai-chat": () => vercel(openai.chat, false),
  "ai-anthropic": () => vercel(anthropic, false),
  "ai-anthropic-streamed": () => vercel(anthropic, true),
}[client]();
console.log(JSON.stringify(answers));
