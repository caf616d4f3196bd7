package clitest

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// ForkTask adds a task with another task's events up to a sequence number (0: all), and calls OnCreate for it.
func (e *Executor) ForkTask(_ context.Context, req *executorv1.ForkTaskRequest) (*executorv1.Task, error) {
	if e.OnAdmit != nil {
		if err := e.OnAdmit(); err != nil {
			return nil, err
		}
	}
	from, err := e.find(req.GetId())
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.Forked = append(e.Forked, req)
	seq := req.GetSeq()
	if seq > uint64(len(from.events)) {
		e.mu.Unlock()
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "no step ends there").
			WithViolation("seq", "no step ends there")
	}
	if seq == 0 {
		seq = uint64(len(from.events))
	}
	t := e.add(&executorv1.Task{Goal: req.GetGoal(), ForkedFrom: &executorv1.Fork{TaskId: req.GetId(), Seq: seq}})
	events := from.events[:seq]
	e.mu.Unlock()
	t.Play(events...)
	task := t.Snapshot()
	if e.OnCreate != nil {
		e.OnCreate(t, nil)
	}
	return task, nil
}

// DeleteTask deletes a task that has ended.
func (e *Executor) DeleteTask(_ context.Context, req *executorv1.DeleteTaskRequest) (*executorv1.DeleteTaskResponse, error) {
	t, err := e.find(req.GetId())
	if err != nil {
		return nil, err
	}
	if t.Snapshot().GetEndTime() == nil {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED, "the task has not ended yet")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tapes = slices.DeleteFunc(e.tapes, func(other *Tape) bool { return other == t })
	return &executorv1.DeleteTaskResponse{}, nil
}

// ExportTask sends the task in pieces of 7 bytes, which also split characters. It stops with the first error of OnWatch.
func (e *Executor) ExportTask(req *executorv1.ExportTaskRequest, stream grpc.ServerStreamingServer[executorv1.ExportTaskResponse]) error {
	t, err := e.find(req.GetId())
	if err != nil {
		return err
	}
	raw, err := protojson.Marshal(proto.Message(t.Snapshot()))
	if err != nil {
		return err
	}
	for seq := uint64(0); len(raw) > 0; seq++ {
		if err := e.callOnWatch(req.GetId(), seq); err != nil {
			return err
		}
		n := min(len(raw), 7)
		if err := stream.Send(&executorv1.ExportTaskResponse{Data: raw[:n]}); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}
