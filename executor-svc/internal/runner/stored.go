package runner

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/history"
)

const (
	// plannerOutputs bounds the bytes of the outputs that are read from the journal for planner calls, while they run; a user gets half.
	plannerOutputs = 64 << 20
	// loadFactor times the size of an output is what it takes while it is read and sent.
	loadFactor = 2
)

// storedOutput is an output that the history does not keep.
type storedOutput struct {
	seq  uint64 // of its fact
	size int
}

// outputReader reads outputs that the history does not keep, for one use; the caller calls done. One reader at a time reads, because the outputs may
// be large.
type outputReader struct {
	s       *Session
	reading bool
}

// output returns the output of a step.
func (r *outputReader) output(ctx context.Context, e *history.Entry) (string, error) {
	if !e.IsStored() {
		return e.OutputJSON, nil
	}
	if !r.reading {
		select {
		case r.s.r.readers <- struct{}{}:
			r.reading = true
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return r.s.readOutput(ctx, e.OutputSeq)
}

func (r *outputReader) done() {
	if r.reading {
		<-r.s.r.readers
		r.reading = false
	}
}

func (s *Session) readOutput(ctx context.Context, seq uint64) (string, error) {
	text, err := s.ReadOutput(ctx, seq)
	if err != nil && ctx.Err() == nil {
		err = errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "an output could not be read from the journal: %w", err)
	}
	return text, err
}

// noteStored remembers where the output of an entry of the planner's history is stored. Until withOutputs, the entry says that it was left out.
func (s *Session) noteStored(h *plannerv1.HistoryEntry, e *history.Entry) {
	h.OutputJson = fmt.Sprintf(`{"message":"(%d bytes, left out: too large for a planner request)"}`, e.OutputSize)
	h.OutputOmitted = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[h.GetStepId()] = storedOutput{seq: e.OutputSeq, size: e.OutputSize}
}

// shallowCopy returns a copy that shares the values of all fields with the original.
func shallowCopy(c *plannerv1.TaskContext) *plannerv1.TaskContext {
	out := &plannerv1.TaskContext{}
	c.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.ProtoReflect().Set(f, v)
		return true
	})
	return out
}

// withOutputs returns a context with the stored outputs that fit into a request, and what they use of the budget until the caller releases it. Newer
// outputs have precedence.
func (s *Session) withOutputs(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.TaskContext, *serve.Holding, error) {
	load, size := s.toLoad(c.GetHistory())
	if len(load) == 0 {
		return c, nil, nil
	}
	held, err := s.r.outputs.Acquire(ctx, s.head.GetUserSub(), int64(loadFactor*size))
	if err != nil {
		return nil, nil, err
	}
	full := shallowCopy(c) // c keeps its own entries, without the outputs
	full.History = slices.Clone(c.GetHistory())
	for i, seq := range load {
		e := proto.CloneOf(full.History[i])
		if e.OutputJson, err = s.readOutput(ctx, seq); err != nil {
			held.Release()
			return nil, nil, err
		}
		e.OutputOmitted = false
		full.History[i] = e
	}
	return full, held, nil
}

// toLoad returns the seqs of the stored outputs that fit into one request, by their entries, and their size.
func (s *Session) toLoad(entries []*plannerv1.HistoryEntry) (seqs map[int]uint64, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stored) == 0 {
		return nil, 0
	}
	seqs = map[int]uint64{}
	available := historyBytes
	for i, e := range slices.Backward(entries) {
		stored, ok := s.stored[e.GetStepId()]
		switch {
		case !e.GetOutputOmitted() || !ok:
			available -= len(e.GetOutputJson())
		case stored.size <= available:
			available -= stored.size
			size += stored.size
			seqs[i] = stored.seq
		}
	}
	return seqs, size
}
