package wire

import (
	"context"
	"errors"

	"pawl.dev/planner-svc/internal/llm"
)

// emitted is an error of whoever takes the text.
type emitted struct{ error }

// Emit passes text on, where there is any; its error is that of who takes it, and End returns it as it is.
func Emit(emit func(string) error, text string) error {
	if text == "" {
		return nil
	}
	if err := emit(text); err != nil {
		return emitted{err}
	}
	return nil
}

// Tokens is how many of them a provider counted.
func Tokens(n int64) uint64 { return uint64(max(n, 0)) }

// Key asks for a model's key.
func Key(key func() (string, error)) (string, error) {
	k, err := key()
	if err != nil {
		return "", &llm.Error{Class: llm.Auth, Message: err.Error(), Err: err}
	}
	return k, nil
}

// End says how a request ended: err is what reading its answer brought, and failure reads an error of the provider's SDK.
func End(ctx context.Context, err error, failure func(error) error, key string) error {
	var own emitted
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own.error
	}
	return Failed(ctx, failure(err), key)
}
