package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"pawl.dev/services/strictjson"
)

const (
	// maxSchema and maxURL bound what a question may carry; a longer message is cut.
	maxSchema = 64 << 10
	maxURL    = 8 << 10
)

// readQuestion reads the parameters of elicitation/create. The error is for the server.
func readQuestion(raw json.RawMessage) (*Question, error) {
	params, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	q := &Question{Message: cut(stringOf(params["message"]))}
	switch mode := stringOf(params["mode"]); mode {
	case "", "form":
		schema := params["requestedSchema"]
		switch {
		case len(schema) > maxSchema:
			return nil, fmt.Errorf("requestedSchema has more than %d KiB", maxSchema>>10)
		case strictjson.Absent(schema):
			return nil, errors.New("requestedSchema is missing")
		}
		q.Schema = string(schema)
	case "url":
		q.URL = stringOf(params["url"])
		if err := safeURL(q.URL); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the mode %.40q is not known", mode)
	}
	return q, nil
}

// safeURL refuses what a person had better not open: a server chose it.
func safeURL(text string) error {
	if len(text) > maxURL {
		return fmt.Errorf("url has more than %d KiB", maxURL>>10)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New("url is not an address that can be opened")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if isLoopback := u.Hostname() == "localhost" || err == nil && addr.IsLoopback(); u.Scheme == "https" || u.Scheme == "http" && isLoopback {
		return nil
	}
	return errors.New("url must be https")
}
