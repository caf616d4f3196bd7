// Connects to Pawl over gRPC: stubs are loaded from the .proto files, nothing is generated. If the packages @grpc/grpc-js and @grpc/proto-loader are elsewhere,
// PAWL_NODE_MODULES names the folder that holds node_modules.
//
// As in the command line, an address that begins with https:// or an authority (--ca or PAWL_CA) selects TLS, --client-cert and --client-key (PAWL_CLIENT_CERT,
// PAWL_CLIENT_KEY) are a client certificate, and PAWL_KEY is an API key.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(resolve(process.env.PAWL_NODE_MODULES ?? here), "index.js"));
export const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

// file returns an option for a file, whose default is an environment variable.
const file = (variable) => ({ type: "string", default: process.env[variable] || undefined });

function readArguments(names) {
  const options = { ca: file("PAWL_CA"), "client-cert": file("PAWL_CLIENT_CERT"), "client-key": file("PAWL_CLIENT_KEY") };
  const { positionals, values } = parseArgs({ options, allowPositionals: true });
  if (positionals.length !== 1 + names.length) {
    throw new Error(`usage: node PROGRAM [--ca FILE] [--client-cert FILE --client-key FILE] ADDRESS ${names.join(" ")}`);
  }
  const [ca, key, cert] = [values.ca, values["client-key"], values["client-cert"]].map((path) => (path ? readFileSync(path) : null));
  const tls = positionals[0].startsWith("https://") || ca || key || cert;
  const credentials = tls ? grpc.credentials.createSsl(ca, key, cert) : grpc.credentials.createInsecure();
  return { address: positionals[0].replace("https://", ""), rest: positionals.slice(1), credentials };
}

// connect reads the command line, ADDRESS and one argument per name, and returns these arguments, a client of the service of a .proto file, and the metadata of its calls.
export function connect(proto, service, ...names) {
  let given;
  try {
    given = readArguments(names);
  } catch (error) {
    console.error(error.message);
    process.exit(64);
  }
  const root = join(here, "..", "..");
  const definition = loader.loadSync(proto, {
    includeDirs: [join(root, "proto"), join(root, "third_party", "proto")],
    longs: Number,
    enums: String,
    oneofs: true,
  });
  const Client = service.split(".").reduce((found, name) => found[name], grpc.loadPackageDefinition(definition));
  const metadata = new grpc.Metadata();
  if (process.env.PAWL_KEY) metadata.set("authorization", `Bearer ${process.env.PAWL_KEY}`);
  return { client: new Client(given.address, given.credentials), metadata, given: given.rest };
}
