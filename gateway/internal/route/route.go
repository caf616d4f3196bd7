package route

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Whole is the Body of a route whose request body is the request message itself.
const Whole = "*"

// Route is one HTTP binding of an RPC.
type Route struct {
	Method   string // GET, POST …
	Template string // as annotated: /v1/tasks/{id}/events
	RPC      protoreflect.MethodDescriptor
	Body     string // Whole, a field of the request, or empty where the route takes no body

	segments []segment
	verb     string
}

// A segment is a literal, or a variable named by a field path of the request.
type segment struct {
	literal  string
	variable string
}

// FullMethod is the RPC's name on the wire: /package.Service/Method.
func (r *Route) FullMethod() string {
	return fmt.Sprintf("/%s/%s", r.RPC.Parent().FullName(), r.RPC.Name())
}

// Streams says whether the RPC answers with a stream.
func (r *Route) Streams() bool { return r.RPC.IsStreamingServer() }

// Document says whether the RPC answers with one document in pieces: a stream of messages that hold nothing but bytes.
func (r *Route) Document() bool {
	fields := r.RPC.Output().Fields()
	return r.Streams() && fields.Len() == 1 && fields.Get(0).Kind() == protoreflect.BytesKind
}

// Variables are the field paths that the path fills.
func (r *Route) Variables() []string {
	var names []string
	for _, s := range r.segments {
		if s.variable != "" {
			names = append(names, s.variable)
		}
	}
	return names
}

// ofRPC returns the bindings of one RPC; none where it has no annotation.
func ofRPC(rpc protoreflect.MethodDescriptor) ([]*Route, error) {
	rule, ok := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil, nil
	}
	var routes []*Route
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		route, err := fromRule(rpc, r)
		if err != nil {
			return nil, fmt.Errorf("read the HTTP annotation of %s: %w", rpc.FullName(), err)
		}
		routes = append(routes, route)
	}
	return routes, nil
}

func fromRule(rpc protoreflect.MethodDescriptor, rule *annotations.HttpRule) (*Route, error) {
	route := &Route{RPC: rpc, Body: rule.GetBody()}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		route.Method, route.Template = "GET", p.Get
	case *annotations.HttpRule_Post:
		route.Method, route.Template = "POST", p.Post
	case *annotations.HttpRule_Put:
		route.Method, route.Template = "PUT", p.Put
	case *annotations.HttpRule_Patch:
		route.Method, route.Template = "PATCH", p.Patch
	case *annotations.HttpRule_Delete:
		route.Method, route.Template = "DELETE", p.Delete
	default:
		return nil, fmt.Errorf("pattern %T is not one that the gateway serves", p)
	}
	return route, route.parse()
}

// parse takes the template apart. Templates are plain on purpose: literals, {field} and one :verb at the end.
func (r *Route) parse() error {
	path, ok := strings.CutPrefix(r.Template, "/")
	if !ok {
		return fmt.Errorf("template %q does not begin with a slash", r.Template)
	}
	path, r.verb = cutVerb(path)
	for part := range strings.SplitSeq(path, "/") {
		name, isVariable := strings.CutPrefix(part, "{")
		name, closed := strings.CutSuffix(name, "}")
		switch {
		case part == "" || isVariable != closed || strings.ContainsAny(name, "{}=*"):
			return fmt.Errorf("template %q has the segment %q; only literals and {field} are served", r.Template, part)
		case isVariable:
			r.segments = append(r.segments, segment{variable: name})
		default:
			r.segments = append(r.segments, segment{literal: part})
		}
	}
	return nil
}

// match returns the variables' values where the path is this route's.
func (r *Route) match(segments []string, verb string) (map[string]string, bool) {
	if verb != r.verb || len(segments) != len(r.segments) {
		return nil, false
	}
	values := map[string]string{}
	for i, s := range r.segments {
		switch {
		case s.variable == "":
			if s.literal != segments[i] {
				return nil, false
			}
		case segments[i] == "" || strings.Contains(segments[i], ":"):
			return nil, false // no id is empty or holds a colon: `/v1/tasks/` and `abc:resume` are no tasks
		default:
			values[s.variable] = segments[i]
		}
	}
	return values, true
}

// cutVerb takes the :verb off the last segment of a path.
func cutVerb(path string) (rest, verb string) {
	i := strings.LastIndexByte(path, ':')
	if i < 0 || i < strings.LastIndexByte(path, '/') {
		return path, ""
	}
	return path[:i], path[i+1:]
}
