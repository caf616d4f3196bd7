package mcp

import (
	"encoding/json"
	"strconv"

	"pawl.dev/services/strictjson"
)

// openFirst asks the person to open what a server wants opened before it does the call (2025-11-25). The server says with the
// error that it did not do it. Where the person has done it all, or the server says so, the call is made again.
func (c *client) openFirst(r *running, last round, refusal *Error) (round, error) {
	next := round{number: last.number + 1, again: true, acted: last.acted, busy: last.busy}
	questions, elicitations := readPages(next.number, refusal.Data)
	if len(questions) == 0 || next.number > maxRounds {
		return next, refusal
	}
	answers, err := c.askAll(r, questions, elicitations)
	if err != nil {
		return next, err
	}
	for _, a := range answers {
		if a.Action != Accept {
			e := *refusal
			e.Message = "the server wants a page opened first, which was not done: " + e.Message
			return next, &e
		}
	}
	return next, nil
}

// readPages reads what an error says is to be opened; nothing where that cannot be read, or had better not be opened.
func readPages(number int, data json.RawMessage) (questions map[string]Question, elicitations map[string]string) {
	fields, err := strictjson.MemberMap(data)
	if err != nil {
		return nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(fields["elicitations"], &list) != nil || len(list) > maxInputs {
		return nil, nil
	}
	questions, elicitations = make(map[string]Question), make(map[string]string)
	for i, item := range list {
		params, err := strictjson.MemberMap(item)
		if err != nil {
			return nil, nil
		}
		q, err := readQuestion(params)
		if err != nil || q.URL == "" {
			return nil, nil
		}
		name := strconv.Itoa(i + 1)
		q.ID = "u" + strconv.Itoa(number) + ":" + name
		questions[name], elicitations[name] = q, stringOf(params["elicitationId"])
	}
	return questions, elicitations
}
