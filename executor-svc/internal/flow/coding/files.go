package coding

import (
	"encoding/json"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// maxFileChanges is how many changed files of one step are recorded.
const maxFileChanges = 1000

var changeTypes = map[string]executorv1.FileChangeType{
	"created":  executorv1.FileChangeType_FILE_CHANGE_TYPE_CREATED,
	"modified": executorv1.FileChangeType_FILE_CHANGE_TYPE_MODIFIED,
	"deleted":  executorv1.FileChangeType_FILE_CHANGE_TYPE_DELETED,
}

// filesChanged returns the files that a tool changed, as its output lists them in `structured.changes`. Other forms are ignored, because any
// tool may have such a field.
func filesChanged(output string) (out []*storagev1.FileChanged) {
	var result struct {
		Structured struct {
			Changes []json.RawMessage `json:"changes"`
		} `json:"structured"`
	}
	if json.Unmarshal([]byte(output), &result) != nil {
		return nil
	}
	for _, raw := range result.Structured.Changes {
		var c struct{ Path, Change, From, Backup, SHA256 string }
		if json.Unmarshal(raw, &c) != nil || c.Path == "" || changeTypes[c.Change] == 0 {
			continue
		}
		if len(out) == maxFileChanges {
			break
		}
		out = append(out, &storagev1.FileChanged{Path: c.Path, Type: changeTypes[c.Change], FromPath: c.From, BackupPath: c.Backup, Sha256: c.SHA256})
	}
	return out
}
