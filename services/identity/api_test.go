package identity

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/errs"
)

var (
	admin = NewContext(ctx, Principal{Sub: "root", Roles: []Role{RoleUser, RoleOperator}})
	alice = NewContext(ctx, Principal{Sub: "alice", Roles: userRoles})
)

func TestAPIKeysByRPC(t *testing.T) {
	k, clock := open(t, keyPath(t))
	api := NewAPI(k)
	made, err := api.CreateApiKey(admin, &identityv1.CreateApiKeyRequest{
		Sub: "alice", Note: "laptop", ExpireTime: timestamppb.New(clock.now().Add(time.Hour)), RequestId: "r1",
	})
	if err != nil {
		t.Fatal(err)
	}
	other, err := api.CreateApiKey(admin, &identityv1.CreateApiKeyRequest{
		Sub: "bob", Roles: []identityv1.Role{identityv1.Role_ROLE_SERVICE, identityv1.Role_ROLE_USER},
	})
	if err != nil || !slices.Equal(other.GetApiKey().GetRoles(), []identityv1.Role{identityv1.Role_ROLE_USER, identityv1.Role_ROLE_SERVICE}) {
		t.Fatalf("%v, %v", other, err)
	}
	limited, err := api.CreateApiKey(admin, &identityv1.CreateApiKeyRequest{
		Sub: "svc", Roles: []identityv1.Role{identityv1.Role_ROLE_SERVICE}, OnBehalfOf: []string{"alice"}, Methods: []string{"pawl.mcppool.v1.*"},
	})
	if err != nil || !slices.Equal(limited.GetApiKey().GetOnBehalfOf(), []string{"alice"}) || !slices.Equal(limited.GetApiKey().GetMethods(), []string{"pawl.mcppool.v1.*"}) {
		t.Fatalf("%v, %v", limited, err)
	}
	if who, err := k.Authenticate(ctx, limited.GetToken()); err != nil || !slices.Equal(who.Rights.OnBehalfOf, []string{"alice"}) {
		t.Fatalf("%v, %v", who, err)
	}
	if _, err := api.RevokeApiKey(admin, &identityv1.RevokeApiKeyRequest{Id: limited.GetApiKey().GetId()}); err != nil {
		t.Fatal(err)
	}
	_, err = api.CreateApiKey(admin, &identityv1.CreateApiKeyRequest{Sub: "svc", OnBehalfOf: []string{"alice"}})
	wantCode(t, err, codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST)
	_, err = api.CreateApiKey(admin, &identityv1.CreateApiKeyRequest{Sub: "alice", RequestId: "r1"})
	wantCode(t, err, codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS)

	who, err := k.Authenticate(ctx, made.GetToken())
	if err != nil || who.Sub != "alice" || !who.Expires.Equal(made.GetApiKey().GetExpireTime().AsTime()) {
		t.Fatalf("%v, %v", who, err)
	}
	me, err := api.WhoAmI(NewContext(ctx, who), nil)
	if err != nil || me.GetSub() != "alice" || me.GetKeyId() != made.GetApiKey().GetId() || me.GetExpireTime() == nil {
		t.Errorf("%v, %v", me, err)
	}
	own, err := api.ListApiKeys(alice, &identityv1.ListApiKeysRequest{})
	if err != nil || len(own.GetApiKeys()) != 1 || !own.GetApiKeys()[0].GetLastUseTime().AsTime().Equal(clock.now()) {
		t.Errorf("alice sees %v, %v", own, err)
	}
	first, err := api.ListApiKeys(admin, &identityv1.ListApiKeysRequest{PageSize: 1})
	if err != nil || len(first.GetApiKeys()) != 1 || first.GetNextPageToken() == "" {
		t.Fatalf("%v, %v", first, err)
	}
	second, err := api.ListApiKeys(admin, &identityv1.ListApiKeysRequest{PageSize: 1, PageToken: first.GetNextPageToken()})
	if err != nil || len(second.GetApiKeys()) != 1 || second.GetNextPageToken() != "" || second.GetApiKeys()[0].GetId() == first.GetApiKeys()[0].GetId() {
		t.Errorf("%v, %v", second, err)
	}

	_, err = api.RevokeApiKey(alice, &identityv1.RevokeApiKeyRequest{Id: other.GetApiKey().GetId()})
	wantCode(t, err, codes.NotFound, commonv1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND)
	_, err = api.RevokeApiKey(admin, &identityv1.RevokeApiKeyRequest{Id: "bob"})
	wantCode(t, err, codes.NotFound, commonv1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND)
	if !strings.Contains(err.Error(), "there is no API key") {
		t.Error(err)
	}
	if _, err := api.RevokeApiKey(alice, &identityv1.RevokeApiKeyRequest{Id: made.GetApiKey().GetId()}); err != nil {
		t.Error(err)
	}
	wantUnauthenticated(t, k, made.GetToken()) // at once
}

