package api

import (
	"strconv"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// outputOnly holds the fields that clients may send back, but cannot change.
var outputOnly = map[string]bool{"id": true, "etag": true, "user_sub": true, "create_time": true, "update_time": true}

// merge returns old with the fields of a that the mask names; an empty mask names the fields that are set in a, and "*" all fields.
func merge(old *storagev1.Agent, a *executorv1.Agent, mask *fieldmaskpb.FieldMask) (*storagev1.Agent, error) {
	next := agent("", "", old)
	to, from, fields := next.ProtoReflect(), a.ProtoReflect(), a.ProtoReflect().Descriptor().Fields()
	paths := mask.GetPaths()
	if all := len(paths) == 1 && paths[0] == "*"; all || len(paths) == 0 {
		paths = nil
		for i := range fields.Len() {
			if all || from.Has(fields.Get(i)) {
				paths = append(paths, string(fields.Get(i).Name()))
			}
		}
	}
	for _, path := range paths {
		f := fields.ByTextName(path)
		switch {
		case f == nil:
			return nil, invalidField("update_mask", strconv.Quote(path)+" is not a field of an agent",
				"update_mask names %q, which is not a field of an agent; name whole fields, as in the contract", path)
		case outputOnly[path]:
		case from.Has(f):
			to.Set(f, from.Get(f))
		default:
			to.Clear(f)
		}
	}
	out := storedAgent(next)
	out.Rev, out.CreateTime, out.RequestId, out.RequestHash = old.GetRev(), old.GetCreateTime(), old.GetRequestId(), old.GetRequestHash()
	return out, nil
}
