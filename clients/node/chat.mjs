// Talks with an agent over REST and Server-Sent Events. Needs Node 20 or later and no packages.
//
//   node clients/node/chat.mjs http://127.0.0.1:7410 helper
//   PAWL_KEY=pawl_… NODE_EXTRA_CA_CERTS=ca.pem node clients/node/chat.mjs https://pawl.example.com:7410 helper TOPIC
//
// It posts each line of standard input to a new topic with the agent, or to TOPIC, and prints the reply while it is streamed. If the agent asks for an approval, the next
// line answers it: y approves, anything else rejects. A request that fails on the way is sent again: a message has an id, and the stream continues after the last
// event that was read, so nothing is missed or repeated.
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const [base, agent, given] = process.argv.slice(2);
if (!agent) {
  console.error("usage: node chat.mjs ADDRESS AGENT [TOPIC]");
  process.exit(64);
}

// Refused is an error response that sending the request again does not change.
class Refused extends Error {}

const temporary = [429, 502, 503, 504];

// send sends a request until read succeeds, and returns its result. Without a body, the request is a GET.
async function send(path, body, read, headers = () => ({})) {
  for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
    try {
      const response = await fetch(base + path, {
        method: body ? "POST" : "GET",
        headers: {
          ...(body && { "Content-Type": "application/json" }),
          ...(process.env.PAWL_KEY && { Authorization: `Bearer ${process.env.PAWL_KEY}` }),
          ...headers(),
        },
        body: body && JSON.stringify(body),
      });
      if (response.ok) {
        pause = 100;
        return await read(response);
      }
      const problem = await response.json();
      if (!temporary.includes(problem.status)) throw new Refused(problem.detail);
      pause = Math.max(pause, 1000 * (problem.retryAfterSeconds ?? 0));
    } catch (error) {
      if (error instanceof Refused) throw error;
      console.error(`trying again: ${error.cause?.message ?? error.message}`);
    }
    await sleep(pause);
  }
}

const call = (path, body) => send(path, body, (response) => response.json());

// frames yields the Server-Sent Events of a response.
async function* frames(response) {
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const whole = (rest + text).split("\n\n");
    rest = whole.pop();
    for (const frame of whole) {
      const lines = frame.split("\n").map((line) => /^(\w+): (.*)$/.exec(line));
      const fields = Object.fromEntries(lines.filter(Boolean).map(([, name, value]) => [name, value]));
      if (fields.data) yield { name: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

// follow reads the events of a topic after a seq until see returns a result, and returns it and the seq of the last event.
async function follow(topic, after, see) {
  const read = async (response) => {
    for await (const { name, data } of frames(response)) {
      if (name === "end") throw new Refused("you no longer take part in the topic");
      if (name === "error") throw temporary.includes(data.status) ? new Error(data.detail) : new Refused(data.detail);
      after = data.seq;
      const result = see(data);
      if (result) return { result, after };
    }
    throw new Error("the stream was cut off");
  };
  return send(`/v1/topics/${topic}/events`, undefined, read, () => ({ Accept: "text/event-stream", "Last-Event-ID": `${after}` }));
}

// outcome prints an event of an agent's work on a message, and returns how the work ended, if it did, or what it waits for.
function outcome(event, id) {
  if (event.messageId !== id) return;
  const message = event.newMessage;
  if (event.streamChunk) process.stdout.write(event.streamChunk.text);
  if (event.streamDone) process.stdout.write("\n");
  if (event.agentSilent) return { problem: event.agentSilent.reason };
  if (event.streamDone?.error && !event.streamDone.restarts) return { problem: event.streamDone.error };
  if (message?.wait) console.log(`${message.text} ${message.wait.toolId} ${message.wait.inputJson}`);
  return message?.ext ? undefined : message && { message };
}

async function main() {
  const created = { topic: { displayName: "Node" }, participants: [{ agentId: agent }], requestId: randomUUID() };
  const topic = await (given ? call(`/v1/topics/${given}`) : call("/v1/topics", created));
  console.error(`topic ${topic.id}`);
  let [about, asked, after] = [undefined, undefined, topic.lastSeq];
  for await (const line of createInterface({ input: process.stdin })) {
    const id = randomUUID();
    if (asked) {
      const answer = line === "y" ? { approve: {} } : { reject: { reason: line } };
      await call(`/v1/topics/${topic.id}/messages`, { message: { id, replyTo: asked }, answer });
    } else {
      await call(`/v1/topics/${topic.id}/messages`, { message: { id, text: line, mentions: [agent] } });
      about = id;
    }
    const ended = await follow(topic.id, after, (event) => outcome(event, about));
    after = ended.after;
    asked = ended.result.message?.wait && ended.result.message.id;
    if (ended.result.problem) console.error(ended.result.problem);
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
