package security

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/test/rig"
)

// TestWhoMayCall tries each RPC with callers that may not make the call, over gRPC and REST: they are refused, and nothing changes. Then those who
// may make it do, which shows that the requests are right.
func TestWhoMayCall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	methods := methods(t)
	w := newWorld(ctx, t)
	w.checkServices(ctx, t)
	before, cells := w.dump(ctx, t), 0
	for _, r := range rules {
		rpc, body := methods[r.rpc], w.objects.Replace(r.body)
		for _, c := range slices.Concat(w.refusals(r), w.forgedCells(), w.byToken(w.others(r))) {
			cells++
			c.check(t, "gRPC", r, overGRPC(ctx, w.conn, rpc, body, c.caller))
			if rig.Route(rpc) != nil && len(c.onBehalf) == 0 {
				cells++
				c.check(t, "REST", r, overREST(ctx, w.http, rpc, body, c.caller))
			}
		}
		after := w.dump(ctx, t)
		if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")); diff != "" {
			t.Errorf("%s %s: refused calls changed the state (-before +after):\n%s", r.rpc, r.body, diff)
			before = after
		}
	}
	t.Logf("%d rules, %d cells", len(rules), cells)
	for _, r := range rules {
		rpc, body := methods[r.rpc], w.objects.Replace(r.body)
		for _, c := range w.allowed(r) {
			c.check(t, "gRPC", r, overGRPC(ctx, w.conn, rpc, body, c.caller))
			if rig.Route(rpc) != nil && !r.change && len(c.onBehalf) == 0 {
				c.check(t, "REST", r, overREST(ctx, w.http, rpc, body, c.caller))
			}
			if !r.change {
				c = w.byToken([]cell{c})[0]
				c.check(t, "gRPC", r, overGRPC(ctx, w.conn, rpc, body, c.caller))
			}
		}
	}
	w.checkLog(t)
}

// checkLog checks that no secret of a key and no token of an issuer was logged, valid or not.
func (w *world) checkLog(t *testing.T) {
	t.Helper()
	var secrets []string
	for _, key := range append(slices.Collect(maps.Values(w.tokens)), w.removed, w.expired) {
		secrets = append(secrets, key[strings.LastIndexByte(key, '_')+1:])
	}
	secrets = append(secrets, w.signedParts()...)
	for _, line := range w.log.lines() {
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				t.Errorf("the log has a part of a credential: %s", line)
			}
		}
	}
}

// methods returns all RPCs of the protos by the names that rules have, after a check that each has a rule and each rule an RPC.
func methods(t *testing.T) map[string]protoreflect.MethodDescriptor {
	t.Helper()
	found := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if !strings.HasPrefix(string(service.FullName()), "pawl.") {
				continue
			}
			for j := range service.Methods().Len() {
				rpc := service.Methods().Get(j)
				found[string(service.FullName())+"/"+string(rpc.Name())] = rpc
			}
		}
		return true
	})
	for name := range found {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.rpc == name }) {
			t.Errorf("%s has no rule: say in rules_test.go who may call it", name)
		}
	}
	for _, r := range rules {
		if found[r.rpc] == nil {
			t.Fatalf("there is no %s", r.rpc)
		}
	}
	return found
}

// checkServices checks that the suite serves the services that have rules, and no others.
func (w *world) checkServices(ctx context.Context, t *testing.T) {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(w.conn).ServerReflectionInfo(as(ctx, w.tokens["ann"]))
	must(t, err)
	must(t, stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	res, err := stream.Recv()
	must(t, err)
	want := []string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
	for _, r := range rules {
		service, _, _ := strings.Cut(r.rpc, "/")
		want = append(want, service)
	}
	var served []string
	for _, s := range res.GetListServicesResponse().GetService() {
		served = append(served, s.GetName())
	}
	slices.Sort(want)
	slices.Sort(served)
	if diff := cmp.Diff(slices.Compact(want), served); diff != "" {
		t.Errorf("services (-with rules +served):\n%s", diff)
	}
	stream, err = reflectionv1.NewServerReflectionClient(w.conn).ServerReflectionInfo(ctx)
	must(t, err)
	must(t, stream.CloseSend())
	if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("reflection without a credential: %v, want Unauthenticated", err)
	}
}

// cell is a caller of a rule, and how the call has to end.
type cell struct {
	caller
	want  codes.Code
	shows string // what the answer has to have
	hides string // what it must not have
}

func (c cell) check(t *testing.T, transport string, r rule, got answer) {
	t.Helper()
	if got.code != c.want {
		t.Errorf("%s %s %s by %s: %v, want %v; %.300s", transport, r.rpc, r.body, c.name, got.code, c.want, got.text)
	}
	if c.shows != "" && !strings.Contains(got.text, c.shows) && !strings.Contains(got.text, strings.ReplaceAll(c.shows, ":", ": ")) {
		t.Errorf("%s %s %s by %s: %.300s, want %q in it", transport, r.rpc, r.body, c.name, got.text, c.shows)
	}
	if c.hides != "" && strings.Contains(got.text, c.hides) {
		t.Errorf("%s %s %s by %s shows %q: %.500s", transport, r.rpc, r.body, c.name, c.hides, got.text)
	}
}

