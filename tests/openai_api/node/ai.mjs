// The calls of a program on Vercel's AI SDK: chats, responses and messages. What it sees is printed as one JSON object.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateObject, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { BASE_URL: baseURL, API_KEY: apiKey } = process.env;
const any = createOpenAICompatible({ name: "farm", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true });
const openai = createOpenAI({ baseURL, apiKey });
const providers = [any, openai.chat, openai, createAnthropic({ baseURL, apiKey })];
const schema = z.object({ name: z.string(), feet: z.number() });
const inputSchema = z.object({ at: z.string() });
const look = tool({ inputSchema, execute: ({ at }) => `The ${at} is rough.` });
const asks = { prompt: "Say hello.", maxRetries: 0 };
const steps = { ...asks, tools: { look }, stopWhen: stepCountIs(3) };
const counted = ({ inputTokens, outputTokens, totalTokens }) => [inputTokens, outputTokens, totalTokens];
const reasons = (steps) => steps.map(({ finishReason }) => finishReason);
globalThis.AI_SDK_LOG_WARNINGS = false; // that it does not know the model

async function called(model) {
  const whole = await generateText({ ...asks, model });
  const streamed = streamText({ ...asks, model });
  const pieces = [];
  for await (const piece of streamed.textStream) pieces.push(piece);
  const stepped = await generateText({ ...steps, model });
  const flowing = streamText({ ...steps, model });
  await flowing.consumeStream();
  return {
    whole: [whole.text, whole.finishReason, counted(whole.usage)],
    streamed: [pieces, await streamed.finishReason, counted(await streamed.usage)],
    stepped: [stepped.text, reasons(stepped.steps)],
    flowing: [await flowing.text, reasons(await flowing.steps)],
    object: (await generateObject({ ...asks, model, schema })).object,
    output: (await generateText({ ...asks, model, output: Output.object({ schema }) })).output,
  };
}

async function refused(model) {
  try {
    await generateText({ ...asks, model });
  } catch (error) {
    if (!APICallError.isInstance(error)) throw error;
    return [error.statusCode, error.isRetryable, error.message];
  }
}

const seen = { called: [], refused: [], aborted: 0 };
for (const provider of providers) {
  seen.called.push(await called(provider("tiny")));
  seen.refused.push(await refused(provider("huge")));
  const abort = new AbortController();
  const stream = streamText({ model: provider("tiny"), prompt: "Count.", maxRetries: 0, abortSignal: abort.signal });
  for await (const { type } of stream.fullStream) {
    if (type === "text-delta") abort.abort();
    if (type === "abort") seen.aborted += 1;
  }
}
const values = ["sea", "hill"];
seen.embeddings = (await embedMany({ model: any.embeddingModel("tiny"), values, maxRetries: 0 })).embeddings;
console.log(JSON.stringify(seen));
