package jsonrpc

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pawl.dev/services/strictjson"
)

// Why a message cannot be used.
var (
	errNoObject = errors.New("it is not a JSON object")
	ErrTooLong  = errors.New("it is too long")
	errCase     = errors.New("a key of the message is in the wrong letter case")
	errDeep     = fmt.Errorf("it is nested more than %d levels deep", strictjson.Wire.MaxDepth)
)

// members are the members that a message may have.
var members = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// Message holds the members of a JSON-RPC message, as slices of its text. If the message is cut off or cannot be used, it holds the
// members that can be read.
type Message struct {
	ID     []byte // raw; nil if none
	Method bool   // the message has a method
	Answer bool   // the message has a result or an error
	Result []byte // raw; nil if none
	Error  []byte // raw; nil if none
	Err    error  // why the message cannot be used; nil if it can
	Own    bool   // the receiver may keep the message's memory
	Held   *Held  // of a large message that was read from a stream; the receiver releases it
}

// ReadMessage validates a message and reads its top-level members. A message that has a member's name in the wrong letter case
// cannot be used, because some readers ignore case.
func ReadMessage(text []byte) Message {
	var m Message
	wrongCase := false
	err := strictjson.Scan(text, strictjson.Wire, func(key, value []byte) {
		switch string(key) {
		case "id":
			if m.ID == nil && len(value) > 0 && value[0] != '{' && value[0] != '[' {
				m.ID = value
			}
		case "method":
			m.Method = true
		case "result":
			m.Answer, m.Result = true, value
		case "error":
			m.Answer, m.Error = true, value
		case "jsonrpc", "params":
		default:
			wrongCase = wrongCase || slices.ContainsFunc(members, func(member string) bool { return strings.EqualFold(member, string(key)) })
		}
	})
	switch {
	case errors.Is(err, strictjson.ErrDepth):
		m.Err = errDeep
	case err != nil:
		m.Err = err
	case wrongCase:
		m.Err = errCase
	}
	return m
}

// lastID matches an id at the end of a message, where some servers write it.
var lastID = regexp.MustCompile(`"id"\s*:\s*([0-9]{1,19})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// CutOff returns m, which was read from the beginning of a message, marked as too long. If m has no id, CutOff looks for it in tail, the end
// of the message.
func (m Message) CutOff(tail []byte) Message {
	m.Err, m.Answer = ErrTooLong, !m.Method
	if found := lastID.FindSubmatch(tail); m.ID == nil && found != nil {
		m.ID = found[1]
	}
	return m
}

// ID parses an id that is an integer; it returns false for other ids.
func ID(raw []byte) (int64, bool) {
	if id, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return id, true
	}
	f, err := strconv.ParseFloat(string(raw), 64) // 5.0 is 5 too
	return int64(f), err == nil && f == float64(int64(f))
}
