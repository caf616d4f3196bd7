package route

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Table holds the routes of a set of services.
type Table struct {
	routes []*Route
}

// NewTable reads the HTTP annotations of the services.
func NewTable(services ...protoreflect.ServiceDescriptor) (*Table, error) {
	t := &Table{}
	for _, service := range services {
		for i := range service.Methods().Len() {
			routes, err := ofRPC(service.Methods().Get(i))
			if err != nil {
				return nil, err
			}
			t.routes = append(t.routes, routes...)
		}
	}
	return t, nil
}

// Routes returns all routes, in the order of the contracts.
func (t *Table) Routes() []*Route { return slices.Clone(t.routes) }

// Match finds the route of a request and the values of its path variables. Where the path exists with other methods
// only, the route is nil and allow names them, sorted; where it does not exist at all, allow is empty.
func (t *Table) Match(method, path string) (route *Route, values map[string]string, allow []string) {
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, nil, nil
	}
	rest, verb := cutVerb(path)
	segments := strings.Split(rest, "/")
	for _, r := range t.routes {
		values, ok := r.match(segments, verb)
		if !ok {
			continue
		}
		if r.Method == method {
			return r, values, nil
		}
		allow = append(allow, r.Method)
	}
	slices.Sort(allow)
	return nil, nil, slices.Compact(allow)
}
