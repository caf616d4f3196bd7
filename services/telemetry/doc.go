// Package telemetry connects a process to OpenTelemetry by the standard OTEL_ variables, and does nothing at all where
// none of them asks for it. It knows no metric and no span of any service.
package telemetry
