// Calls Pawl by the package openai of npm and writes what it got as one JSON object. Arguments: base URL, API key, model. PAWL_NODE_MODULES names the folder that holds
// node_modules.
import { createRequire } from "node:module";
import { join } from "node:path";

const OpenAI = createRequire(join(process.env.PAWL_NODE_MODULES, "index.js"))("openai");
const [baseURL, apiKey, model] = process.argv.slice(2);
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