// refusals returns the callers that may not make a rule's request, and those who may and must not see anything of ann.
func (w *world) refusals(r rule) []cell {
	valid := w.allowed(r)[0].authorization[0]
	var cells []cell
	for name, authorization := range map[string][]string{
		"no credential": nil, "empty": {""}, "no scheme": {w.tokens["ann"]}, "another scheme": {"Basic " + w.tokens["ann"]}, "no token": {"Bearer "},
		"no key": {"Bearer eyJhbGciOiJub25lIn0.e30."}, "an unknown key": {"Bearer pawl_aaaaaaaa_" + strings.Repeat("a", 52)}, "half a key": {"Bearer pawl_" + idOf(w.tokens["ann"])},
		"a wrong secret": {"Bearer " + w.wrong}, "a removed key": {"Bearer " + w.removed}, "an expired key": {"Bearer " + w.expired},
		"two keys": {valid, "Bearer " + w.tokens["bob"]}, "one key twice": {valid, valid},
	} {
		cells = append(cells, cell{caller: caller{name: name, authorization: authorization}, want: codes.Unauthenticated, hides: marker})
	}
	for _, c := range []struct {
		sub      string
		onBehalf []string
		want     codes.Code
	}{
		{"bob", []string{"ann"}, codes.PermissionDenied}, {"olga", []string{"ann"}, codes.PermissionDenied}, {"ann", []string{"olga"}, codes.PermissionDenied},
		{"svc", []string{"ann", "ann"}, codes.InvalidArgument}, {"svc", []string{""}, codes.InvalidArgument}, {"svc", []string{"a%20b"}, codes.InvalidArgument}, {"svc", []string{"%zz"}, codes.InvalidArgument},
	} {
		cells = append(cells, w.by(c.sub, c.want, c.onBehalf...))
	}
	cells = append(cells, w.by("narrow", codes.PermissionDenied, "ann"), w.by("narrow", codes.PermissionDenied, "bobby"))
	if r.rpc != whoAmI {
		cells = append(cells, w.by("limited", codes.PermissionDenied), w.by("limited", codes.PermissionDenied, "ann"))
	}
	return append(cells, w.others(r)...)
}

// others returns the callers with valid credentials that may not make a rule's request, and those who may and must not see anything of ann.
func (w *world) others(r rule) []cell {
	var cells []cell
	if r.self {
		cells = append(cells, w.by("svc", codes.PermissionDenied, "ann"))
	}
	add := func(want codes.Code, subs ...string) {
		for _, sub := range subs {
			service, behalf, acts := strings.Cut(sub, " for ")
			switch {
			case !acts:
				cells = append(cells, w.by(sub, want))
			case !r.self:
				cells = append(cells, w.by(service, want, behalf))
			}
		}
	}
	switch r.who {
	case own:
		add(codes.PermissionDenied, "svc")
	case view:
		add(codes.OK, "bob", "olga", "svc for bob")
		if r.rpc == whoAmI {
			add(codes.OK, "svc")
		} else {
			add(codes.PermissionDenied, "svc")
		}
		if strings.HasPrefix(r.rpc, keys) { // operators see all keys
			cells = slices.DeleteFunc(cells, func(c cell) bool { return c.name == "olga" })
		}
		for i := range cells {
			if cells[i].want == codes.OK {
				cells[i].hides = r.shows
			}
		}
	case named:
		add(codes.NotFound, "bob", "svc for bob")
		add(codes.PermissionDenied, "svc")
		if !strings.HasPrefix(r.rpc, keys) { // operators revoke all keys
			add(codes.NotFound, "olga")
		}
	case operators:
		add(codes.PermissionDenied, "ann", "bob", "svc", "svc for olga")
	case operatorsAndOwner:
		add(codes.PermissionDenied, "bob", "svc", "svc for bob", "svc for olga")
	case operatorsOnAnothers:
		add(codes.PermissionDenied, "ann", "svc", "svc for ann")
		add(codes.NotFound, "bob", "svc for olga")
	case delegates:
		add(codes.PermissionDenied, "ann", "olga", "svc")
	case services:
		add(codes.PermissionDenied, "ann", "olga", "svc for ann", "svc for olga")
	}
	return cells
}

// allowed returns the callers that may make a rule's request.
func (w *world) allowed(r rule) []cell {
	if r.who == delegates {
		return []cell{w.by("svc", r.ok, "ann")}
	}
	subs := map[access][]string{
		own: {"ann"}, view: {"ann"}, named: {"ann"}, operators: {"olga"}, operatorsAndOwner: {"ann", "olga"}, operatorsOnAnothers: {"olga"}, services: {"svc"},
	}[r.who]
	var cells []cell
	for _, sub := range subs {
		c := w.by(sub, r.ok)
		if r.ok == codes.OK {
			c.shows = r.shows
		}
		cells = append(cells, c)
	}
	return cells
}

// by returns the cell of a caller with its own key.
func (w *world) by(sub string, want codes.Code, onBehalf ...string) cell {
	c := cell{caller: caller{name: sub, authorization: []string{"Bearer " + w.tokens[sub]}, onBehalf: onBehalf}, want: want}
	if len(onBehalf) > 0 {
		c.name += " on behalf of " + strings.Join(onBehalf, ", ")
	}
	return c
}