// A key whose methods match none could call nothing (issue 13).
func TestMethodsOfNewKeys(t *testing.T) {
	k, _ := open(t, keyPath(t))
	for glob, want := range map[string]string{
		"nonsense.*": "matches no method", "pawl.planner.v1.PlannerService/Plans": "matches no method", "pawl.planner.v2.*": "pawl.planner.v1.PlannerService",
		"a[": "is not a glob", "pawl.**": "", "pawl.planner.v1.*": "", "pawl.mcppool.v1.McpPoolPeerService": "", "/pawl.executor.v1.AgentService/List*": "",
	} {
		_, err := NewAPI(k).CreateApiKey(admin, &identityv1.CreateApiKeyRequest{
			Sub: "svc", Roles: []identityv1.Role{identityv1.Role_ROLE_SERVICE}, Methods: []string{"pawl.identity.v1.IdentityService/*", glob},
		})
		if want == "" && err == nil {
			continue
		}
		if wantCode(t, err, codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST); want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", glob, err, want)
		}
	}
}

func TestAPIKeysAreManagedByThoseWhoMay(t *testing.T) {
	k, clock := open(t, keyPath(t))
	api := NewAPI(k)
	_, err := api.CreateApiKey(alice, &identityv1.CreateApiKeyRequest{Sub: "alice"})
	wantCode(t, err, codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED)
	behalf := NewContext(ctx, Principal{Sub: "alice", Roles: userRoles, OnBehalf: true})
	_, err = api.ListApiKeys(behalf, &identityv1.ListApiKeysRequest{})
	wantCode(t, err, codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED)
	_, err = NewAPI(Local()).ListApiKeys(admin, &identityv1.ListApiKeysRequest{})
	wantCode(t, err, codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG)
	_, err = api.CreateApiKey(admin, &identityv1.CreateApiKeyRequest{Sub: "alice", ExpireTime: timestamppb.New(clock.now())})
	wantCode(t, err, codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST)
	_, err = api.WhoAmI(ctx, nil)
	wantCode(t, err, codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED)
}

func TestExpiredKeyIsRefused(t *testing.T) {
	path := keyPath(t)
	k, clock := open(t, path)
	token, _, err := k.Add(Key{Sub: "alice", Roles: userRoles, Expires: clock.now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	other, _ := open(t, path) // the expiry is stored
	wantSub(t, other, token, "alice")
	wantSub(t, k, token, "alice")
	clock.add(time.Minute)
	wantUnauthenticated(t, k, token)
}

func TestKeyFileThatCannotBeWritten(t *testing.T) {
	path := keyPath(t)
	k, _ := open(t, path)
	write(t, filepath.Dir(path), "a file in place of the folder, which root cannot write into either")
	_, err := NewAPI(k).CreateApiKey(admin, &identityv1.CreateApiKeyRequest{Sub: "bob"})
	wantCode(t, err, codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR)
}

func wantCode(t *testing.T, err error, code codes.Code, reason commonv1.ErrorReason) {
	t.Helper()
	if status.Code(err) != code || errs.Reason(err) != reason {
		t.Errorf("got %v; want %s %s", err, code, reason)
	}
}
