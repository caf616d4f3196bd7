package rest

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
	_ "google.golang.org/protobuf/types/known/structpb" // the messages of the RPCs
)

// testService makes a service whose methods have these annotations; M0, M1 …
func testService(t *testing.T, rules ...*annotations.HttpRule) protoreflect.ServiceDescriptor {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("t.proto"), Package: proto.String("t"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/struct.proto"},
		Service:    []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S")}},
	}
	for i, rule := range rules {
		options := &descriptorpb.MethodOptions{}
		if rule != nil {
			proto.SetExtension(options, annotations.E_Http, rule)
		}
		file.Service[0].Method = append(file.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String("M" + string(rune('0'+i))), InputType: proto.String(".google.protobuf.Struct"), OutputType: proto.String(".google.protobuf.Struct"), Options: options,
		})
	}
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return fd.Services().Get(0)
}

func get(path string) *annotations.HttpRule {
	return &annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: path}}
}

func TestRoutesOf(t *testing.T) {
	post := &annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: "/v1/things/{id}:stop"}, Body: "*"}
	put := &annotations.HttpRule{Pattern: &annotations.HttpRule_Put{Put: "/v1/things/{thing.id}"}, Body: "thing",
		AdditionalBindings: []*annotations.HttpRule{{Pattern: &annotations.HttpRule_Patch{Patch: "/v1/things/{thing.id}/parts/{part}"}, Body: "thing"}}}
	routes, err := routesOf(testService(t, get("/v1/things/{id}"), post, nil, put))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rt := range routes {
		got = append(got, strings.Join(append([]string{string(rt.RPC.Name()), rt.Method, rt.Template, rt.Body}, rt.variables...), " "))
	}
	want := []string{
		"M0 GET /v1/things/{id}  id", "M1 POST /v1/things/{id}:stop * id",
		"M3 PUT /v1/things/{thing.id} thing thing.id", "M3 PATCH /v1/things/{thing.id}/parts/{part} thing thing.id part",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestCustomPatternsAreNotServed(t *testing.T) {
	custom := &annotations.HttpRule{Pattern: &annotations.HttpRule_Custom{Custom: &annotations.CustomHttpPattern{Kind: "HEAD", Path: "/v1"}}}
	if _, err := routesOf(testService(t, custom)); err == nil || !strings.Contains(err.Error(), "t.S.M0") {
		t.Errorf("error %v, want one that names the RPC", err)
	}
}
