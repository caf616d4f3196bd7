package rest

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"pawl.dev/services/strictjson"
)

const maskType = "google.protobuf.FieldMask"

// maskedQuery returns the query with an update mask for the services. REST clients write masks with JSON names
// (`displayName`), services read the proto names. If the query has no mask, the mask is the top-level fields of the body except id and
// etag, so that a nested object replaces the stored one.
func maskedQuery(rt *Route, body []byte, query url.Values) (url.Values, error) {
	mask := maskField(rt.RPC.Input())
	if mask == nil || rt.Body == "" || rt.Body == wholeBody {
		return query, nil
	}
	resource := rt.RPC.Input().Fields().ByName(protoreflect.Name(rt.Body)).Message()
	paths, err := queryPaths(resource, mask, query)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		paths = bodyPaths(resource, body)
	}
	query = maps.Clone(query)
	query.Del(mask.TextName())
	query.Del(mask.JSONName())
	if len(paths) > 0 {
		query.Set(mask.JSONName(), strings.Join(paths, ","))
	}
	return query, nil
}

func maskField(md protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.Message() != nil && fd.Message().FullName() == maskType {
			return fd
		}
	}
	return nil
}

func queryPaths(resource protoreflect.MessageDescriptor, mask protoreflect.FieldDescriptor, query url.Values) ([]string, error) {
	var paths []string
	for _, value := range append(query[mask.JSONName()], query[mask.TextName()]...) {
		for path := range strings.SplitSeq(value, ",") {
			if path = strings.TrimSpace(path); path == "" {
				continue
			}
			translated, what := translate(resource, path)
			if what != "" {
				return nil, invalid("the parameter %s of the query does not fit: %s", mask.JSONName(), what).
					WithViolation(mask.JSONName(), what)
			}
			paths = append(paths, translated)
		}
	}
	return slices.Compact(paths), nil
}

// translate turns a path of JSON names into a path of proto names. If the path names no field, what is the reason, else "". Below a
// map or list the path stays as it is, and so does `*`, which means all fields.
func translate(md protoreflect.MessageDescriptor, path string) (translated, what string) {
	if path == "*" {
		return path, ""
	}
	parts := strings.Split(path, ".")
	for i, part := range parts {
		fd := field(md, part)
		if fd == nil {
			return "", unknownField(part, md)
		}
		parts[i] = string(fd.Name())
		if fd.IsMap() || fd.IsList() || fd.Message() == nil {
			break
		}
		md = fd.Message()
	}
	return strings.Join(parts, "."), ""
}

func bodyPaths(resource protoreflect.MessageDescriptor, body []byte) []string {
	var paths []string
	for name := range strictjson.Members(body) { // decode reports errors in the body
		fd := field(resource, string(name))
		if fd != nil && fd.Name() != "id" && fd.Name() != "etag" {
			paths = append(paths, string(fd.Name()))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
