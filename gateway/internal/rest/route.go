package rest

import (
	"fmt"
	"regexp"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// wholeBody is the Body of a route whose request body is the request message itself.
const wholeBody = "*"

// Route is one HTTP binding of an RPC.
type Route struct {
	Method   string // GET, POST …
	Template string // as annotated: /v1/tasks/{id}/events
	RPC      protoreflect.MethodDescriptor
	Body     string // wholeBody, a field of the request, or empty if the route takes no body

	variables     []string // request fields in the template: id, agent.id
	input, output protoreflect.MessageType
}

// FullMethod returns the RPC's full name: /package.Service/Method.
func (r *Route) FullMethod() string {
	return fmt.Sprintf("/%s/%s", r.RPC.Parent().FullName(), r.RPC.Name())
}

// Streams reports whether the RPC answers with a stream.
func (r *Route) Streams() bool { return r.RPC.IsStreamingServer() }

// routesOf returns the HTTP bindings of a service's RPCs, in the order of the proto. An RPC without an annotation has none.
func routesOf(service protoreflect.ServiceDescriptor) ([]*Route, error) {
	var routes []*Route
	for i := range service.Methods().Len() {
		rpc := service.Methods().Get(i)
		rule, ok := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok || rule == nil {
			continue
		}
		for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			route, err := newRoute(rpc, r)
			if err != nil {
				return nil, fmt.Errorf("read the HTTP annotation of %s: %w", rpc.FullName(), err)
			}
			routes = append(routes, route)
		}
	}
	return routes, nil
}

var variable = regexp.MustCompile(`\{([^=}]*)`)

func newRoute(rpc protoreflect.MethodDescriptor, rule *annotations.HttpRule) (*Route, error) {
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
	for _, m := range variable.FindAllStringSubmatch(route.Template, -1) {
		route.variables = append(route.variables, m[1])
	}
	var err error
	if route.input, err = protoregistry.GlobalTypes.FindMessageByName(rpc.Input().FullName()); err != nil {
		return nil, err
	}
	route.output, err = protoregistry.GlobalTypes.FindMessageByName(rpc.Output().FullName())
	return route, err
}
