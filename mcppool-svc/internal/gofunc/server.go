package gofunc

import (
	"context"
	"encoding/json"
	"log/slog"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/worker"
)

// Tool is a function.
type Tool struct {
	Name       string
	Definition json.RawMessage // as tools/list has it
	// Call returns the result as tools/call has it. An *mcp.Error passes as it is; any other error is one of this program.
	Call func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
}

// Config says how functions are called.
type Config struct {
	Version   string // of this program
	MaxResult int    // bytes
}

// Servers are sets of functions by name. All their connections share the goroutines that the functions run in.
type Servers struct {
	cfg     Config
	log     *slog.Logger
	all     map[string]*server
	workers worker.Pool
}

// server is one set.
type server struct {
	definitions []json.RawMessage
	tools       map[string]Tool
}

// New makes servers of functions. Close them once their connections are closed.
func New(cfg Config, all map[string][]Tool, log *slog.Logger) *Servers {
	s := &Servers{cfg: cfg, log: log, all: make(map[string]*server, len(all))}
	for name, tools := range all {
		one := &server{tools: make(map[string]Tool, len(tools))}
		for _, t := range tools {
			one.definitions = append(one.definitions, t.Definition)
			one.tools[t.Name] = t
		}
		s.all[name] = one
	}
	return s
}

// Connect opens a connection; nil where there is no such server.
func (s *Servers) Connect(name string) mcp.Client {
	one, ok := s.all[name]
	if !ok {
		return nil
	}
	return &client{servers: s, server: one, name: name, done: make(chan struct{})}
}

// Close ends the goroutines that functions run in; those that are at work when they have returned.
func (s *Servers) Close() { s.workers.Close() }
