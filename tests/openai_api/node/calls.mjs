// The calls of a program on Node.js, through OpenAI's own client and Anthropic's. What it sees is printed as one JSON object.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI, { toFile } from "openai";

const client = new OpenAI({ maxRetries: 0, timeout: 30_000 }); // OPENAI_BASE_URL, OPENAI_API_KEY
const model = "tiny";
const messages = [{ role: "user", content: "Say hello." }];
const seen = {};

seen.models = (await client.models.list()).data.map(({ id }) => id);

seen.chat = (await client.chat.completions.create({ model, messages })).choices[0].message.content;

seen.chunks = [];
const options = { include_usage: true };
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true, stream_options: options })) {
  seen.chunks.push(chunk.choices[0]?.delta.content ?? null);
  if (chunk.usage) seen.usage = chunk.usage.total_tokens;
}

seen.embedding = (await client.embeddings.create({ model, input: "word", encoding_format: "float" })).data[0].embedding;

const response = await client.responses.create({ model, input: "Say hello." });
seen.response = [response.status, response.output_text];

seen.events = [];
for await (const event of await client.responses.create({ model, input: "Say hello.", stream: true, background: true })) {
  seen.events.push([event.sequence_number, event.type]);
  seen.id = event.response?.id ?? seen.id;
}
seen.resumed = [];
for await (const event of await client.responses.retrieve(seen.id, { stream: true, starting_after: 4 })) {
  seen.resumed.push(event.sequence_number);
}
seen.items = (await client.responses.inputItems.list(seen.id)).data.map(({ role }) => role);

const file = await toFile(new Uint8Array([82, 73, 70, 70]), "sound.wav");
seen.text = (await client.audio.transcriptions.create({ model, file })).text;

try {
  await client.chat.completions.create({ model: "huge", messages });
} catch (error) {
  seen.refusal = [error.status, error.code];
}

const anthropic = new Anthropic({ maxRetries: 0, timeout: 30_000 }); // ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY
const asks = { model, messages, max_tokens: 9 };
const message = await anthropic.messages.create(asks);
seen.message = [message.content[0].text, message.stop_reason, message.usage.output_tokens];
const tools = [{ name: "look", input_schema: { type: "object" } }];
const made = await anthropic.messages.stream({ ...asks, tools }).finalMessage();
seen.tool = [made.content.map(({ type }) => type), made.content[1].input, made.stop_reason];
seen.counted = (await anthropic.messages.countTokens({ model, messages })).input_tokens;
try {
  await anthropic.messages.create({ ...asks, model: "huge" });
} catch (error) {
  seen.error = [error.status, error.error.error.type, typeof error.requestID];
}
console.log(JSON.stringify(seen));
