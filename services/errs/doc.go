// Package errs is the only mapping between typed errors and gRPC status. A failure has a code, a reason from the one
// enum of the contracts, a message that says what to do next, and optionally metadata, field violations, a retry
// delay and usage; a status carries all of it, with long texts cut. The package knows no service and no transport but gRPC's status model.
package errs
