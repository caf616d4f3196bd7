package mcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// judge puts a verdict in the place of an answer that cannot be passed on, so that the one call that it was for fails, and
// the connection goes on. It looks like a JSON-RPC error under a word that no server knows.
type judge struct {
	word  string
	limit int
}

func newJudge(limit int) *judge { return &judge{word: rand.Text(), limit: limit} }

// verdictCode is the JSON-RPC code of verdicts.
const verdictCode = -32099

// details is the verdict on an answer, and line the same as a message.
func (j *judge) details(why error) *mcp.JSONRPCErrorDetails {
	return &mcp.JSONRPCErrorDetails{Code: verdictCode, Message: j.word + name(why)}
}

func (j *judge) line(id []byte, why error) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"%s%s"}}`+"\n", id, verdictCode, j.word, name(why))
}

// read returns the error that a verdict stands for; nil where an error is the server's own.
func (j *judge) read(e *mcp.JSONRPCErrorDetails) *Error {
	if j == nil || e == nil || e.Code != verdictCode {
		return nil
	}
	reason, ours := strings.CutPrefix(e.Message, j.word)
	if !ours {
		return nil
	}
	for _, why := range reasons {
		if name(why) == reason {
			return j.failure(why)
		}
	}
	return j.failure(strictjson.ErrInvalid)
}

// failure is what a call comes to whose answer cannot be used. The tool ran.
func (j *judge) failure(why error) *Error {
	if errors.Is(why, errTooLong) {
		e := tooLong(j.limit)
		e.Ended = true
		return e
	}
	return &Error{Kind: Protocol, Sent: true, Ended: true, Err: why,
		Message: fmt.Sprintf("the server answered, but its message is refused: %v", why)}
}

var errTooLong = errors.New("it is too long")

// reasons are all there are for a verdict.
var reasons = []error{errTooLong, strictjson.ErrDuplicate, errCase, errDeep, strictjson.ErrInvalid}

func name(why error) string {
	for i, r := range reasons {
		if errors.Is(why, r) {
			return fmt.Sprint(i)
		}
	}
	return ""
}

func tooLong(limit int) *Error {
	return &Error{Kind: TooLarge, Sent: true,
		Message: fmt.Sprintf("the server sent a message of more than %s; ask the tool for less, or have an operator raise the pool's "+
			"--max-message-bytes", sizeOf(limit))}
}

// sizeOf is a limit for people.
func sizeOf(limit int) string {
	switch {
	case limit >= 1<<20 && limit%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", limit>>20)
	case limit >= 1<<10 && limit%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", limit>>10)
	}
	return fmt.Sprintf("%d bytes", limit)
}

// numericID is what ids of requests are like here; an answer to any other is nobody's.
var numericID = regexp.MustCompile(`^[0-9]{1,19}$`)

// lastID finds the id of a message at its end, where some servers write it.
var lastID = regexp.MustCompile(`"id"\s*:\s*([0-9]{1,19})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
