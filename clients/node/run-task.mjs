// Runs a goal over gRPC from Node: stubs are loaded from the .proto files, nothing is generated.
//
//   npm install @grpc/grpc-js @grpc/proto-loader
//   node clients/node/run-task.mjs 127.0.0.1:7411 "Which files mention the word ratchet?"
//   PAWL_KEY=pawl_… node clients/node/run-task.mjs https://pawl.example.com:7411 --ca ca.pem "Which files mention the word ratchet?"
//
// It approves each step that asks, prints one line per event and the answer, and exits 0 if the task succeeded.
//
// As in the command line, an address that begins with https:// or an authority (--ca or PAWL_CA) selects TLS, --client-cert and --client-key
// (PAWL_CLIENT_CERT, PAWL_CLIENT_KEY) are a client certificate, and PAWL_KEY is an API key. If the packages are elsewhere, PAWL_NODE_MODULES
// names the folder that holds node_modules.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(resolve(process.env.PAWL_NODE_MODULES ?? here), "index.js"));
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

// file returns an option for a file, whose default is an environment variable.
const file = (variable) => ({ type: "string", default: process.env[variable] || undefined });

function readArguments() {
  const options = { ca: file("PAWL_CA"), "client-cert": file("PAWL_CLIENT_CERT"), "client-key": file("PAWL_CLIENT_KEY") };
  const { positionals, values } = parseArgs({ options, allowPositionals: true });
  if (positionals.length !== 2) {
    throw new Error('usage: node run-task.mjs [--ca FILE] [--client-cert FILE --client-key FILE] ADDRESS "GOAL"');
  }
  const [ca, key, cert] = [values.ca, values["client-key"], values["client-cert"]].map((path) => (path ? readFileSync(path) : null));
  const tls = positionals[0].startsWith("https://") || ca || key || cert;
  const credentials = tls ? grpc.credentials.createSsl(ca, key, cert) : grpc.credentials.createInsecure();
  return { address: positionals[0].replace("https://", ""), goal: positionals[1], credentials };
}

let given;
try {
  given = readArguments();
} catch (error) {
  console.error(error.message);
  process.exit(64);
}

const root = join(here, "..", "..");
const definition = loader.loadSync("pawl/executor/v1/executor_service.proto", {
  includeDirs: [join(root, "proto"), join(root, "third_party", "proto")],
  longs: Number,
  enums: String,
  oneofs: true,
});
const { ExecutorService } = grpc.loadPackageDefinition(definition).pawl.executor.v1;
const client = new ExecutorService(given.address, given.credentials);
const metadata = new grpc.Metadata();
if (process.env.PAWL_KEY) metadata.set("authorization", `Bearer ${process.env.PAWL_KEY}`);

const approve = (event) =>
  new Promise((done, failed) =>
    client.resumeTask(
      { id: event.taskId, waitId: event.flowStop.waitIds[0], approve: {} },
      metadata,
      (error, task) => (error ? failed(error) : done(task)),
    ),
  );

const stream = client.runTask({ task: { goal: given.goal, autoExecute: true }, follow: true }, metadata);
let outcome = "";
stream.on("data", async (event) => {
  const name = event.type.replace("EVENT_TYPE_", "").toLowerCase();
  if (name !== "text_add") console.log(`${event.seq} ${name} ${event.flow?.stepName ?? ""}`.trim());
  if (name === "flow_stop") await approve(event).catch((error) => stream.destroy(error));
  if (name === "flow_success") console.log(event.flowSuccess.fullAnswer);
  if (["flow_success", "flow_failed", "flow_cancel"].includes(name)) outcome = name;
});
stream.on("error", (error) => {
  console.error(`${error.code}: ${error.details ?? error.message}`);
  process.exit(1);
});
stream.on("end", () => process.exit(outcome === "flow_success" ? 0 : 1));
