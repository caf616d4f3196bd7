// Package reason answers the planner's questions with a model: it chooses the model, asks it, checks what it answers by
// schema and against the task's tools, sends a wrong answer back with what is wrong with it as long as the task may pay for
// that, and keeps to what the contracts promise whatever the model said. It knows no gRPC and no provider.
package reason
