package identity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// call authenticates a call with that incoming metadata.
func call(t *testing.T, a Authenticator, method string, md metadata.MD) (p Principal, known bool, err error) {
	t.Helper()
	authenticated, err := Authenticate(metadata.NewIncomingContext(ctx, md), a, method)
	p, noPrincipal := FromContext(authenticated)
	return p, noPrincipal == nil, err
}

const (
	ok             = commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED
	noAuth         = commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED
	forbidden      = commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED
	invalidRequest = commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST
)

func TestAuthenticateWithKeys(t *testing.T) {
	k, _ := open(t, keyPath(t))
	alice, aliceKey := mustAdd(t, k, "alice", RoleUser)
	root, rootKey := mustAdd(t, k, "root", RoleUser, RoleOperator)
	service, serviceKey := mustAdd(t, k, "executor", RoleService)
	bob := Principal{Sub: "bob", Roles: []Role{RoleUser}, KeyID: serviceKey.ID, OnBehalf: true}

	cases := map[string]struct {
		md     metadata.MD
		reason commonv1.ErrorReason
		want   Principal
	}{
		"nothing sent":           {nil, noAuth, Principal{}},
		"user":                   {metadata.Pairs("authorization", "Bearer "+alice), ok, Principal{Sub: "alice", Roles: []Role{RoleUser}, KeyID: aliceKey.ID}},
		"scheme in any case":     {metadata.Pairs("authorization", "bearer "+alice), ok, Principal{Sub: "alice", Roles: []Role{RoleUser}, KeyID: aliceKey.ID}},
		"operator":               {metadata.Pairs("authorization", "Bearer "+root), ok, Principal{Sub: "root", Roles: []Role{RoleUser, RoleOperator}, KeyID: rootKey.ID}},
		"no scheme":              {metadata.Pairs("authorization", alice), noAuth, Principal{}},
		"another scheme":         {metadata.Pairs("authorization", "Basic "+alice), noAuth, Principal{}},
		"empty token":            {metadata.Pairs("authorization", "Bearer "), noAuth, Principal{}},
		"two credentials":        {metadata.Pairs("authorization", "Bearer "+alice, "authorization", "Bearer "+root), noAuth, Principal{}},
		"service for a user":     {metadata.Pairs("authorization", "Bearer "+service, onBehalfKey, "bob"), ok, bob},
		"service, percent":       {metadata.Pairs("authorization", "Bearer "+service, onBehalfKey, "%62ob"), ok, bob},
		"user for a user":        {metadata.Pairs("authorization", "Bearer "+alice, onBehalfKey, "bob"), forbidden, Principal{}},
		"user for himself":       {metadata.Pairs("authorization", "Bearer "+alice, onBehalfKey, "alice"), forbidden, Principal{}},
		"operator for a user":    {metadata.Pairs("authorization", "Bearer "+root, onBehalfKey, "bob"), forbidden, Principal{}},
		"no one for a user":      {metadata.Pairs(onBehalfKey, "bob"), noAuth, Principal{}},
		"service for no user":    {metadata.Pairs("authorization", "Bearer "+service, onBehalfKey, ""), invalidRequest, Principal{}},
		"service for a bad user": {metadata.Pairs("authorization", "Bearer "+service, onBehalfKey, "a%20b"), invalidRequest, Principal{}},
		"bad encoding":           {metadata.Pairs("authorization", "Bearer "+service, onBehalfKey, "%zz"), invalidRequest, Principal{}},
		"two users":              {metadata.Pairs("authorization", "Bearer "+service, onBehalfKey, "a", onBehalfKey, "b"), invalidRequest, Principal{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, known, err := call(t, k, "/pawl.v1.S/M", c.md)
			if errs.Reason(err) != c.reason || known != (c.reason == ok) {
				t.Errorf("err = %v, want %v", err, c.reason)
			}
			if diff := cmp.Diff(c.want, p); diff != "" {
				t.Errorf("principal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHealthIsExemptAndReflectionIsNot(t *testing.T) {
	k, _ := open(t, keyPath(t))
	if _, known, err := call(t, k, "/grpc.health.v1.Health/Check", nil); err != nil || known {
		t.Errorf("health: known %v, %v", known, err)
	}
	for _, method := range []string{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.health.v1.Healthy/Check", "/x/grpc.health.v1.Health/Check"} {
		if _, _, err := call(t, k, method, nil); errs.Reason(err) != noAuth {
			t.Errorf("%s: %v, want UNAUTHENTICATED", method, err)
		}
	}
}

func TestLocal(t *testing.T) {
	everything := Principal{Sub: "local", Roles: []Role{RoleUser, RoleOperator, RoleService}}
	cases := map[string]struct {
		md     metadata.MD
		reason commonv1.ErrorReason
		want   Principal
	}{
		"nothing sent":        {nil, ok, everything},
		"some token":          {metadata.Pairs("authorization", "Bearer pawl_x_y"), ok, everything},
		"for local":           {metadata.Pairs(onBehalfKey, "local"), ok, Principal{Sub: "local", Roles: []Role{RoleUser}, OnBehalf: true}},
		"for another user":    {metadata.Pairs(onBehalfKey, "alice"), forbidden, Principal{}},
		"token and on behalf": {metadata.Pairs("authorization", "Bearer t", onBehalfKey, "alice"), forbidden, Principal{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, _, err := call(t, Local(), "/pawl.v1.S/M", c.md)
			if errs.Reason(err) != c.reason {
				t.Errorf("err = %v, want %v", err, c.reason)
			}
			if diff := cmp.Diff(c.want, p); diff != "" {
				t.Errorf("principal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromContextWithoutPrincipal(t *testing.T) {
	if _, err := FromContext(ctx); errs.Reason(err) != noAuth {
		t.Errorf("err = %v", err)
	}
}

func TestOnBehalfOfTravels(t *testing.T) {
	out := metadata.AppendToOutgoingContext(ctx, "k", "v", onBehalfKey, "before")
	out = OnBehalfOf(out, "李雷|100%")
	md, _ := metadata.FromOutgoingContext(out)
	for _, v := range md[onBehalfKey] {
		if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q cannot travel as metadata", v)
		}
	}
	sub, given, err := onBehalfOf(metadata.NewIncomingContext(ctx, md))
	if sub != "李雷|100%" || !given || err != nil || md.Get("k")[0] != "v" {
		t.Errorf("onBehalfOf = %q, %v, %v of %v", sub, given, err, md)
	}
}

func TestBearerCredentials(t *testing.T) {
	none, err := BearerCredentials("").GetRequestMetadata(ctx)
	if len(none) != 0 || err != nil || BearerCredentials("x").RequireTransportSecurity() {
		t.Errorf("none = %v, %v", none, err)
	}
	some, err := BearerCredentials("pawl_a_b").GetRequestMetadata(ctx)
	if diff := cmp.Diff(map[string]string{"authorization": "Bearer pawl_a_b"}, some); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
