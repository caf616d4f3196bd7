package rig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
)

// Completions has the calls of CompletionService, over gRPC or REST. Pawl's error responses are returned as *Refused.
type Completions interface {
	Complete(ctx context.Context, req *pipelinev1.CompleteRequest) (*pipelinev1.CompleteResponse, error)
	// StreamComplete calls each for the events.
	StreamComplete(ctx context.Context, req *pipelinev1.CompleteRequest, each func(*pipelinev1.StreamCompleteResponse)) error
}

// GRPCCompletions is a client of CompletionService over gRPC.
type GRPCCompletions struct {
	completions pipelinev1.CompletionServiceClient
}

// NewGRPCCompletions returns a client over a connection to the executor.
func NewGRPCCompletions(conn grpc.ClientConnInterface) GRPCCompletions {
	return GRPCCompletions{pipelinev1.NewCompletionServiceClient(conn)}
}

// Complete implements Completions.
func (c GRPCCompletions) Complete(ctx context.Context, req *pipelinev1.CompleteRequest) (*pipelinev1.CompleteResponse, error) {
	res, err := c.completions.Complete(ctx, req)
	return res, refused(err)
}

// StreamComplete implements Completions.
func (c GRPCCompletions) StreamComplete(ctx context.Context, req *pipelinev1.CompleteRequest, each func(*pipelinev1.StreamCompleteResponse)) error {
	stream, err := c.completions.StreamComplete(ctx, &pipelinev1.StreamCompleteRequest{Completion: req})
	for err == nil {
		var e *pipelinev1.StreamCompleteResponse
		if e, err = stream.Recv(); err == nil {
			each(e)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return refused(err)
}

// Complete implements Completions.
func (c REST) Complete(ctx context.Context, req *pipelinev1.CompleteRequest) (*pipelinev1.CompleteResponse, error) {
	res := &pipelinev1.CompleteResponse{}
	return res, c.do(ctx, http.MethodPost, "/v1/completions", req, res)
}

// StreamComplete implements Completions.
func (c REST) StreamComplete(ctx context.Context, in *pipelinev1.CompleteRequest, each func(*pipelinev1.StreamCompleteResponse)) error {
	raw, err := protojson.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/completions:stream", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := c.send(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var broken error
	err = readEvents(res.Body, func(e Event) bool {
		if e.Name == "end" {
			return false
		}
		out := &pipelinev1.StreamCompleteResponse{}
		if broken = protojson.Unmarshal([]byte(e.Data), out); broken == nil {
			each(out)
		}
		return broken == nil
	})
	return errors.Join(err, broken)
}
