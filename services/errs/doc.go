// Package errs is the only mapping between typed errors and gRPC status. A failure has a code, a reason from the one
// enum of the contracts, a message that says what to do next, and optionally metadata, field violations and a retry
// delay; all of it survives the wire in both directions. It knows no service and no transport but gRPC's status model.
package errs
