// Runs a goal over gRPC from Node.
//
//   npm install @grpc/grpc-js @grpc/proto-loader
//   node clients/node/run-task.mjs 127.0.0.1:7411 "Which files mention the word ratchet?"
//   PAWL_KEY=pawl_… node clients/node/run-task.mjs https://pawl.example.com:7411 --ca ca.pem "Which files mention the word ratchet?"
//
// It approves each step that asks, prints one line per event and the answer, and exits 0 if the task succeeded.
import { connect } from "./grpc.mjs";

const { client, metadata, given } = connect("pawl/executor/v1/executor_service.proto", "pawl.executor.v1.ExecutorService", '"GOAL"');

const approve = (event) =>
  new Promise((done, failed) =>
    client.resumeTask(
      { id: event.taskId, waitId: event.flowStop.waitIds[0], approve: {} },
      metadata,
      (error, task) => (error ? failed(error) : done(task)),
    ),
  );

const stream = client.runTask({ task: { goal: given[0], autoExecute: true }, follow: true }, metadata);
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
