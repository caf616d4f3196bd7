// Package test runs whole Pawls: the same cases over gRPC and REST, in one process and against the real binaries.
package test
