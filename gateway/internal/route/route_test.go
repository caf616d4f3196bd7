package route_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"pawl.dev/gateway/internal/route"
)

// service makes a service whose methods have these annotations; M0, M1 …
func service(t *testing.T, rules ...*annotations.HttpRule) protoreflect.ServiceDescriptor {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("t.proto"), Package: proto.String("t"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("E")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S")}},
	}
	for i, rule := range rules {
		options := &descriptorpb.MethodOptions{}
		if rule != nil {
			proto.SetExtension(options, annotations.E_Http, rule)
		}
		file.Service[0].Method = append(file.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String("M" + string(rune('0'+i))), InputType: proto.String(".t.E"), OutputType: proto.String(".t.E"), Options: options,
		})
	}
	fd, err := protodesc.NewFile(file, &protoregistry.Files{})
	if err != nil {
		t.Fatal(err)
	}
	return fd.Services().Get(0)
}

func get(path string) *annotations.HttpRule {
	return &annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: path}}
}

func TestMatch(t *testing.T) {
	post := &annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: "/v1/things/{id}:stop"}, Body: "*"}
	remove := &annotations.HttpRule{Pattern: &annotations.HttpRule_Delete{Delete: "/v1/things/{id}"}}
	put := &annotations.HttpRule{Pattern: &annotations.HttpRule_Put{Put: "/v1/things/{thing.id}"}, Body: "thing",
		AdditionalBindings: []*annotations.HttpRule{{Pattern: &annotations.HttpRule_Patch{Patch: "/v1/things/{thing.id}"}, Body: "thing"}}}
	table, err := route.NewTable(service(t, get("/v1/things/{id}"), post, remove, put, get("/v1/things/{id}/parts/{part}"), nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(table.Routes()); got != 6 {
		t.Errorf("%d routes, want 6", got)
	}
	tests := []struct {
		method, path, rpc, allow string
		values                   map[string]string
	}{
		{"GET", "/v1/things/a", "M0", "", map[string]string{"id": "a"}},
		{"POST", "/v1/things/a:stop", "M1", "", map[string]string{"id": "a"}},
		{"PATCH", "/v1/things/a", "M3", "", map[string]string{"thing.id": "a"}},
		{"GET", "/v1/things/a/parts/b", "M4", "", map[string]string{"id": "a", "part": "b"}},
		{"POST", "/v1/things/a", "", "DELETE GET PATCH PUT", nil},
		{"GET", "/v1/things/a:stop", "", "POST", nil},
		{"GET", "/v1/things/a:b:stop", "", "", nil},
		{"GET", "/v1/things/a:go", "", "", nil},
		{"GET", "/v1/things/", "", "", nil},
		{"GET", "/v1/things", "", "", nil},
		{"GET", "/v1/things/a/", "", "", nil},
		{"GET", "v1/things/a", "", "", nil},
		{"GET", "", "", "", nil},
		{"POST", "/v1/things/:stop", "", "", nil},
		{"GET", "/v1/things:x/a", "", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			rt, values, allow := table.Match(tt.method, tt.path)
			rpc := ""
			if rt != nil {
				rpc = string(rt.RPC.Name())
			}
			if rpc != tt.rpc || strings.Join(allow, " ") != tt.allow {
				t.Errorf("RPC %q, allow %v; want %q, %s", rpc, allow, tt.rpc, tt.allow)
			}
			if diff := cmp.Diff(tt.values, values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplatesThatAreNotServed(t *testing.T) {
	for _, path := range []string{"v1", "/v1/", "/v1/{a", "/v1/a}", "/v1/{name=things/*}", "/v1/**", "/v1/{a}{b}"} {
		if _, err := route.NewTable(service(t, get(path))); err == nil || !strings.Contains(err.Error(), "t.S.M0") {
			t.Errorf("%s: error %v, want one that names the RPC", path, err)
		}
	}
	custom := &annotations.HttpRule{Pattern: &annotations.HttpRule_Custom{Custom: &annotations.CustomHttpPattern{Kind: "HEAD", Path: "/v1"}}}
	if _, err := route.NewTable(service(t, custom)); err == nil {
		t.Error("a custom pattern is taken")
	}
}
