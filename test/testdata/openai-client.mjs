// Calls Pawl by the package openai of npm and writes what it got as one JSON object. Arguments: base URL, API key, model, a file that the agent writes. PAWL_NODE_MODULES names the folder that holds
// node_modules.
import { createRequire } from "node:module";
import { join } from "node:path";

const OpenAI = createRequire(join(process.env.PAWL_NODE_MODULES, "index.js"))("openai");
const [baseURL, apiKey, model, file] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const said = (content) => [{ role: "user", content }];
const out = {};

out.models = (await client.models.list()).data.map((m) => m.id);
out.model = (await client.models.retrieve(model)).id;

const chat = await client.chat.completions.create({ model, messages: [{ role: "developer", content: "Be brief." }, ...said("Say hello")], stop: ["\n\n\n"], temperature: 0 });
out.chat = { text: chat.choices[0].message.content, finish: chat.choices[0].finish_reason, usage: chat.usage.total_tokens > 0 };

const stream = await client.chat.completions.create({ model, messages: said("Say hello"), stream: true, stream_options: { include_usage: true } });
out.stream = { text: "", finish: "", usage: false };
for await (const chunk of stream) {
	out.stream.text += chunk.choices[0]?.delta?.content ?? "";
	out.stream.finish ||= chunk.choices[0]?.finish_reason ?? "";
	out.stream.usage ||= chunk.usage?.total_tokens > 0;
}

// The SDK calls the functions and sends their results, until the model answers.
const calls = [];
const runner = client.chat.completions.runTools({
	model,
	stream: true,
	messages: said("What is the weather?"),
	tools: [{
		type: "function",
		function: {
			name: "get_weather",
			parameters: { type: "object", properties: { city: { type: "string" } } },
			parse: JSON.parse,
			function: ({ city }) => {
				calls.push(city);
				return "sunny in " + city;
			},
		},
	}],
});
out.tools = { text: await runner.finalContent(), calls: calls.sort() };

const recipe = await client.chat.completions.parse({
	model,
	messages: said("A recipe"),
	response_format: {
		type: "json_schema",
		json_schema: { name: "recipe", strict: true, schema: { type: "object", properties: { dish: { type: "string" } }, required: ["dish"], additionalProperties: false } },
	},
});
out.recipe = JSON.parse(recipe.choices[0].message.content);

const counted = await client.chat.completions.create({ model, messages: said("Echo one"), pawl: { mcp_ids: ["t"] } });
out.mcp = { text: counted.choices[0].message.content, tools: counted.pawl.toolCalls.map((c) => c.toolId) };

const agent = await client.chat.completions.create({ model: "agent:helper", messages: said("Say hello"), stream: true });
out.agent = "";
for await (const chunk of agent) {
	out.agent += chunk.choices[0]?.delta?.content ?? "";
}

// The Responses API.
const { responses } = client;
const mcp = [{ type: "mcp", server_label: "t", require_approval: "never" }];
const kinds = (response) => response.output.map((item) => item.type + (item.status ? " " + item.status : ""));
const replay = async (id, query) => {
	const events = [];
	for await (const event of await responses.retrieve(id, { stream: true, ...query })) {
		events.push(event);
	}
	return events;
};

const first = await responses.create({ model, instructions: "Be brief.", input: "Say hello", metadata: { a: "b" } });
out.response = { text: first.output_text, status: first.status, usage: first.usage.total_tokens > 0, metadata: first.metadata };

const echoed = await responses.stream({ model, input: "Echo one", tools: mcp }).finalResponse();
out.responseStream = { text: echoed.output_text, items: kinds(echoed), output: echoed.output[0].output };

const weather = [{ type: "function", name: "get_weather", strict: true, parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false } }];
const input = said("What is the weather?");
const asked = await responses.stream({ model, input, tools: weather }).finalResponse();
input.push(...asked.output);
for (const call of asked.output) {
	input.push({ type: "function_call_output", call_id: call.call_id, output: "sunny in " + JSON.parse(call.arguments).city });
}
out.responseTools = { items: kinds(asked), text: (await responses.create({ model, input, tools: weather })).output_text };

const dish = await responses.parse({
	model,
	input: "A recipe",
	text: { format: { type: "json_schema", name: "recipe", strict: true, schema: { type: "object", properties: { dish: { type: "string" } }, required: ["dish"], additionalProperties: false } } },
});
out.responseRecipe = dish.output_parsed;

// An agent asks for an approval, and the next request gives it.
const waits = await responses.stream({ model: "agent:helper", input: "Note in " + file }).finalResponse();
const request = waits.output.at(-1);
const noted = await responses.create({
	model: "agent:helper",
	previous_response_id: waits.id,
	input: [{ type: "mcp_approval_response", approval_request_id: request.id, approve: true }],
});
const again = await responses.retrieve(noted.id);
out.responseAgent = {
	waits: [waits.status, ...kinds(waits), request.server_label + "/" + request.name, JSON.parse(request.arguments).line],
	noted: [noted.status, ...kinds(noted), noted.output_text], approved: noted.output[0].approval_request_id === request.id,
	again: JSON.stringify(again.output) === JSON.stringify(noted.output) && again.status === noted.status && again.id === noted.id,
	input: (await responses.inputItems.list(noted.id)).data.map((item) => item.content[0].text === "Note in " + file),
	next: (await responses.create({ model: "agent:helper", previous_response_id: noted.id, input: "Say hello" })).output_text,
};

// In the background: followed, followed again from an event on, cancelled, deleted.
const task = await responses.create({ model, background: true, input: "Echo one", tools: mcp });
const events = await replay(task.id);
const late = await replay(task.id, { starting_after: 4 });
const ended = await responses.retrieve(task.id);
const open = await responses.create({ model, background: true, input: "Note in " + file, tools: mcp, stream: true });
let waiting;
for await (const event of open) {
	waiting ??= event.response?.id;
	if (event.item?.type === "mcp_approval_request") {
		break;
	}
}
const seen = await responses.retrieve(waiting);
const cancelled = await responses.cancel(waiting);
await responses.delete(task.id);
out.responseBackground = {
	created: ["queued", "in_progress"].includes(task.status), ended: [ended.status, ...kinds(ended), ended.output_text], last: events.at(-1).type,
	late: JSON.stringify(late) === JSON.stringify(events.slice(5)), waiting: [seen.status, ...kinds(seen)], cancelled: cancelled.status,
};

const error = async (call) => {
	try {
		await call();
		return "none";
	} catch (e) {
		return e.constructor.name + " " + e.code;
	}
};
out.errors = {
	key: await error(() => new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }).models.list()),
	model: await error(() => client.chat.completions.create({ model: "nothing", messages: said("a") })),
	parameter: await error(() => client.chat.completions.create({ model, messages: said("a"), temperature: "hot" })),
	limit: await error(() => client.chat.completions.create({ model, messages: said("Too fast") })),
	response: await error(() => responses.retrieve(task.id)),
	address: await error(() => responses.create({ model, input: "a", tools: [{ type: "mcp", server_label: "t", server_url: "http://127.0.0.1/mcp" }] })),
	server: await error(() => client.chat.completions.create({ model, messages: said("a"), pawl: { mcp_ids: ["nothing"] } })),
};

const abort = new AbortController();
const long = await client.chat.completions.create({ model, messages: said("A long story"), stream: true }, { signal: abort.signal });
for await (const chunk of long) {
	if (chunk.choices[0]?.delta?.content) {
		abort.abort();
	}
}
process.stdout.write(JSON.stringify(out) + "\n");
