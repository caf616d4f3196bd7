package mcppool

import (
	"fmt"
	"io"
	"log/slog"
	"os"
)

// openAudit opens the file of audit records for appending; the handler is nil if none. The file may be
// truncated under it, as log rotation does.
func openAudit(path string) (slog.Handler, io.Closer, error) {
	if path == "" {
		return nil, io.NopCloser(nil), nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the audit file: %w; choose a file that can be written", err)
	}
	return slog.NewJSONHandler(f, nil), f, nil
}
