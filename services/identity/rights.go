package identity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"google.golang.org/protobuf/reflect/protoreflect"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Rights restrict a key of role service. The zero value restricts nothing.
type Rights struct {
	// OnBehalfOf has globs of the user ids for which the service may act; nil: all.
	OnBehalfOf []string `yaml:"on_behalf_of,omitempty,flow"`
	// Methods has globs of the gRPC methods that the service may call, as package.Service/Method; nil: all. A glob without a slash is for all methods
	// of the services that it matches.
	Methods []string `yaml:"methods,omitempty,flow"`
}

// check returns an error that names the first field that is wrong.
func (r Rights) check(roles []Role) error {
	return cmp.Or(checkGlobs("on_behalf_of", r.OnBehalfOf, roles), checkGlobs("methods", r.Methods, roles))
}

func checkGlobs(field string, globs []string, roles []Role) error {
	switch {
	case globs == nil:
		return nil
	case !slices.Contains(roles, RoleService):
		return fmt.Errorf("field %s: it restricts services, and the key has not the role %s", field, RoleService)
	case len(globs) == 0:
		return fmt.Errorf("field %s: the list is empty; leave the field out if it restricts nothing", field)
	}
	for _, g := range globs {
		if g == "" || !doublestar.ValidatePattern(g) {
			return fmt.Errorf("field %s: %.100q is not a glob; use * (not over a slash), **, ?, [a-z] and {a,b}, and a backslash before a character that is meant literally", field, g)
		}
	}
	return nil
}

// checkMethods returns an error for the first glob that matches no method. The key file may have such globs, for methods of other versions.
func checkMethods(globs []string) error {
	var services, methods []string
	for _, file := range []protoreflect.FileDescriptor{
		executorv1.File_pawl_executor_v1_executor_service_proto, executorv1.File_pawl_executor_v1_agent_service_proto,
		conversationv1.File_pawl_conversation_v1_topic_service_proto, identityv1.File_pawl_identity_v1_identity_proto, plannerv1.File_pawl_planner_v1_planner_proto,
		mcppoolv1.File_pawl_mcppool_v1_mcppool_proto, mcppoolv1.File_pawl_mcppool_v1_peer_proto,
	} {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			services = append(services, string(s.FullName()))
			for j := range s.Methods().Len() {
				methods = append(methods, fmt.Sprintf("%s/%s", s.FullName(), s.Methods().Get(j).Name()))
			}
		}
	}
	for _, g := range globs {
		if !slices.ContainsFunc(methods, Rights{Methods: []string{g}}.allowMethod) {
			return fmt.Errorf("field methods: %.100q matches no method; write SERVICE/METHOD, SERVICE/* or a glob of services, which are %s", g, strings.Join(services, ", "))
		}
	}
	return nil
}

func (r Rights) allowUser(sub string) bool {
	return r.OnBehalfOf == nil || slices.ContainsFunc(r.OnBehalfOf, func(glob string) bool { return doublestar.MatchUnvalidated(glob, sub) })
}

func (r Rights) allowMethod(method string) bool {
	return r.Methods == nil || slices.ContainsFunc(r.Methods, func(glob string) bool {
		glob = strings.TrimPrefix(glob, "/")
		if !strings.Contains(glob, "/") {
			glob += "/*"
		}
		return doublestar.MatchUnvalidated(glob, strings.TrimPrefix(method, "/"))
	})
}

// Every caller may call the methods with the first two prefixes: it can learn who it is, and gRPC's own services work. A service may also call the
// others for itself.
const (
	grpcPrefix     = "/grpc."
	whoAmIMethod   = "/pawl.identity.v1.IdentityService/WhoAmI"
	replicasPrefix = "/pawl.mcppool.v1.McpPoolPeerService/"
)

// checkMethod returns an error unless the principal may call the method. A principal that only has the role service has no data of its own: it
// acts on behalf of users.
func (p Principal) checkMethod(method string, onBehalf bool) error {
	if strings.HasPrefix(method, grpcPrefix) || method == whoAmIMethod {
		return nil
	}
	if !p.Rights.allowMethod(method) {
		return denied("the key %s may not call %s; an operator can create one whose methods include it", p.KeyID, method)
	}
	if !onBehalf && p.Has(RoleService) && !p.Has(RoleUser) && !p.IsOperator() && !strings.HasPrefix(method, replicasPrefix) {
		return denied("a service acts on behalf of users: send the user's id as %s (over gRPC), or use a key that also has the role %q", onBehalfKey, RoleUser)
	}
	return nil
}
