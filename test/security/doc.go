// Package security shows who may call what. It tries each RPC of the protos with keys and tokens that must be refused, over gRPC and REST, fuzzes
// the REST API from its OpenAPI document, and runs two users beside each other.
package security
