// Calls Pawl by the AI SDK (ai and @ai-sdk/openai-compatible of npm) and writes what it got as one JSON object. Arguments: base URL, API key, model. PAWL_NODE_MODULES names the
// folder that holds node_modules.
import { createRequire } from "node:module";
import { join } from "node:path";

const load = createRequire(join(process.env.PAWL_NODE_MODULES, "index.js"));
const { generateText, isStepCount, jsonSchema, Output, streamText, tool } = load("ai");
const { createOpenAICompatible } = load("@ai-sdk/openai-compatible");
const [baseURL, apiKey, name] = process.argv.slice(2);
const pawl = createOpenAICompatible({ name: "pawl", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true });
const withTools = createOpenAICompatible({ name: "pawl", baseURL, apiKey, headers: { "Pawl-Mcp-Ids": "t" } });
const model = pawl(name);
const out = {};

const chat = await generateText({
	model, maxRetries: 0, system: "Be brief.", prompt: "Say hello", maxOutputTokens: 100, temperature: 0, topP: 1, seed: 1, presencePenalty: 0, stopSequences: ["\n\n\n"],
	providerOptions: { pawl: { user: "ann", reasoningEffort: null, textVerbosity: "low" } },
});
out.chat = { text: chat.text, finish: chat.finishReason, usage: chat.usage.totalTokens > 0 };

const stream = streamText({ model, maxRetries: 0, prompt: "Say hello" });
out.stream = { text: "" };
for await (const text of stream.textStream) {
	out.stream.text += text;
}
Object.assign(out.stream, { finish: await stream.finishReason, usage: (await stream.usage).totalTokens > 0 });

// The SDK calls the functions and sends their results, until the model answers.
const city = jsonSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false });
const calls = [];
const weather = { get_weather: tool({ description: "Tells the weather", inputSchema: city, execute: ({ city }) => (calls.push(city), "sunny in " + city) }) };
const asked = streamText({ model, maxRetries: 0, prompt: "What is the weather?", tools: weather, stopWhen: isStepCount(3) });
out.tools = { text: await asked.text, steps: (await asked.steps).map((s) => s.finishReason), calls: calls.sort() };

const dish = jsonSchema({ type: "object", properties: { dish: { type: "string" } }, required: ["dish"], additionalProperties: false });
out.recipe = (await generateText({ model, maxRetries: 0, prompt: "A recipe", output: Output.object({ schema: dish, name: "recipe" }) })).output;

const echoed = await generateText({ model: withTools(name), maxRetries: 0, prompt: "Echo one" });
out.mcp = { text: echoed.text, reasoning: echoed.reasoningText };
out.agent = await streamText({ model: pawl("agent:helper"), maxRetries: 0, prompt: "Say hello" }).text;

const error = async (model, prompt) => {
	try {
		return (await generateText({ model, maxRetries: 0, prompt })).text;
	} catch (e) {
		return [e.name, e.statusCode, e.isRetryable, e.data?.error.code].join(" ");
	}
};
out.errors = {
	key: await error(createOpenAICompatible({ name: "pawl", baseURL, apiKey: "wrong" })(name), "a"),
	model: await error(pawl("nothing"), "a"),
	limit: await error(model, "Too fast"),
};

const abort = new AbortController();
const long = streamText({ model, maxRetries: 0, prompt: "A long story", abortSignal: abort.signal });
out.aborted = false;
for await (const part of long.fullStream) {
	if (part.type === "text-delta") {
		abort.abort();
	}
	out.aborted ||= part.type === "abort";
}
process.stdout.write(JSON.stringify(out) + "\n");
