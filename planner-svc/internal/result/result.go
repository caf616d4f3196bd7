// Package result reads the outputs of steps: their texts, structured values, media and the files that they name. It knows nothing of goals and
// languages.
package result

import (
	"encoding/json"
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"
)

// Result is the result of a step.
type Result struct {
	*plannerv1.HistoryEntry
	Message    string  // the joined text of the output
	Structured string  // JSON, "" if none
	Media      []Media // pictures, audio and other media
}

// Media is a part of an output other than text.
type Media struct {
	Type string `json:"type"` // image, audio, resource, resource_link
	MIME string `json:"mimeType"`
	URI  string `json:"uri"`
	Name string `json:"name"`
	Text string `json:"text"`
}

// Of reads an entry of the history.
func Of(e *plannerv1.HistoryEntry) *Result {
	r := &Result{HistoryEntry: e}
	var out struct {
		Message    json.RawMessage `json:"message"`
		Structured json.RawMessage `json:"structured"`
		Media      []Media         `json:"media"`
	}
	if json.Unmarshal([]byte(e.GetOutputJson()), &out) != nil {
		r.Message = e.GetOutputJson()
		return r
	}
	r.Message, r.Media = strictjson.Content(string(out.Message)), out.Media
	if !strictjson.Absent(out.Structured) {
		r.Structured = string(out.Structured)
	}
	return r
}

// OK reports whether the step succeeded.
func (r *Result) OK() bool { return r.GetResult() == plannerv1.StepResult_STEP_RESULT_SUCCESS }

// Text returns the text of the step, as PlannedStep.from_history defines it: the offsets of read_output count its bytes.
func (r *Result) Text() string {
	switch {
	case !r.OK():
		return r.GetError()
	case r.Structured == "" || json.Valid([]byte(r.Message)):
		return r.Message
	case r.Message == "":
		return strictjson.Compact(r.Structured)
	}
	return r.Message + "\n" + strictjson.Compact(r.Structured)
}

// Paths returns the paths that a result names, each once: the strings and the `path` members of its lists, or the [FILE] lines of a text. It leaves out
// members of the type `directory`.
func (r *Result) Paths() []string {
	var paths []string
	add := func(path string) {
		if path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	if r.Structured == "" {
		for line := range strings.Lines(r.Message) {
			if file, ok := strings.CutPrefix(strings.TrimSpace(line), "[FILE] "); ok {
				add(strings.TrimSpace(file))
			}
		}
		return paths
	}
	for _, key := range []string{"files", "paths", "entries", "matches", "results"} {
		list, _ := strictjson.Member(r.Structured, key)
		for item := range strictjson.Items(list) {
			path := item
			if strictjson.Kind(item) == "object" {
				kind, _ := strictjson.Member(item, "type")
				if path, _ = strictjson.Member(item, "path"); kind == `"directory"` {
					continue
				}
			}
			if strictjson.Kind(path) == "string" {
				add(strictjson.Content(path))
			}
		}
	}
	return paths
}
