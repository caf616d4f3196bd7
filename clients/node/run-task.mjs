// Runs a goal over gRPC from Node: stubs are loaded from the .proto files, nothing is generated.
//
//   npm install @grpc/grpc-js @grpc/proto-loader
//   node clients/node/run-task.mjs 127.0.0.1:7411 "Which files mention the word ratchet?"
//
// It approves each step that asks, prints one line per event and the answer, and exits 0 where the task succeeded.
// PAWL_KEY holds an API key where the server wants one. Where the packages lie elsewhere, name the folder that
// holds node_modules in PAWL_NODE_MODULES.
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(resolve(process.env.PAWL_NODE_MODULES ?? here), "index.js"));
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, goal] = process.argv.slice(2);
if (!address || !goal) {
  console.error('usage: node run-task.mjs ADDRESS "GOAL"');
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
const client = new ExecutorService(address, grpc.credentials.createInsecure());
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

const stream = client.runTask({ task: { goal, autoExecute: true }, follow: true }, metadata);
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
