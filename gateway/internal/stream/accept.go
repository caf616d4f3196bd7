package stream

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

const (
	sseType    = "text/event-stream"
	ndjsonType = "application/x-ndjson"
)

// wantsSSE reports whether the Accept header has the type of Server-Sent Events, with at least the quality of NDJSON. Wildcards do
// not count, because every client sends them.
func wantsSSE(header http.Header) bool {
	var sse, ndjson float64
	for entry := range strings.SplitSeq(strings.Join(header.Values("Accept"), ","), ",") {
		name, params, err := mime.ParseMediaType(entry)
		if err != nil {
			continue
		}
		switch name {
		case sseType:
			sse = max(sse, quality(params))
		case ndjsonType:
			ndjson = max(ndjson, quality(params))
		}
	}
	return sse > 0 && sse >= ndjson
}

func quality(params map[string]string) float64 {
	q, err := strconv.ParseFloat(params["q"], 64)
	if err != nil {
		return 1
	}
	return q
}
