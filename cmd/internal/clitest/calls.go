package clitest

import (
	"context"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// AnswerCall calls the test's OnAnswer.
func (p *Pool) AnswerCall(_ context.Context, req *mcppoolv1.AnswerCallRequest) (*mcppoolv1.AnswerCallResponse, error) {
	if p.OnAnswer == nil {
		return &mcppoolv1.AnswerCallResponse{}, nil
	}
	return &mcppoolv1.AnswerCallResponse{}, p.OnAnswer(req)
}

// CancelCall calls the test's OnCancel.
func (p *Pool) CancelCall(_ context.Context, req *mcppoolv1.CancelCallRequest) (*mcppoolv1.CancelCallResponse, error) {
	if p.OnCancel != nil {
		p.OnCancel(req)
	}
	return &mcppoolv1.CancelCallResponse{}, nil
}

// AckCall does nothing, because the fake keeps no results.
func (p *Pool) AckCall(context.Context, *mcppoolv1.AckCallRequest) (*mcppoolv1.AckCallResponse, error) {
	return &mcppoolv1.AckCallResponse{}, nil
}
