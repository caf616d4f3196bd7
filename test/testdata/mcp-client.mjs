// Uses Pawl's MCP endpoint by the package @modelcontextprotocol/client of npm and writes what it got as one JSON object. Arguments: a revision, or legacy for those with a handshake; a
// file to write to; a file that gets a line when a call is cancelled; then the endpoint's URL, or the command line of a server on standard input and output. PAWL_NODE_MODULES names the
// folder that holds node_modules.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

const require = createRequire(join(process.env.PAWL_NODE_MODULES, "index.js"));
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [revision, file, cancelled, target, ...args] = process.argv.slice(2);
const asked = [];
const client = new Client({ name: "test", version: "1" }, {
	capabilities: { elicitation: { form: {} } },
	versionNegotiation: { mode: revision === "legacy" ? revision : { pin: revision } },
});
client.setRequestHandler("elicitation/create", async (request) => {
	asked.push(request.params.message);
	return { action: asked.length === 1 ? "accept" : "decline", content: {} };
});
await client.connect(target.startsWith("http") ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport({ command: target, args, env: process.env }));

const call = async (name, parameters) => {
	const result = await client.callTool({ name, arguments: parameters });
	return (result.isError ? "error: " : "") + result.content.map((block) => block.text).join("\n");
};
const out = { revision: client.getNegotiatedProtocolVersion() };
out.tools = (await client.listTools()).tools.map((tool) => tool.name).filter((name) => name === "t__echo" || name === "run_task").sort();
out.echo = await call("t__echo", { text: "hello" });
out.approved = await call("t__append", { path: file, line: "one" });
out.declined = (await call("t__append", { path: file, line: "two" })).includes("needs an approval");
out.asked = asked.map((message) => message.includes("t/append"));
out.task = (await call("run_task", { goal: 'call t/echo {"text": "hi"}', servers: ["t"] })).includes("hi");
const stop = new AbortController();
try {
	await client.callTool({ name: "t__slow", arguments: { steps: 5000, path: cancelled } }, { signal: stop.signal, onprogress: () => stop.abort("enough") });
	out.slow = "ended";
} catch {
	out.slow = "cancelled";
}
while (!existsSync(cancelled)) await setTimeout(10); // over HTTP, the client's message may still be on its way
process.stdout.write(JSON.stringify(out));
await client.close();
