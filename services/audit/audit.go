// Package audit writes records of what users did and of what was decided about it, one JSON object per line.
package audit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Log is an audit file. A nil Log writes nothing. Several processes, and several Logs of one, may write to the same file.
type Log struct {
	file    *os.File
	records slog.Handler
	now     func() time.Time
	log     *slog.Logger
}

// Open opens the audit file, or returns nil if path is empty. The file is opened for appending, so that log rotation may truncate it. Records that cannot be
// written are reported to log.
func Open(path string, now func() time.Time, log *slog.Logger) (*Log, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // a nil Log writes nothing
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the audit file: %w; choose a file that can be written", err)
	}
	return &Log{f, slog.NewJSONHandler(f, nil), now, log}, nil
}

// Record writes a record of what happened. What the record is about goes on if that fails.
func (l *Log) Record(ctx context.Context, what string, attrs ...slog.Attr) {
	if l == nil {
		return
	}
	r := slog.NewRecord(l.now(), slog.LevelInfo, what, 0)
	r.AddAttrs(attrs...)
	if err := l.records.Handle(ctx, r); err != nil {
		l.log.ErrorContext(ctx, "writing an audit record failed; make room, or check the audit file", "record", what, "error", err)
	}
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
